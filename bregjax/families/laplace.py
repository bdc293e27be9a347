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
from bregjax.clusters.bregman_model import BregmanModel
from bregjax.convex import ConjugateSolution
from bregjax.families._vector_family import VectorFamily
from bregjax.families.exponential import Exponential
from bregjax.smoothing import Adding, adding, normal_reference

__all__ = ["Laplace"]


@register_pytree
@dataclass(frozen=True)
class Laplace(VectorFamily):
    """Rows of d independent Laplace variables about known locations, of free scale.

    p(x) = Π λ_i e^{−λ_i |x_i − a_i|} / 2, λ = −θ. T(x) = |x − a|, distances that are
    exponential times: ψ(θ) = −Σ log(−θ), μ = −1/θ > 0 the mean distance,
    ψ*(μ) = −Σ (1 + log μ), log h(x) = −d log 2. Clusters are of rows that lie as far
    from a, on whichever side: of errors, differences and returns by how large they are.
    ψ* = +inf at x_i = a_i, so that rows need smoothing.

    Attributes:
        location: a, a number or one a column `[d]`, in the units of the data; a leaf,
            by which costs differentiate, where x_i = a_i as from x_i > a_i.
        dim: d; taken from the data if None.

    Examples:
        >>> import bregjax as bj
        >>> returns = [[0.1], [-0.2], [3.0], [-5.0]]
        >>> tree = bj.agglomerate(returns, family=Laplace(), smoothing=None)
        >>> print(tree.merge_costs)
        [0.0645 0.1178 3.9415]
    """

    location: ArrayLike = 0.0
    dim: int | None = jax.tree.static(default=None)

    @property
    @override
    def separable(self) -> bool:
        return True

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
        """Add h √(2/π) to each distance, h the normal-reference bandwidth of a column.

        That is the mean distance of a point at the location once blurred by a normal
        kernel of bandwidth h, where E |a + hZ − a| = h √(2/π); a point elsewhere would
        get less. The amount goes by the units of the column.
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
