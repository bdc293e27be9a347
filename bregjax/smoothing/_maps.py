"""Smoothing maps on leaf statistics, which keep every cluster inside the domain.

A map is affine on statistics and is applied once, to the leaves; means of leaves then
carry the map through every union. The arrays of a map are leaves of a pytree and
differentiate; `constraints` says what they must satisfy, and tuning keeps them to it.

For the counts τ₀ = (1, 0, 0) and the center z = (⅓, ⅓, ⅓), `Mixing` with α = 0.3 gives
(0.8, 0.1, 0.1), `Adding` with α = 0.3 gives (1.1, 0.1, 0.1), and `PseudoCount` with
n₀ = 3 gives a leaf of weight 1 the weight 4 and the statistic (0.5, 0.25, 0.25).

References:
    Telgarsky and Dasgupta (2012), Section 5.
"""

import abc
import dataclasses
import enum
from dataclasses import dataclass
from typing import Any, Self

import jax
import jax.numpy as jnp
from typing_extensions import override

from bregjax._pytree import register_pytree
from bregjax._typing import Array, PyTree
from bregjax.clusters import Moments
from bregjax.clusters._moments import CenteredStatistics

__all__ = [
    "Adding",
    "Blur",
    "CenteredMap",
    "Constraint",
    "Mixing",
    "PseudoCount",
    "StatisticMap",
]


class Constraint(enum.Enum):
    """What a leaf of a smoothing map must satisfy.

    Examples:
        >>> import jax.numpy as jnp
        >>> from bregjax.smoothing import blur
        >>> print(blur(0.5).constraints().bandwidth.value)
        positive
    """

    FIXED = "not to be tuned"
    REAL = "any real numbers"
    POSITIVE = "positive"
    UNIT_INTERVAL = "strictly between 0 and 1"
    SIMPLEX = "positive, adding up to 1 over the last axis"
    POSITIVE_DEFINITE = "symmetric positive definite over the last two axes"
    INVERTIBLE = "an invertible matrix, the factor of a covariance"

    def __repr__(self) -> str:
        """The name alone: maps are shown in one line."""
        return f"Constraint.{self.name}"


class StatisticMap(abc.ABC):
    """A smoothing statistic map τ (Definition 5.1) as it acts on leaves.

    Examples:
        >>> import jax.numpy as jnp
        >>> smoothing = Mixing(jnp.array([0.5, 0.5]), jnp.array(0.2))
        >>> isinstance(smoothing, StatisticMap)
        True
        >>> print(smoothing(jnp.array([[1.0, 0.0]]), jnp.ones(1))[0])
        [[0.9 0.1]]
    """

    @abc.abstractmethod
    def __call__(self, statistics: PyTree, weights: Array) -> tuple[PyTree, Array]:
        """Smoothed statistics `[m, ...]` and weights `[m]` of the leaves.

        Each row of the result must depend on that row alone: maps are applied to some
        rows, to padding, and to new rows.

        Args:
            statistics: Sufficient statistics of the points, leaves first.
            weights: Weights of the points, `[m]`.
        """

    @abc.abstractmethod
    def constraints(self) -> Self:
        """The map with a `Constraint` in place of each leaf."""


@dataclass(frozen=True)
class CenteredMap(StatisticMap):
    """A map that moves statistics towards a center, or along it.

    Attributes:
        center: In the form of the sufficient statistics of one row.
    """

    center: PyTree

    @property
    def is_direction(self) -> bool:
        """Whether the center is a direction, not a mean."""
        return False

    def moved(self, mean: PyTree, center: PyTree) -> PyTree:
        """Return where a mean would be moved if nothing held it: to the center.

        Args:
            mean: A mean inside the mean domain.
            center: The map's own center, in the form of that mean.
        """
        del mean
        return center


@register_pytree
@dataclass(frozen=True)
class Mixing(CenteredMap):
    """τ₁ = (1 − α) τ₀ + α z with z inside the mean domain (Theorem 5.2).

    For a Gaussian leaf (mean x, covariance C) and a center (μ₀, S₀), in centered form:
    mean (1−α)x + αμ₀, covariance (1−α)C + αS₀ + α(1−α)(x−μ₀)(x−μ₀)ᵀ.

    Attributes:
        center: z, in the form of the sufficient statistics of one row; `Moments` for
            Gaussians with a free covariance.
        amount: α in (0, 1), scalar.
        center_constraint: A constraint for each leaf of the center; tuning leaves the
            center as it is if None.

    Examples:
        >>> import jax.numpy as jnp
        >>> smoothing = Mixing(jnp.array([0.5, 0.5]), jnp.array(0.2))
        >>> print(smoothing(jnp.array([[1.0, 0.0], [0.0, 1.0]]), jnp.ones(2))[0])
        [[0.9 0.1]
         [0.1 0.9]]
    """

    _shown_as = "mixing"

    amount: Array
    center_constraint: tuple[Constraint, ...] | None = jax.tree.static(default=None)

    @override
    def __call__(self, statistics: PyTree, weights: Array) -> tuple[PyTree, Array]:
        """Statistics moved towards the center; weights as they are."""
        share = jnp.broadcast_to(self.amount, weights.shape)
        return _mixed(statistics, self.center, share), weights

    @override
    def constraints(self) -> Self:
        return _constrained(self, amount=Constraint.UNIT_INTERVAL)


