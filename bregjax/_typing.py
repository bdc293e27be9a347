"""Types that the signatures of the package share."""

from typing import Any

import numpy.typing as npt
from jax import Array
from jax.typing import ArrayLike

__all__ = ["Array", "ArrayLike", "DataLike", "PyTree", "TableLike"]

PyTree = Any

DataLike = Array | npt.ArrayLike
"""What users pass: arrays of JAX or NumPy, and nested lists of numbers."""

TableLike = Any
"""What users pass as rows: `DataLike`, or a sparse matrix of SciPy's or JAX's."""
