"""Gaussians of one known variance: Ward's method."""

from dataclasses import dataclass
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from bregjax._checks import is_concrete
from bregjax._pytree import register_pytree
from bregjax._typing import Array, ArrayLike, DataLike
from bregjax.clusters import BregmanModel, MeanState
from bregjax.convex import ConjugateSolution, Scaled, SquaredNorm
from bregjax.families._closed_form import all_finite, closed_form
from bregjax.families._vector_family import VectorFamily
from bregjax.smoothing import StatisticMap

__all__ = ["SphericalGaussian"]


@register_pytree
@dataclass(frozen=True)
class SphericalGaussian(VectorFamily):
    """Gaussians N(μ, σ² I) with σ² known: k-means costs, Ward's merges.

    T(x) = x, θ = μ/σ², ψ(θ) = ½ σ² ‖θ‖², ψ*(μ) = ‖μ‖² / (2σ²), and the merge cost is
    Δ = (w_a w_b / 2w) ‖μ_a − μ_b‖² / σ² nats. The tree does not depend on σ²; SciPy's
    Ward heights are 2σ√Δ, `tree.linkage(heights="ward")`.

    Attributes:
        variance: σ² > 0, a leaf.
        dim: d; taken from the data if None.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import bregjax as bj
        >>> family = bj.SphericalGaussian(variance=4.0, dim=1)
        >>> print(jax.jit(family.mean_to_natural)(jnp.array([2.0])))
        [0.500]
    """

    variance: ArrayLike = 1.0
    dim: int | None = jax.tree.static(default=None)

    @property
    @override
    def takes_sparse(self) -> bool:
        return True

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
        """Mean 0."""
        return jnp.zeros(self.known_dim)

    @override
    def log_partition(self, natural: Array) -> Array:
        """½ σ² ‖θ‖²."""
        return 0.5 * jnp.asarray(self.variance) * jnp.sum(natural**2)

    @override
    def sufficient_statistics(self, x: Array) -> Array:
        return jnp.asarray(x, dtype=float)

    @override
    def log_base_measure(self, x: Array) -> Array:
        """log N(x; 0, σ² I)."""
        variance = jnp.asarray(self.variance)
        log_norm = -0.5 * x.shape[-1] * jnp.log(2 * np.pi * variance)
        return log_norm - 0.5 * jnp.sum(jnp.asarray(x, dtype=float) ** 2) / variance

    @override
    def conjugate(
        self, mean: Array, *, start: Array | None = None
    ) -> ConjugateSolution:
        """‖μ‖² / (2σ²) at θ = μ/σ²."""
        del start
        everywhere = jnp.ones((), bool)
        return closed_form(
            0.5 * jnp.sum(mean**2) / self.variance,
            mean / self.variance,
            inside=everywhere,
            closure=everywhere,
            valid=all_finite(mean),
        )

    @override
    def density_parameters(self, clusters: MeanState) -> Array:
        return clusters.mean

    @override
    def log_densities(self, row: Array, parameters: Array) -> Array:
        """log N(x; μ_k, σ² I), from distances."""
        variance = jnp.asarray(self.variance)
        square = jnp.sum((row[None] - parameters) ** 2, axis=-1) / variance
        return -0.5 * (square + row.shape[-1] * jnp.log(2 * np.pi * variance))

    @override
    def cluster_model(self) -> BregmanModel:
        """Clusters by squared distances of means over σ²."""
        return BregmanModel(Scaled(SquaredNorm(), 1 / jnp.asarray(self.variance)))

    @property
    @override
    def ward_scale(self) -> ArrayLike:
        return self.variance

    @override
    def for_data(self, x: DataLike) -> Self:
        """The family with `dim` set.

        Raises:
            ValueError: If the variance is not positive, or `x` does not fit.
        """
        if np.ndim(self.variance) != 0:
            raise ValueError(
                "`variance` must be one number; got shape "
                f"{np.shape(self.variance)}. For more, use Mahalanobis(matrix)."
            )
        if is_concrete(self.variance) and not np.all(np.asarray(self.variance) > 0):
            raise ValueError(f"`variance` must be positive; got {self.variance}.")
        return super().for_data(x)

    @override
    def smoothing_of(self, amount: float) -> StatisticMap:
        raise ValueError(
            f"`amount` has no effect on {type(self).__name__}, whose variance is "
            f"known; got {amount:g}. Leave it out, or take isotropic_gaussian."
        )