@register_pytree
@dataclass(frozen=True)
class Adding(CenteredMap):
    """τ₂ = τ₀ + α z, for a mean domain that recedes along z (Theorem 5.2).

    Attributes:
        center: z, in the form that `Mixing` takes. αz must lie in the recession
            cone of the mean domain, with cl(S) + αz inside its interior: for Gaussians
            (mean 0, covariance positive definite); for the exponential family and
            Poisson z > 0; for the gamma (log-mean −1, mean 0) and for the
            inverse Gaussian (mean 0, mean of 1/x 1), say.
        amount: α > 0, scalar.
        center_constraint: A constraint for each leaf of the center; tuning leaves the
            center as it is if None.

    Examples:
        >>> import jax.numpy as jnp
        >>> smoothing = Adding(jnp.array([1.0, 2.0]), jnp.array(0.5))
        >>> print(smoothing(jnp.array([[0.0, 3.0]]), jnp.ones(1))[0])
        [[0.5 4. ]]
    """

    _shown_as = "adding"

    amount: Array
    center_constraint: tuple[Constraint, ...] | None = jax.tree.static(default=None)

    @property
    @override
    def is_direction(self) -> bool:
        return True

    @override
    def moved(self, mean: PyTree, center: PyTree) -> PyTree:
        """Return the mean with α z added."""
        return jax.tree.map(lambda t, z: t + self.amount * z, mean, center)

    @override
    def __call__(self, statistics: PyTree, weights: Array) -> tuple[PyTree, Array]:
        """Statistics moved along the center; weights as they are."""
        if isinstance(statistics, CenteredStatistics):
            return statistics.added(self.center, self.amount), weights
        moved = jax.tree.map(
            lambda t, z: t + jnp.broadcast_to(self.amount * z, t.shape),
            statistics,
            self.center,
        )
        return moved, weights

    @override
    def constraints(self) -> Self:
        return _constrained(self, amount=Constraint.POSITIVE)


@register_pytree
@dataclass(frozen=True)
class PseudoCount(CenteredMap):
    """n₀ observations at z for each leaf: weight w + n₀, (w τ + n₀ z) / (w + n₀).

    A cluster then has the MAP estimate under a conjugate prior (Section 5) whose
    strength grows with the number of leaves. A prior counted once for each cluster
    would make merge costs negative.

    Attributes:
        center: z, in the form that `Mixing` takes, inside the mean domain.
        count: n₀ > 0, scalar.
        center_constraint: A constraint for each leaf of the center; tuning leaves the
            center as it is if None.

    Examples:
        >>> import jax.numpy as jnp
        >>> smoothing = PseudoCount(jnp.array([0.5, 0.5]), jnp.array(1.0))
        >>> print(*smoothing(jnp.array([[1.0, 0.0]]), jnp.ones(1)))
        [[0.75 0.25]] [2.]
    """

    _shown_as = "pseudo_count"

    count: Array
    center_constraint: tuple[Constraint, ...] | None = jax.tree.static(default=None)

    @override
    def __call__(self, statistics: PyTree, weights: Array) -> tuple[PyTree, Array]:
        """Statistics and weights with the pseudo-observations counted."""
        total = weights + self.count
        return _mixed(statistics, self.center, self.count / total), total

    @override
    def constraints(self) -> Self:
        return _constrained(self, count=Constraint.POSITIVE)


@register_pytree
@dataclass(frozen=True)
class Blur(StatisticMap):
    """Kernel smoothing: each point of a Gaussian family gets the covariance H.

    The same as `Adding` with z = (0, H) and α = 1, given by the bandwidth.

    Attributes:
        bandwidth: h scalar for H = h² I, `[d]` for H = diag(h²), or a factor B `[d, d]`
            for H = B Bᵀ; in the units of the data.

    Examples:
        >>> import jax.numpy as jnp
        >>> from bregjax.clusters._moments import Moments
        >>> points = Moments(jnp.array([[1.0, 2.0]]), jnp.zeros((1, 2)), "diagonal")
        >>> blurred, _ = Blur(jnp.array(0.5))(points, jnp.ones(1))
        >>> print(blurred.mean, blurred.covariance)
        [[1. 2.]] [[0.25 0.25]]
    """

    _shown_as = "blur"

    bandwidth: Array

    @override
    def __call__(self, statistics: PyTree, weights: Array) -> tuple[PyTree, Array]:
        """Covariances plus H; weights as they are.

        Raises:
            TypeError: If the family is not Gaussian with a covariance of its own.
        """
        if not isinstance(statistics, Moments):
            raise TypeError(
                "`smoothing` by a bandwidth (blur, normal_reference) needs a Gaussian "
                "family with a free variance, whose statistics are Moments; got "
                f"{type(statistics).__name__}. Use mixing, adding or pseudo_count, or "
                "smoothing=None."
            )
        return statistics.blurred(self.bandwidth), weights

    @override
    def constraints(self) -> Self:
        """`POSITIVE` for bandwidths, `INVERTIBLE` for a factor."""
        matrix = jnp.ndim(self.bandwidth) == 2
        kind = Constraint.INVERTIBLE if matrix else Constraint.POSITIVE
        return dataclasses.replace(self, bandwidth=kind)


def _mixed(statistics: PyTree, center: PyTree, share: Array) -> PyTree:
    """(1 − α) τ + α z, with one share α for each point."""
    if isinstance(statistics, CenteredStatistics):
        return statistics.mixed(center, share)

    def mix(t, z):
        alpha = share.reshape(share.shape + (1,) * (t.ndim - 1))
        return t + alpha * (jnp.broadcast_to(z, t.shape) - t)

    return jax.tree.map(mix, statistics, center)


def _constrained(smoothing: Any, **amount: Constraint) -> Any:
    """Replace the arrays of a map with a center by their constraints."""
    leaves, treedef = jax.tree.flatten(smoothing.center)
    marks = smoothing.center_constraint or (Constraint.FIXED,) * len(leaves)
    center = jax.tree.unflatten(treedef, marks)
    return dataclasses.replace(smoothing, center=center, **amount)
