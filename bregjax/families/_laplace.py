"""Independent Laplace variables of known location."""

from dataclasses import dataclass
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from bregjax._checks import is_concrete
from bregjax._pytree import register_pytree
from bregjax._typing import Array, ArrayLike, DataLike
from bregjax.clusters import BregmanModel
from bregjax.convex import ConjugateSolution
from bregjax.families._exponential import Exponential
from bregjax.families._vector_family import VectorFamily
from bregjax.smoothing import StatisticMap, adding, normal_reference
from bregjax.smoothing._maps import Adding

__all__ = ["Laplace"]


@register_pytree
@dataclass(frozen=True)
class Laplace(VectorFamily):
    """Rows of d independent Laplace variables about known locations, of free scale.

    p(x) = Π λ_i e^{−λ_i |x_i − a_i|} / 2, λ = −θ. The distances T(x) = |x − a| are
    exponential variables: ψ(θ) = −Σ log(−θ), μ = −1/θ > 0 is the mean distance,
    ψ*(μ) = −Σ (1 + log μ), log h(x) = −d log 2. A cluster holds rows about equally
    far from a, on either side: errors, differences or returns of one size. ψ* = +inf at
    x_i = a_i, so that rows need smoothing.

    Attributes:
        location: a, a number or one a column `[d]`, in the units of the data; a leaf,
            by which costs differentiate. The derivative at x_i = a_i is that from
            x_i > a_i.
        dim: d; taken from the data if None.

    Examples:
        >>> import jax.numpy as jnp
        >>> import bregjax as bj
        >>> family = bj.Laplace(location=1.0, dim=2)
        >>> print(family.sufficient_statistics(jnp.array([-2.0, 3.0])))
        [3. 2.]
    """

    location: ArrayLike = 0.0
    dim: int | None = jax.tree.static(default=None)

    @property
    @override
    def separable(self) -> bool:
        return True

    @property
    @override
    def num_parameters(self) -> int:
        return self.known_dim

    @property
    @override
    def natural_init(self) -> Array:
        """Scale 1 in every coordinate."""
        return -jnp.ones(self.known_dim)

    @override
    def log_partition(self, natural: Array) -> Array:
        """−Σ log(−θ), +inf for θ ≥ 0."""
        return Exponential(self.dim).log_partition(natural)

    @override
    def sufficient_statistics(self, x: Array) -> Array:
        """|x − a|, distances from the location."""
        x = jnp.asarray(x, dtype=float)
        return jnp.abs(x - jnp.asarray(self.location, x.dtype))

    @override
    def log_base_measure(self, x: Array) -> Array:
        """−d log 2."""
        return jnp.full((), -x.shape[-1] * np.log(2))

    @override
    def conjugate(
        self, mean: Array, *, start: Array | None = None
    ) -> ConjugateSolution:
        """−Σ (1 + log μ) at θ = −1/μ."""
        return Exponential(self.dim).conjugate(mean, start=start)

    @override
    def cluster_model(self) -> BregmanModel:
        """Clusters by the Itakura–Saito divergence of mean distances."""
        return Exponential(self.dim).cluster_model()

    @override
    def for_data(self, x: DataLike) -> Self:
        """The family with `dim` set.

        Raises:
            ValueError: If a location is not finite, or their number is not that of the
                columns, or `x` does not fit.
        """
        family = super().for_data(x)
        shape = np.shape(self.location)
        if shape not in ((), (family.dim,)):
            raise ValueError(
                "`location` must be one number, or one for each of the "
                f"{family.dim} columns; got shape {shape}."
            )
        if is_concrete(self.location) and not np.all(np.isfinite(self.location)):
            raise ValueError(f"`location` must be finite; got {self.location}.")
        return family

    @override
    def default_smoothing(self, x: Array, weights: Array | None) -> Adding:
        """Add h √(2/π) to each distance, with h the normal-reference bandwidth.

        A normal kernel of bandwidth h gives a point at the location a the mean distance
        E |a + hZ − a| = h √(2/π); it would add less to a point elsewhere. The amount
        has the units of the column.
        """
        rule = normal_reference(x, per_coordinate=True, weights=weights)
        return adding(np.sqrt(2 / np.pi) * rule.bandwidth)

    @property
    @override
    def smoothing_hint(self) -> str:
        return (
            'Pass smoothing="auto", or smoothing=adding(numpy.ones(d), amount) with an '
            "amount in the units of the data, such as half its resolution: a row at "
            "the location has a likelihood without bound"
        )

    @override
    def smoothing_of(self, amount: float) -> StatisticMap:
        """Adding `amount` to every entry."""
        return adding(np.ones(self.known_dim), amount)
