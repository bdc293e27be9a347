"""Parameters that are one number for all columns, or a number for each."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._typing import Array, PyTree

__all__ = ["as_rows", "column_axes", "in_columns"]


def in_columns(tree: PyTree, columns: Array | np.ndarray) -> PyTree:
    """Take from parameters of all columns those of some; single numbers stay.

    Args:
        tree: Of leaves that are numbers, or have one for each column, `[d]`.
        columns: Numbers of columns; numbers past the last column stand for the last.
    """

    def chosen(leaf: Any) -> Any:
        if np.ndim(leaf) != 1:
            return leaf
        known = isinstance(leaf, np.ndarray) and isinstance(columns, np.ndarray)
        xp = np if known else jnp
        return xp.asarray(leaf)[xp.minimum(columns, len(leaf) - 1)]

    return jax.tree.map(chosen, tree)


def as_rows(tree: PyTree) -> PyTree:
    """Make of parameters of d columns those of d rows of one column, `[d, 1]`."""
    return jax.tree.map(
        lambda leaf: leaf[:, None] if np.ndim(leaf) == 1 else leaf, tree
    )


def column_axes(tree: PyTree) -> PyTree:
    """For `jax.vmap` over columns: axis 0 of parameters of each column, else None."""
    return jax.tree.map(lambda leaf: 0 if np.ndim(leaf) else None, tree)
