"""What users pass for the leaves of a tree or the rows of a table."""

from typing import Any, SupportsIndex

import numpy as np

from bregjax._typing import DataLike
from bregjax.hierarchy import Dendrogram

__all__ = ["check_length", "labels_and_numbers"]


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
    numbers, codes = np.unique(np.asarray(labels), return_inverse=True)
    return codes, list(numbers)
