"""The data set that comes with the package."""

from bregjax.datasets._glass import Dataset as Dataset
from bregjax.datasets._glass import load_glass as load_glass
