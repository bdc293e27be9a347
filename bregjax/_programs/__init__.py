"""Programs that NumPy runs where compiling would take longer than their work."""

from bregjax._programs.calls import Program as Program
from bregjax._programs.calls import compiling as compiling
from bregjax._programs.calls import program as program
