"""The data set that comes with the package."""

from bregjax.datasets.glass import Dataset as Dataset
from bregjax.datasets.glass import load_glass as load_glass
