"""The points of a problem, of dense rows or of sparse ones."""

import numpy as np

from bregjax._checks import is_concrete
from bregjax._evaluation import check_leaves, leaf_codes, padded, padded_size
from bregjax._problem import Problem, check_problem
from bregjax._sparse_rows import SparseRows
from bregjax._typing import PyTree
from bregjax.partition._base import Points
from bregjax.partition._dense_points import DensePoints
from bregjax.partition._sparse_points import SparsePoints

__all__ = ["check_on_host", "checked_on_host", "points_of"]


def checked_on_host(name: str, problem: Problem) -> Problem:
    """Return a problem that is checked, and known.

    Raises:
        TypeError: Under `jit` or another transformation, or if it is no problem.
        ValueError: If its costs are scaled, and no sums over rows.
    """
    problem = check_problem(problem)
    check_on_host(name, problem)
    if not problem.family.cluster_model().telescopes:
        raise ValueError(
            f"`problem` must have costs over observed cells for {name}; got "
            'missing="scaled", whose costs are no sums over rows. Make the problem '
            'again with missing="observed", and start from this tree.'
        )
    return problem


def check_on_host(name: str, tree: PyTree) -> None:
    """Raise TypeError unless all values are known."""
    if not is_concrete(tree):
        raise TypeError(
            f"`{name}` loops on the host: call it outside jit and vmap. Inside, take "
            "what it returns as constants."
        )


def points_of(problem: Problem, *, name: str = "x") -> Points:
    """The points of a known problem; call it in the precision of the work.

    Raises:
        ValueError: At the first row without a finite cost.
    """
    if isinstance(problem.x, SparseRows):
        check_leaves(leaf_codes(problem), problem, name=name)
        return SparsePoints(problem, padded_size(problem.num_points))
    whole = padded(problem)
    codes = np.asarray(leaf_codes(whole))[: problem.num_points]
    check_leaves(codes, problem, name=name)
    return DensePoints.of(whole, problem.num_points)
