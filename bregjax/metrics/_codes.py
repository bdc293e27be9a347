"""Classes and labels of leaves as numbers."""

from collections.abc import Hashable, Sequence

import numpy as np

from bregjax._inputs import refuse_masked
from bregjax._typing import Array

__all__ = ["codes_of"]


def codes_of(
    name: str, classes: Sequence[Hashable] | np.ndarray | Array, num_leaves: int
) -> list[int]:
    """Number the classes of leaves from 0, in the order in which they first come.

    Args:
        name: The argument's name.
        classes: The class of each leaf: numbers, strings or anything hashable.
        num_leaves: How many there must be.

    Raises:
        ValueError: If there are others, or one is missing or not hashable.
    """
    # A list stays a list: in an array, NumPy would make 1 and "1" the same class.
    refuse_masked(name, classes)
    array = np.asarray(classes) if hasattr(classes, "__array__") else None
    if array is not None and array.ndim != 1:
        raise ValueError(
            f"`{name}` must be one class a leaf, shape [{num_leaves}]; got shape "
            f"{list(array.shape)}."
        )
    values = list(classes) if array is None else array.tolist()
    if len(values) != num_leaves:
        raise ValueError(
            f"`{name}` must name the class of each of the {num_leaves} leaves; got "
            f"{len(values)}."
        )
    code_of: dict[Hashable, int] = {}
    codes = []
    for index, value in enumerate(values):
        if not isinstance(value, Hashable) or _is_missing(value):
            raise ValueError(
                f"`{name}` must be hashable and present; got {value!r} at index "
                f"{index}. Drop the point or give it a class of its own."
            )
        codes.append(code_of.setdefault(value, len(code_of)))
    return codes


def _is_missing(value: Hashable) -> bool:
    """Whether a class is None, NaN, NaT, or pandas NA, which has no truth value."""
    try:
        return value is None or bool(value != value)
    except TypeError:
        return True
