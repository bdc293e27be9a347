"""What users pass for the leaves of a tree or the rows of a table."""

import re
from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np

from bregjax._typing import DataLike
from bregjax.hierarchy import Dendrogram

__all__ = ["check_length", "distinct", "is_no_cluster", "labels_and_numbers"]


def check_length(argument: str, value: Any, count: int, what: str = "leaves") -> None:
    """Raise unless there are as many entries as there are leaves."""
    if value is not None and len(np.asarray(value, dtype=object)) != count:
        raise ValueError(
            f"`{argument}` must have one entry for each of the {count} {what}; got "
            f"{len(np.asarray(value, dtype=object))}."
        )


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
    check_length("labels", labels, tree.num_leaves)
    if num_clusters is not None:
        labels = np.asarray(tree.cut(num_clusters=num_clusters))
    if labels is None:
        return None, []
    numbers, codes = distinct(labels)
    return codes, numbers


def distinct(values: Sequence[Any] | Any) -> tuple[list[Any], np.ndarray]:
    """The different values in order, and the place there of each; site 2 before 10."""
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
