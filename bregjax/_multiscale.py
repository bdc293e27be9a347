"""Support of clusters by bootstraps of several sizes: approximately unbiased values."""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtr, ndtri

from bregjax._checks import as_key
from bregjax._problem import Problem
from bregjax._sparse_rows import SparseRows
from bregjax._support import occurrences, of_columns, reference_of
from bregjax._typing import Array, ArrayLike, DataLike
from bregjax.hierarchy import Dendrogram

__all__ = ["MultiscaleSupport", "multiscale_support"]

_SCALES = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4)
# So many sizes at least must have a share between 0 and 1 for a line to be fitted.
_FEWEST = 3


@dataclass(frozen=True)
class MultiscaleSupport:
    """What `multiscale_support` found, for each merge.

    Attributes:
        au: Approximately unbiased probabilities, `[t]`: what pvclust calls AU. 1 less
            this is the p-value of the hypothesis that the cluster does not exist.
        bp: Bootstrap probabilities at the size of the data, from the same fit, `[t]`.
        standard_error: Of `au`, `[t]`; 0 where no line was fitted.
        shares: In what share of the trees of each size the cluster occurs, `[t, s]`.
        scales: The sizes, as shares of the number of columns, `[s]`.
    """

    au: np.ndarray
    bp: np.ndarray
    standard_error: np.ndarray
    shares: np.ndarray
    scales: np.ndarray


def multiscale_support(
    problem: Problem,
    tree: Dendrogram | DataLike,
    *,
    scales: Sequence[float] = _SCALES,
    num_replicates: int = 100,
    key: ArrayLike = 0,
    progress: bool = False,
) -> MultiscaleSupport:
    """How well the columns support each cluster, corrected for the bias of a bootstrap.

    The share of resampled trees that have a cluster (`support_values`) is biased
    towards too little support: it depends on how curved the region is that data with
    the cluster make up. Trees of r d columns, drawn with replacement for several r,
    show the curvature. With P(r) the share at size r,

        −Φ⁻¹(P(r)) = v √r + c / √r,    AU = 1 − Φ(v − c),    BP = 1 − Φ(v + c)

    v and c by weighted least squares, each share weighing what its variance says. Where
    fewer than three shares lie between 0 and 1 there is nothing to fit: AU is 1 where
    most are over one half, and 0 elsewhere.

    Resampled trees are made without constraints, even if the tree was made under some.

    Example: shares 0.6, 0.7 and 0.8 at r = 0.5, 1 and 2 give v = −0.676 and c = 0.157,
    and so BP = 0.70 and AU = 0.80.

    Args:
        problem: Of a family whose costs are sums over columns.
        tree: The reference tree over its rows, or the children of one `[m − 1, 2]`.
        scales: r, two different ones at least.
        num_replicates: The number of trees of each size. pvclust takes 1,000.
        key: A JAX key, or an integer.
        progress: Show a bar of the trees (needs tqdm).

    Returns:
        Values for each merge.

    Raises:
        ValueError: As `support_values`, or if there are fewer than two scales, or one
            is not positive.
        TypeError: Under `jit` or another transformation.

    Examples:
        >>> from bregjax import agglomerate
        >>> x = np.random.default_rng(0).normal(size=(6, 20))
        >>> x[:3] += 2
        >>> problem = Problem(x, family="ward")
        >>> tree = agglomerate(problem)
        >>> found = multiscale_support(problem, tree, num_replicates=20)
        >>> print(tree.members(8), found.bp[2].round(2), found.au[2].round(2))
        [0 1 2] 0.93 0.8

    References:
        Shimodaira (2004), Approximately unbiased tests of regions using multistep-
        multiscale bootstrap resampling; Suzuki, Shimodaira (2006), Pvclust.
    """
    ratios = np.asarray(scales, float)
    if ratios.ndim != 1 or len(np.unique(ratios)) < 2 or not np.all(ratios > 0):
        raise ValueError(
            f"`scales` must be two different positive numbers or more; got {scales!r}."
        )
    problem, reference = reference_of(problem, tree, "columns", num_replicates, key)
    d = problem.x.shape[1]
    sizes = np.maximum(np.rint(ratios * d), 1).astype(int)
    keys = jax.random.split(as_key(key), len(sizes) * num_replicates)
    masks = np.arange(sizes.max()) < np.repeat(sizes, num_replicates)[:, None]
    groups = np.repeat(np.arange(len(sizes)), num_replicates)
    found = occurrences(
        problem,
        reference,
        _with_some_columns,
        (keys, masks),
        groups,
        progress=progress,
    )
    shares = found / num_replicates
    fitted = [fit_shares(row, sizes / d, num_replicates) for row in shares]
    au, bp, error = np.array(fitted).reshape(-1, 3).T
    return MultiscaleSupport(au, bp, error, shares, ratios)


def _with_some_columns(problem: Problem, draw: tuple[Array, Array]) -> Problem:
    """The problem with as many random columns as the mask has places.

    Inside `jit` columns of one value, which cost nothing, stand in the other places.
    """
    key, mask = draw
    d = problem.x.shape[1]
    columns = jax.random.randint(key, mask.shape, 0, d)
    if isinstance(problem.x, SparseRows) or isinstance(mask, np.ndarray):
        return of_columns(problem, np.asarray(columns)[np.asarray(mask)])
    drawn = of_columns(problem, columns)
    rows = jnp.where(mask[None], drawn.x, drawn.x[:1])
    return drawn._from_fields(**{**vars(drawn), "x": rows})


def fit_shares(
    shares: np.ndarray, scales: np.ndarray, num_replicates: int
) -> tuple[float, float, float]:
    """AU, BP and the standard error of AU, from shares `[s]` at sizes r `[s]`."""
    inside = (shares > 0) & (shares < 1)
    if len(np.unique(scales[inside])) < _FEWEST:
        sure = float(np.mean(shares) > 0.5)
        return sure, sure, 0.0
    p, root = shares[inside], np.sqrt(scales[inside])
    deviate = -ndtri(p)
    density = np.exp(-(deviate**2) / 2) / np.sqrt(2 * np.pi)
    weight = num_replicates * density**2 / (p * (1 - p))
    design = np.stack([root, 1 / root], axis=1)
    information = design.T @ (weight[:, None] * design)
    v, c = np.linalg.solve(information, design.T @ (weight * deviate))
    variance = np.linalg.solve(information, [1.0, -1.0]) @ [1.0, -1.0]
    slope = np.exp(-((v - c) ** 2) / 2) / np.sqrt(2 * np.pi)
    return float(ndtr(c - v)), float(ndtr(-v - c)), float(slope * np.sqrt(variance))
