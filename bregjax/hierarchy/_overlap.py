"""How many pairs of rows share no observed column."""

import numpy as np

from bregjax._problem import Problem
from bregjax.families import Product

__all__ = ["pairs_apart", "shares_no_column"]

# Rows whose pairs are all looked at; of more rows so many are drawn.
_MANY_ROWS = 4000


def shares_no_column(problem: Problem) -> str:
    """A sentence where rows merge at no cost because they share no column, or ""."""
    family = problem.family
    if not isinstance(family, Product) or family.layout.missing == "scaled":
        return ""
    seen = ~np.isnan(np.asarray(problem.x))
    if seen.all():
        return ""
    apart, pairs = pairs_apart(seen)
    if not apart:
        return ""
    m = len(seen)
    number = f"{apart:,}" if m <= _MANY_ROWS else f"about {apart:,.2g}"
    return (
        f"`x` lacks {1 - seen.mean():.0%} of its cells, so that {number} of {pairs:,} "
        f"pairs of rows ({apart / pairs:.2g} of all) share no observed column. Such "
        "pairs cost nothing to merge, and come early in the tree, those first that "
        'share a column with more rows. missing="scaled" compares costs per observed '
        "weight; or drop rows with few cells."
    )


def pairs_apart(seen: np.ndarray) -> tuple[float, int]:
    """How many pairs of rows share no column, of how many; about, of many rows.

    Args:
        seen: Which cells are observed, `[m, d]`.

    Examples:
        >>> print(*pairs_apart(np.array([[1, 0], [0, 1], [1, 1]], bool)))
        1 3
    """
    m = len(seen)
    pairs = m * (m - 1) // 2
    some = seen
    if m > _MANY_ROWS:
        some = seen[np.random.default_rng(0).choice(m, _MANY_ROWS, replace=False)]
    patterns, counts = np.unique(some, axis=0, return_counts=True)
    shared = patterns.astype(np.float32) @ patterns.T.astype(np.float32)
    weight = counts.astype(float)
    # A row shares its columns with itself: only pairs of different patterns are apart.
    apart = weight @ (shared == 0) @ weight / 2
    n = len(some)
    return (int(apart) if n == m else apart * pairs / (n * (n - 1) / 2)), pairs
