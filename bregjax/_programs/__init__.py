"""Programs that NumPy runs where compiling would take longer than their work."""

from bregjax._programs.calls import Program as Program
from bregjax._programs.calls import compile_nanoseconds as compile_nanoseconds
from bregjax._programs.calls import program as program
