"""Types that the signatures of the package share."""

from typing import Any

from jax import Array
from jax.typing import ArrayLike

__all__ = ["Array", "ArrayLike", "PyTree"]

PyTree = Any
