"""Independent shares: beta variables of free shapes."""

import dataclasses
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from bregjax._pytree import register_pytree
from bregjax._typing import Array
from bregjax.clusters import ColumnsModel, NaturalState
from bregjax.clusters._columns_model import sum_of_columns
from bregjax.convex import ConjugateSolution
from bregjax.families._dirichlet import Dirichlet, check_digits
from bregjax.families._vector_family import VectorFamily
from bregjax.smoothing import StatisticMap, adding, normal_reference
from bregjax.smoothing._maps import Adding

__all__ = ["Beta"]

# A column is a Dirichlet of (x, 1 − x).
_COLUMN = Dirichlet(dim=2)
_SAME_AS = (
    'Take family="diagonal_gaussian" of the same rows, which is much the same of '
    "columns so narrow"
)


@register_pytree
@dataclass(frozen=True)
class Beta(VectorFamily):
    """Rows of d independent beta variables: rates, shares, probabilities.

    θ = (a, b) > 0, T(x) = (log x, log(1 − x)), log h(x) = −Σ log x (1 − x),
    ψ(θ) = Σ log Γ(a) + log Γ(b) − log Γ(a + b). The mean domain is
    e^{μ₁} + e^{μ₂} < 1 in each column; a single point lies on its boundary, where
    ψ* = +inf, and needs smoothing. Clusters differ by the place of a column and by its
    variation about that place; `Bernoulli` takes x for the outcome of one trial. Merge
    costs are the same of x and of 1 − x.

    Attributes:
        dim: d; taken from the data if None.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import bregjax as bj
        >>> a, b = jnp.array([2.0]), jnp.array([3.0])
        >>> print(jax.jit(bj.Beta(dim=1).log_partition)((a, b)))  # log B(2, 3)
        -2.485
    """

    dim: int | None = jax.tree.static(default=None)

    @property
    @override
    def columnwise(self) -> bool:
        return True

    @property
    @override
    def solves(self) -> bool:
        return True

    @property
    @override
    def num_parameters(self) -> int:
        return 2 * self.known_dim

    @property
    @override
    def natural_init(self) -> tuple[Array, Array]:
        """The uniform distribution."""
        return jnp.ones(self.known_dim), jnp.ones(self.known_dim)

    @override
    def log_partition(self, natural: tuple[Array, Array]) -> Array:
        """Σ log Γ(a) + log Γ(b) − log Γ(a + b), +inf unless all are positive."""
        return jnp.sum(jax.vmap(_COLUMN.log_partition)(_pairs(natural)))

    @override
    def sufficient_statistics(self, x: Array) -> tuple[Array, Array]:
        """(log x, log(1 − x))."""
        x = jnp.asarray(x, dtype=float)
        return jnp.log(x), jnp.log1p(-x)

    @override
    def log_base_measure(self, x: Array) -> Array:
        """−Σ log x (1 − x); −inf unless every x is between 0 and 1."""
        x = jnp.asarray(x, dtype=float)
        inside = (x > 0) & (x < 1)
        low, high = self.sufficient_statistics(jnp.where(inside, x, 0.5))
        return jnp.where(jnp.all(inside), -jnp.sum(low + high), -jnp.inf)

    @override
    def conjugate(
        self,
        mean: tuple[Array, Array],
        *,
        start: tuple[Array, Array] | None = None,
    ) -> ConjugateSolution:
        """Sum ψ* over columns, solving for each; the code is of the worst column."""
        start = self.natural_init if start is None else start
        solve = lambda mean, start: _COLUMN.conjugate(mean, start=start)
        by_column = jax.vmap(solve)(_pairs(mean), _pairs(start))
        natural = tuple(jnp.moveaxis(by_column.maximiser, -1, 0))
        return sum_of_columns(dataclasses.replace(by_column, maximiser=natural))

    @override
    def cluster_model(self) -> ColumnsModel:
        """Clusters by a system of two equations in each column."""
        return ColumnsModel(_COLUMN, self.known_dim)

    @override
    def density_parameters(
        self, clusters: NaturalState
    ) -> tuple[tuple[Array, Array], Array]:
        """(a, b) `[k, d]` each, and ψ `[k]`."""
        natural = clusters.natural[..., 0], clusters.natural[..., 1]
        return natural, jax.vmap(self.log_partition)(natural)

    @override
    def support(self, x: np.ndarray) -> tuple[np.ndarray, str, str]:
        remedy = (
            "Shrink the column toward 1/2, (x * (m - 1) + 0.5) / m of m rows, or take "
            "Bernoulli of zeros and ones"
        )
        inside = (x > 0) & (x < 1)
        return inside, "must lie strictly between 0 and 1 for Beta", remedy

    @override
    def default_smoothing(self, x: Array, weights: Array | None) -> Adding:
        """Lower both logs by 2h², with h the normal-reference bandwidth of arcsin √x.

        A narrow beta distribution of precision N = a + b about p has the variance
        p (1 − p) / N. The angle arcsin √x then has the variance 1/4N, whatever p is,
        and p (log p − E log x) + (1 − p) (log(1 − p) − E log(1 − x)) = 1/2N, both to
        first order. So lowering both logs of a row by 1/2N turns the row into such a
        distribution, with the row's logit as its mean logit. Blurring angles by h is
        N = 1/4h², which gives 2h². A blur of logits would lower the logs by amounts
        h² p (1 − p) / 2 that depend on p, and is far too wide for rare events.
        """
        xp = np if isinstance(x, np.ndarray) else jnp
        angles = xp.arctan2(xp.sqrt(x), xp.sqrt(1 - x))
        rule = normal_reference(angles, per_coordinate=True, weights=weights)
        amount = 2 * rule.bandwidth**2
        check_digits((x, 1 - x), 1 / (2 * amount), name="Beta", remedy=_SAME_AS)
        return adding((-amount, -amount))

    @property
    @override
    def smoothing_hint(self) -> str:
        return (
            'Pass smoothing="auto", or smoothing=adding((-amount, -amount)) with one '
            "positive amount a column, which lowers E log x and E log(1 − x)"
        )

    @override
    def smoothing_of(self, amount: float) -> StatisticMap:
        """Lowering E log x and E log(1 − x) by `amount`."""
        down = -np.ones(self.known_dim)
        return adding((down, down), amount)


def _pairs(tree: tuple[Array, Array]) -> Array:
    """Two numbers a column side by side, `[d, 2]`."""
    return jnp.stack(tree, axis=-1)
