"""Smoothing: maps on leaf statistics that keep every cluster inside the domain.

A map is affine on statistics and is applied once, to the leaves; means of leaves then
carry it through every union. Its arrays are leaves of a pytree and differentiate; each
map says what its leaves are constrained to, and tuning moves them inside that.

References:
    Telgarsky and Dasgupta (2012), Section 5.
"""

import abc
import enum
from dataclasses import dataclass
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._checks import check_finite, check_weights, float_array, is_concrete
from bregjax._typing import Array, ArrayLike, PyTree
from bregjax.moments import Moments

__all__ = [
    "Adding",
    "Blur",
    "Constraint",
    "Mixing",
    "PseudoCount",
    "StatisticMap",
    "adding",
    "bernstein",
    "blur",
    "mixing",
    "normal_reference",
    "pseudo_count",
]


class Constraint(enum.Enum):
    """What a leaf of a smoothing map must satisfy."""

    REAL = "any real numbers"
    POSITIVE = "positive"
    UNIT_INTERVAL = "strictly between 0 and 1"
    SIMPLEX = "positive, adding up to 1 over the last axis"
    POSITIVE_DEFINITE = "symmetric positive definite over the last two axes"
    INVERTIBLE = "an invertible matrix, the factor of a covariance"


class StatisticMap(abc.ABC):
    """A smoothing statistic map τ (Definition 5.1) as it acts on leaves."""

    @abc.abstractmethod
    def __call__(self, statistics: PyTree, weights: Array) -> tuple[PyTree, Array]:
        """Smoothed statistics `[m, ...]` and weights `[m]` of the leaves."""

    @abc.abstractmethod
    def constraints(self) -> Self:
        """The map's own structure with a `Constraint` in place of each leaf."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Mixing(StatisticMap):
    """τ₁ = (1 − α) τ₀ + α z with z inside the mean domain (Theorem 5.2).

    For a Gaussian leaf (mean x, covariance C) and a centre (μ₀, S₀), in centred form:
    mean (1−α)x + αμ₀, covariance (1−α)C + αS₀ + α(1−α)(x−μ₀)(x−μ₀)ᵀ.

    Attributes:
        center: z, in the form of one leaf's statistics (`family.leaf_statistics`).
        amount: α in (0, 1), scalar.
        center_constraint: What the centre's leaves are constrained to, one for each.
    """

    center: PyTree
    amount: Array
    center_constraint: tuple[Constraint, ...] | None = jax.tree.static(default=None)

    def __call__(self, statistics: PyTree, weights: Array) -> tuple[PyTree, Array]:
        """Statistics moved towards the centre; weights as they are."""
        share = jnp.broadcast_to(self.amount, weights.shape)
        return _mixed(statistics, self.center, share), weights

    def constraints(self) -> Self:
        """α in the unit interval."""
        return type(self)(
            _constraint_tree(self.center, self.center_constraint),
            _mark(Constraint.UNIT_INTERVAL),
            self.center_constraint,
        )


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Adding(StatisticMap):
    """τ₂ = τ₀ + α z, for a mean domain that recedes along z (Theorem 5.2).

    Attributes:
        center: z, in the form of one leaf's statistics. αz must lie in the recession
            cone of the mean domain, with cl(S) + αz inside its interior: for Gaussians
            (mean 0, covariance positive definite); for the exponential family and
            Poisson z > 0; for the gamma (log-mean −1, mean 0), say.
        amount: α > 0, scalar.
        center_constraint: What the centre's leaves are constrained to, one for each.
    """

    center: PyTree
    amount: Array
    center_constraint: tuple[Constraint, ...] | None = jax.tree.static(default=None)

    def __call__(self, statistics: PyTree, weights: Array) -> tuple[PyTree, Array]:
        """Statistics moved along the centre; weights as they are."""
        moved = jax.tree.map(
            lambda t, z: t + jnp.broadcast_to(self.amount * z, t.shape),
            statistics,
            self.center,
        )
        return moved, weights

    def constraints(self) -> Self:
        """α positive."""
        return type(self)(
            _constraint_tree(self.center, self.center_constraint),
            _mark(Constraint.POSITIVE),
            self.center_constraint,
        )


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class PseudoCount(StatisticMap):
    """Each leaf brings n₀ observations at z: weight w + n₀, (w τ + n₀ z) / (w + n₀).

    The MAP estimate under a conjugate prior (Section 5) whose strength grows with the
    number of leaves of a cluster. A prior counted once a cluster would make merge costs
    negative.

    Attributes:
        center: z, in the form of one leaf's statistics, inside the mean domain.
        count: n₀ > 0, scalar.
        center_constraint: What the centre's leaves are constrained to, one for each.
    """

    center: PyTree
    count: Array
    center_constraint: tuple[Constraint, ...] | None = jax.tree.static(default=None)

    def __call__(self, statistics: PyTree, weights: Array) -> tuple[PyTree, Array]:
        """Statistics and weights with the pseudo-observations in."""
        total = weights + self.count
        return _mixed(statistics, self.center, self.count / total), total

    def constraints(self) -> Self:
        """n₀ positive."""
        return type(self)(
            _constraint_tree(self.center, self.center_constraint),
            _mark(Constraint.POSITIVE),
            self.center_constraint,
        )


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Blur(StatisticMap):
    """Each point of a Gaussian family becomes a small Gaussian: covariance + H.

    `Adding` with z = (0, H), by the bandwidth.

    Attributes:
        bandwidth: h scalar for H = h² I, `[d]` for H = diag(h²), or a factor `[d, d]`
            for H = B Bᵀ; in the units of the data.
    """

    bandwidth: Array

    def __call__(self, statistics: PyTree, weights: Array) -> tuple[PyTree, Array]:
        """Covariances plus H; weights as they are.

        Raises:
            TypeError: If the family is not Gaussian with a covariance of its own.
        """
        if not isinstance(statistics, Moments):
            raise TypeError(
                "`smoothing` by a bandwidth (blur, normal_reference) needs a Gaussian "
                "family with a free variance; the statistics of this family are "
                f"{type(statistics).__name__}. Use mixing, adding or pseudo_count, or "
                "smoothing=None."
            )
        return statistics.blurred(self.bandwidth), weights

    def constraints(self) -> Self:
        """Bandwidths positive, a factor invertible."""
        matrix = jnp.ndim(self.bandwidth) == 2
        return type(self)(
            _mark(Constraint.INVERTIBLE if matrix else Constraint.POSITIVE)
        )


def mixing(center: PyTree, amount: ArrayLike, **options) -> Mixing:
    """Smooth by mixing towards `center`: see `Mixing`.

    Raises:
        ValueError: If `amount` is not strictly between 0 and 1.
    """
    _check_amount("amount", amount, upper=1.0)
    return Mixing(_arrays(center), float_array(amount), **options)


def adding(center: PyTree, amount: ArrayLike = 1.0, **options) -> Adding:
    """Smooth by adding `amount` times `center`: see `Adding`.

    Raises:
        ValueError: If `amount` is not positive, or a Gaussian centre has a mean part
            (the mean domain does not recede that way) or is not positive definite.
    """
    _check_amount("amount", amount)
    if isinstance(center, Moments) and is_concrete(center):
        _check_gaussian_direction(center)
    return Adding(_arrays(center), float_array(amount), **options)


def pseudo_count(center: PyTree, count: ArrayLike, **options) -> PseudoCount:
    """Smooth by `count` pseudo-observations at `center` a leaf: see `PseudoCount`.

    Raises:
        ValueError: If `count` is not positive.
    """
    _check_amount("count", count)
    return PseudoCount(_arrays(center), float_array(count), **options)


def blur(bandwidth: ArrayLike) -> Blur:
    """Smooth Gaussian leaves by a kernel of this bandwidth: see `Blur`.

    Raises:
        ValueError: If a scalar or vector bandwidth is not positive, or a matrix is not
            square.
    """
    shape = np.shape(bandwidth)
    if len(shape) > 2 or (len(shape) == 2 and shape[0] != shape[1]):
        raise ValueError(
            "`bandwidth` must be a scalar, one number a column, or a square factor of "
            f"the kernel's covariance; got shape {shape}."
        )
    if len(shape) < 2:
        _check_amount("bandwidth", bandwidth)
    return Blur(float_array(bandwidth))


def normal_reference(
    x: ArrayLike, *, per_coordinate: bool = False, weights: ArrayLike | None = None
) -> Blur:
    """Bandwidths that suit a normal density: Example 5.4.

    h_k = s_k (4 / ((d + 2) m))^(1 / (d + 4)), s_k the standard deviation of column k
    (ddof 1). With weights, m is their sum and s_k the deviation of rows repeated so
    often. A constant column has no scale of its own: it takes h = 1 (the costs of
    `per_coordinate` do not depend on it) and no part in the mean.

    Args:
        x: Data `[m, d]`.
        per_coordinate: The paper's `-nd`, one bandwidth h_k a column; otherwise its
            `-n`, the mean of h_k for all.
        weights: Weights of rows as counts, `[m]`; 1 each by default.

    Returns:
        A `Blur` with bandwidth `[d]`, or scalar.

    Raises:
        ValueError: If `x` is not a matrix or not finite, or weights add up to at most 1.

    References:
        Bowman and Azzalini (1997), Section 2.4.2; Telgarsky and Dasgupta (2012),
        Example 5.4.
    """
    shape = np.shape(x)
    if len(shape) != 2 or shape[0] == 0:
        raise ValueError(
            f"`x` must be a matrix with a row a point; got shape {shape}. Reshape one "
            "column to x[:, None]."
        )
    if is_concrete(x):
        check_finite("x", x)
    if weights is not None and is_concrete(weights):
        check_weights(weights, shape[0])
        if shape[0] > 1 and not np.sum(weights) > 1:
            raise ValueError(
                f"`weights` count as numbers of rows here; got a sum of "
                f"{float(np.sum(weights)):g}, and a deviation needs more than 1. Scale "
                "the weights, or give the smoothing explicitly."
            )
    weights = np.ones(shape[0]) if weights is None else weights
    xp = np if is_concrete((x, weights)) else jnp
    x, weights = float_array(x), float_array(weights)

    total = xp.sum(weights)
    centred = x - (weights @ x / total)[None]
    # The second centring takes out the rounding of the first.
    centred = centred - (weights @ centred / total)[None]
    variance = weights @ centred**2 / xp.where(total > 1, total - 1, 1)
    constant = xp.max(x, axis=0) == xp.min(x, axis=0)
    scale = xp.sqrt(xp.where(constant, 1, variance))
    d = shape[1]
    bandwidth = scale * (4 / ((d + 2) * total)) ** (1 / (d + 4))
    if per_coordinate:
        return Blur(xp.where(constant, 1.0, bandwidth))
    varying = xp.sum(~constant)
    mean = xp.sum(xp.where(constant, 0, bandwidth)) / xp.maximum(varying, 1)
    return Blur(xp.where(varying == 0, 1.0, mean))


def bernstein(
    num_categories: int, sample_size: ArrayLike, *, delta: float = 0.05
) -> Mixing:
    """Mix proportions towards the uniform by a Bernstein bound: Example 5.3.

    b = √(2 p (1 − p) L / N) + L / (3 N) bounds how far a proportion p = 1/n strays in a
    sample of size N with probability 1 − δ, L = ln(1/δ). The mixing that adds b to an
    empty category has α = n b / (1 + n b).

    Args:
        num_categories: n, the number of categories.
        sample_size: N, the size of the whole sample (a fixed number, never a cluster's).
        delta: δ in (0, 1).

    Returns:
        A `Mixing` towards (1/n, …, 1/n).

    Raises:
        ValueError: If n < 2, N is not positive or δ is not in (0, 1).

    References:
        Telgarsky and Dasgupta (2012), Example 5.3, with the constants of Bernstein's
        inequality.
    """
    if num_categories < 2:
        raise ValueError(f"`num_categories` must be at least 2; got {num_categories}.")
    _check_amount("sample_size", sample_size)
    _check_amount("delta", delta, upper=1.0)
    uniform = np.full(num_categories, 1 / num_categories)
    amount = bernstein_amount(num_categories, sample_size, delta=delta)
    return Mixing(uniform, amount, (Constraint.SIMPLEX,))


def bernstein_amount(
    num_categories: int, sample_size: ArrayLike, *, delta: float
) -> Array:
    """The α of `bernstein`."""
    p = 1 / num_categories
    size = float_array(sample_size)
    log_term = np.log(1 / delta)
    bound = (2 * p * (1 - p) * log_term / size) ** 0.5 + log_term / (3 * size)
    return num_categories * bound / (1 + num_categories * bound)


def _mixed(statistics: PyTree, center: PyTree, share: Array) -> PyTree:
    """(1 − α) τ + α z, a share α a leaf of the tree of points."""
    if isinstance(statistics, Moments):
        if not isinstance(center, Moments):
            raise TypeError(
                "`center` must be Moments(mean, covariance, form) for a Gaussian "
                f"family; got {type(center).__name__}."
            )
        return statistics.mixed(center, share)

    def mix(t, z):
        alpha = share.reshape(share.shape + (1,) * (t.ndim - 1))
        return t + alpha * (jnp.broadcast_to(z, t.shape) - t)

    return jax.tree.map(mix, statistics, center)


def _arrays(tree: PyTree) -> PyTree:
    return jax.tree.map(float_array, tree)


def _mark(constraint: Constraint) -> Any:
    """A constraint in the place of an array: only `constraints()` builds such maps."""
    return constraint


def _constraint_tree(center: PyTree, constraints: tuple[Constraint, ...] | None) -> Any:
    leaves, treedef = jax.tree.flatten(center)
    marks = constraints or (Constraint.REAL,) * len(leaves)
    return jax.tree.unflatten(treedef, marks)


def _check_amount(name: str, value: ArrayLike, *, upper: float = np.inf) -> None:
    if not is_concrete(value):
        return
    array = np.asarray(value)
    if np.all(array > 0) and np.all(array < upper):
        return
    rule = "positive" if upper == np.inf else f"strictly between 0 and {upper:g}"
    raise ValueError(f"`{name}` must be {rule}; got {array}.")


def _check_gaussian_direction(center: Moments) -> None:
    mean, covariance = np.asarray(center.mean), np.asarray(center.covariance)
    if np.any(mean != 0):
        raise ValueError(
            "`center` must have mean 0 to be added to Gaussians (their mean domain "
            f"recedes only along covariances); got mean {mean}. Use mixing to move "
            "means."
        )
    values = np.linalg.eigvalsh(covariance) if center.form == "full" else covariance
    if not np.all(values > 0):
        raise ValueError(
            "`center` must have a positive definite covariance; its smallest "
            f"eigenvalue is {np.min(values):g}."
        )
