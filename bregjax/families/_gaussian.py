"""Gaussians with a free covariance: full, diagonal or spherical."""

import abc
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from bregjax._pytree import register_pytree
from bregjax._typing import Array
from bregjax.clusters import (
    FullGaussianModel,
    Moments,
    RootedGaussianModel,
    VarianceModel,
)
from bregjax.clusters._gaussian_models import GaussianState
from bregjax.clusters._moments import Form, Normals
from bregjax.clusters._rooted_gaussian import RootedState
from bregjax.convex import ConjugateSolution
from bregjax.families._closed_form import all_finite, closed_form, variance_conjugate
from bregjax.families._narrow import least_bandwidth, needs_roots
from bregjax.families._vector_family import VectorFamily
from bregjax.smoothing import StatisticMap, blur, normal_reference
from bregjax.smoothing._maps import Blur

__all__ = ["DiagonalGaussian", "Gaussian", "IsotropicGaussian"]

_LOG_2_PI = float(np.log(2 * np.pi))
_HINT = (
    "A single point has no covariance: pass smoothing=normal_reference(x), which is "
    'what smoothing="auto" does, or smoothing=blur(bandwidth)'
)


class _GaussianFamily(VectorFamily):
    """Base measure, leaves and densities that all three Gaussian families share."""

    @property
    @abc.abstractmethod
    def form(self) -> Form:
        """The form of the covariance."""

    @property
    @override
    def num_parameters(self) -> int:
        """Those of the mean, and those of a covariance of this form."""
        d = self.known_dim
        return d + {"full": d * (d + 1) // 2, "diagonal": d, "spherical": 1}[self.form]

    @override
    def log_base_measure(self, x: Array) -> Array:
        """−(d/2) log 2π."""
        return jnp.asarray(-0.5 * x.shape[-1] * _LOG_2_PI)

    @override
    def leaf_statistics(self, x: Array) -> Moments:
        """Give each row a covariance of 0."""
        x = jnp.asarray(x, dtype=float)
        m, d = x.shape
        shape = {"full": (m, d, d), "diagonal": (m, d), "spherical": (m,)}[self.form]
        return Moments(x, jnp.zeros(shape, x.dtype), self.form)

    @override
    def density_parameters(self, clusters: GaussianState | RootedState) -> Normals:
        root = clusters.root if isinstance(clusters, RootedState) else None
        return Normals.of(clusters.moments, root)

    @override
    def log_densities(self, row: Array, parameters: Normals) -> Array:
        """log N(x; μ_k, Σ_k)."""
        return parameters.log_densities(row)

    @property
    @override
    def smoothing_hint(self) -> str:
        return _HINT

    @override
    def smoothing_of(self, amount: float) -> StatisticMap:
        """Kernels of bandwidth `amount` in all directions."""
        return blur(amount)


@register_pytree
@dataclass(frozen=True)
class Gaussian(_GaussianFamily):
    """Gaussians with a mean μ and a covariance matrix Σ.

    T(x) = (x, xxᵀ), θ = (Σ⁻¹μ, −½Σ⁻¹), which is overcomplete: only the symmetric part
    of θ₂ counts. With P = −(θ₂ + θ₂ᵀ), ψ(θ) = ½ θ₁ᵀP⁻¹θ₁ − ½ log det P, and
    ψ*(μ, E xxᵀ) = −½ log det(E xxᵀ − μμᵀ) − d/2. Clusters hold mean and centered
    covariance.

    Attributes:
        dim: d; taken from the data if None.
        roots: Whether clusters hold roots of their covariances, too, for bandwidths h
            far below the range s of the data: costs, and derivatives of costs by h, are
            then good to eps s / h in place of eps s² / h², and take several times as
            long. (Derivatives by data stay as they are.) None chooses roots where they
            matter, and raises where even roots have too few digits; that needs known
            values, so give True or False inside `jit`, `vmap` or `checkpoint`.
        rooted: Whether roots were found to matter; filled in, not an argument.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import bregjax as bj
        >>> mean = jnp.array([1.0]), jnp.array([[5.0]])  # E x = 1, E xxᵀ = 4 + 1
        >>> natural = jax.jit(bj.Gaussian(dim=1).mean_to_natural)(mean)
        >>> print(natural[0], natural[1])
        [0.250] [[-0.125]]

    References:
        Telgarsky and Dasgupta (2012), Examples 4.2 and 5.4 (`g-n`).
    """

    dim: int | None = jax.tree.static(default=None)
    roots: bool | None = jax.tree.static(default=None)
    rooted: bool = jax.tree.static(default=False, repr=False)

    def __post_init__(self) -> None:
        """Raise TypeError unless `roots` is True, False or None."""
        if self.roots is not None and not isinstance(self.roots, bool):
            raise TypeError(f"`roots` must be True, False or None; got {self.roots!r}.")

    @property
    @override
    def form(self) -> Form:
        return "full"

    @property
    @override
    def natural_init(self) -> tuple[Array, Array]:
        """The standard normal."""
        d = self.known_dim
        return jnp.zeros(d), -0.5 * jnp.eye(d)

    @override
    def log_partition(self, natural: tuple[Array, Array]) -> Array:
        """½ θ₁ᵀP⁻¹θ₁ − ½ log det P, NaN unless P is positive definite."""
        theta, half = natural
        factor = jnp.linalg.cholesky(-(half + half.T))
        white = jax.scipy.linalg.solve_triangular(factor, theta, lower=True)
        return 0.5 * jnp.sum(white**2) - jnp.sum(jnp.log(jnp.diagonal(factor)))

    @override
    def sufficient_statistics(self, x: Array) -> tuple[Array, Array]:
        """(x, xxᵀ)."""
        x = jnp.asarray(x, dtype=float)
        return x, jnp.outer(x, x)

    @override
    def conjugate(
        self,
        mean: tuple[Array, Array],
        *,
        start: tuple[Array, Array] | None = None,
    ) -> ConjugateSolution:
        """−½ log det Σ − d/2, with Σ = E xxᵀ − μμᵀ."""
        del start
        mu, second = mean
        d = self.known_dim
        eye = jnp.eye(d, dtype=mu.dtype)
        eps = jnp.finfo(mu.dtype).eps
        noise = 100 * d * eps
        size = jnp.sqrt(jnp.maximum(jnp.diagonal(second), 0))
        scale = jnp.where(size > 0, size, 1)
        # In units in which every E x_i² is 1, rounding of Σ is that of numbers near 1.
        units = jnp.outer(scale, scale)
        scaled = second / units
        symmetric = jnp.max(jnp.abs(scaled - scaled.T)) <= noise
        covariance = 0.5 * (scaled + scaled.T) - jnp.outer(mu, mu) / units
        factor = jnp.linalg.cholesky(covariance)
        pivots = jnp.diagonal(factor)
        whole = symmetric & jnp.all(jnp.isfinite(factor)) & jnp.all(pivots > 0)
        factor = jnp.where(whole, factor, eye)
        root = jax.scipy.linalg.solve_triangular(factor, eye, lower=True)
        # Pivot i is good to a few eps (Σ_j |L⁻¹|_ij)², relative to itself.
        worst = jnp.max(jnp.sum(jnp.abs(root), axis=1) ** 2)
        inside = whole & (4 * eps * worst < 1)
        finite = jnp.where(jnp.isfinite(covariance), covariance, 0)
        least = jnp.min(jnp.linalg.eigvalsh(finite))
        precision = jnp.matmul(root.T, root, precision="highest") / units
        value = -jnp.sum(jnp.log(jnp.diagonal(factor) * scale)) - 0.5 * d
        return closed_form(
            jnp.where(inside, value, jnp.inf),
            (jnp.matmul(precision, mu, precision="highest"), -0.5 * precision),
            inside=inside,
            closure=symmetric & (inside | (least >= -noise)),
            valid=all_finite(mu, second),
        )

    @override
    def cluster_model(self) -> FullGaussianModel | RootedGaussianModel:
        """Clusters by relative covariances, which hold roots where roots matter."""
        return RootedGaussianModel() if self._has_roots else FullGaussianModel()

    @override
    def leaf_statistics(self, x: Array) -> Moments:
        """Give each row a covariance of 0, and a root of 0 where roots matter."""
        points = super().leaf_statistics(x)
        root = points.covariance if self._has_roots else None
        return replace(points, root=root)

    @property
    def _has_roots(self) -> bool:
        return self.rooted if self.roots is None else self.roots

    @override
    def suited_to(
        self, rows: Array, smoothing: StatisticMap | None, weights: Array | None
    ) -> "Gaussian":
        """Choose roots where they matter, unless `roots` says.

        Raises:
            PrecisionError: If a bandwidth is too far below the range of its column for
                the precision at hand.
        """
        if self.roots is not None:
            return self
        rooted = needs_roots(rows, smoothing, weights, unknown=self.rooted)
        return replace(self, rooted=rooted)

    @override
    def least_bandwidth(self, rows: Array) -> np.ndarray:
        return least_bandwidth(rows)

    @override
    def default_smoothing(self, x: Array, weights: Array | None) -> Blur:
        """One normal-reference bandwidth for all directions (`-n`)."""
        return normal_reference(x, per_coordinate=False, weights=weights)


@register_pytree
@dataclass(frozen=True)
class DiagonalGaussian(_GaussianFamily):
    """Gaussians with a mean and a variance v in each coordinate.

    T(x) = (x, x²), θ = (μ/v, −1/(2v)), ψ(θ) = Σ −θ₁²/(4θ₂) − ½ log(−2θ₂),
    ψ*(μ, E x²) = −½ Σ (1 + log v). Merge costs do not depend on the units of columns.

    Attributes:
        dim: d; taken from the data if None.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import bregjax as bj
        >>> mean = jnp.array([1.0]), jnp.array([5.0])  # mean 1, variance 4
        >>> print(*jax.jit(bj.DiagonalGaussian(dim=1).mean_to_natural)(mean))
        [0.250] [-0.125]

    References:
        Telgarsky and Dasgupta (2012), Example 5.4 (`dg-nd`).
    """

    dim: int | None = jax.tree.static(default=None)

    @property
    @override
    def columnwise(self) -> bool:
        return True

    @property
    @override
    def form(self) -> Form:
        return "diagonal"

    @property
    @override
    def natural_init(self) -> tuple[Array, Array]:
        """The standard normal."""
        return jnp.zeros(self.known_dim), jnp.full(self.known_dim, -0.5)

    @override
    def log_partition(self, natural: tuple[Array, Array]) -> Array:
        """Σ −θ₁²/(4θ₂) − ½ log(−2θ₂), +inf for θ₂ ≥ 0."""
        theta, half = natural
        return jnp.sum(_log_partition_1d(theta**2, half, 1))

    @override
    def sufficient_statistics(self, x: Array) -> tuple[Array, Array]:
        """(x, x²)."""
        x = jnp.asarray(x, dtype=float)
        return x, x**2

    @override
    def conjugate(
        self,
        mean: tuple[Array, Array],
        *,
        start: tuple[Array, Array] | None = None,
    ) -> ConjugateSolution:
        """−½ Σ (1 + log v), with v = E x² − μ²."""
        del start
        mu, second = mean
        return variance_conjugate(mu, second, mu**2, 1)

    @override
    def cluster_model(self) -> VarianceModel:
        """Clusters by relative variances, one a coordinate."""
        return VarianceModel("diagonal")

    @override
    def default_smoothing(self, x: Array, weights: Array | None) -> Blur:
        """A normal-reference bandwidth for each coordinate (`-nd`)."""
        return normal_reference(x, per_coordinate=True, weights=weights)


@register_pytree
@dataclass(frozen=True)
class IsotropicGaussian(_GaussianFamily):
    """Gaussians with covariance v I, the variance v free in each cluster.

    T(x) = (x, ‖x‖²), θ = (μ/v, −1/(2v)), ψ(θ) = −‖θ₁‖²/(4θ₂) − (d/2) log(−2θ₂),
    ψ*(μ, E‖x‖²) = −(d/2)(1 + log v). With one known variance for all clusters, see
    `SphericalGaussian`, which is Ward's method.

    Attributes:
        dim: d; taken from the data if None.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import bregjax as bj
        >>> mean = jnp.array([1.0, 0.0]), jnp.array(9.0)  # E‖x‖² = 2 · 4 + 1
        >>> print(*jax.jit(bj.IsotropicGaussian(dim=2).mean_to_natural)(mean))
        [0.25 0.  ] -0.125
    """

    dim: int | None = jax.tree.static(default=None)

    @property
    @override
    def form(self) -> Form:
        return "spherical"

    @property
    @override
    def natural_init(self) -> tuple[Array, Array]:
        """The standard normal."""
        return jnp.zeros(self.known_dim), jnp.asarray(-0.5)

    @override
    def log_partition(self, natural: tuple[Array, Array]) -> Array:
        """−‖θ₁‖²/(4θ₂) − (d/2) log(−2θ₂), +inf for θ₂ ≥ 0."""
        theta, half = natural
        return _log_partition_1d(jnp.sum(theta**2), half, self.known_dim)

    @override
    def sufficient_statistics(self, x: Array) -> tuple[Array, Array]:
        """(x, ‖x‖²)."""
        x = jnp.asarray(x, dtype=float)
        return x, jnp.sum(x**2)

    @override
    def conjugate(
        self,
        mean: tuple[Array, Array],
        *,
        start: tuple[Array, Array] | None = None,
    ) -> ConjugateSolution:
        """−(d/2)(1 + log v), with v = (E‖x‖² − ‖μ‖²) / d."""
        del start
        mu, second = mean
        return variance_conjugate(mu, second, jnp.sum(mu**2), self.known_dim)

    @override
    def cluster_model(self) -> VarianceModel:
        """Clusters by relative variances, one for all coordinates."""
        return VarianceModel("spherical")

    @override
    def default_smoothing(self, x: Array, weights: Array | None) -> Blur:
        """One normal-reference bandwidth for all directions (`-n`)."""
        return normal_reference(x, per_coordinate=False, weights=weights)


def _log_partition_1d(theta_squared: Array, half: Array, dim: int) -> Array:
    """−‖θ₁‖²/(4θ₂) − (d/2) log(−2θ₂), elementwise; +inf for θ₂ ≥ 0."""
    inside = half < 0
    safe = jnp.where(inside, half, -0.5)
    psi = -theta_squared / (4 * safe) - 0.5 * dim * jnp.log(-2 * safe)
    return jnp.where(inside, psi, jnp.inf)
