"""What users pass for the leaves of a tree or the rows of a table."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, SupportsIndex

import numpy as np

from bregjax._typing import DataLike
from bregjax.hierarchy import Dendrogram

__all__ = ["distinct", "entries", "is_no_cluster", "labels_and_numbers"]


def entries(argument: str, value: Any, count: int, what: str = "leaves") -> list[Any]:
    """What a user passes for each leaf, in order, without an index of its own.

    Args:
        argument: What the argument is called.
        value: A list, an array or a column of a data frame.
        count: How many entries it must have.
        what: What these are for.

    Raises:
        TypeError: If it is no list: a text, a dictionary, a set, an iterator.
        ValueError: If it has another length, or is a table.
    """
    needed = f"`{argument}` must have one entry for each of the {count} {what}"
    is_list = hasattr(value, "__len__") and hasattr(value, "__getitem__")
    if not is_list or isinstance(value, str | bytes | Mapping):
        remedy = f" Take list({argument})." if hasattr(value, "__iter__") else ""
        raise TypeError(
            f"{needed}, as a list or an array; got {type(value).__name__}.{remedy}"
        )
    if hasattr(value, "__array__"):
        value = np.asarray(value)
        if value.ndim != 1:
            raise ValueError(
                f"{needed}, in one dimension; got an array of shape {value.shape}. "
                "Take one of its columns."
            )
    found = list(value)
    if len(found) != count:
        raise ValueError(f"{needed}; got {len(found)}.")
    for place, entry in enumerate(found):
        if isinstance(entry, list) or getattr(entry, "ndim", 0):
            raise ValueError(
                f"{needed}, in one dimension; entry {place} is {entry!r}. Take one "
                "column, or make each entry a text or a tuple."
            )
    return found


def labels_and_numbers(
    tree: Dendrogram,
    num_clusters: SupportsIndex | None,
    labels: DataLike | None,
) -> tuple[np.ndarray | None, list[Any]]:
    """The place of each leaf's cluster among all clusters, and what these are called.

    Raises:
        ValueError: If both are given, or either does not fit.
    """
    if num_clusters is not None and labels is not None:
        raise ValueError(
            f"Give one of `num_clusters` and `labels`; got {num_clusters} and labels. "
            "Leave one out."
        )
    if num_clusters is not None:
        labels = np.asarray(tree.cut(num_clusters=num_clusters))
    if labels is None:
        return None, []
    numbers, codes = distinct(entries("labels", labels, tree.num_leaves))
    return codes, numbers


def distinct(values: Sequence[Any]) -> tuple[list[Any], np.ndarray]:
    """The different values in order, and the place there of each; site 2 before 10."""
    if any(isinstance(value, tuple) for value in values):  # each is one value
        given = np.empty(len(values), object)
        given[:] = values
    else:
        given = np.asarray(values)
    try:
        found, codes = np.unique(given, return_inverse=True)
    except TypeError:  # values that have no order, such as None beside names
        names = [str(value) for value in given]
        found, codes = np.unique(names, return_inverse=True)
    if found.dtype.kind in "biuf":
        return list(found), codes
    ranked = sorted(range(len(found)), key=lambda place: _natural(found[place]))
    return [found[place] for place in ranked], np.argsort(ranked)[codes]


def is_no_cluster(label: Any) -> bool:
    """Whether a label is −1, of rows that belong to no cluster."""
    return isinstance(label, int | np.integer) and label == -1


def _natural(value: Any) -> list[Any]:
    """What sorts names by the numbers in them."""
    parts = re.split("([0-9]+)", str(value))
    return [int(part) if k % 2 else part for k, part in enumerate(parts)]
