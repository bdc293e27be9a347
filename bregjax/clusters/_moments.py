"""Means and centered covariances of weighted points, which Gaussian clusters hold."""

import abc
import math
from dataclasses import dataclass, replace
from typing import Literal, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.lax.linalg import triangular_solve
from typing_extensions import override

from bregjax._numerics import symmetric_part
from bregjax._pytree import register_pytree
from bregjax._roots import cholesky_by_root, root_of_rows
from bregjax._typing import Array, PyTree
from bregjax.clusters._merges import Merges
from bregjax.clusters._weighted_mean import weighted_mean

__all__ = [
    "CenteredStatistics",
    "Form",
    "Moments",
    "Normals",
    "average",
    "pool",
    "pool_along",
    "scatter",
]

Form = Literal["full", "diagonal", "spherical"]


class CenteredStatistics(abc.ABC):
    """Statistics of leaves about their own means, so that no digits are lost.

    A class of such statistics knows how mixtures and sums of plain statistics act on
    them.
    """

    @abc.abstractmethod
    def mixed(self, center: PyTree, share: Array) -> Self:
        """The mixture (1 − α) · self + α · center; α scalar or `[...]`."""

    @abc.abstractmethod
    def added(self, center: PyTree, amount: Array) -> Self:
        """The sum self + α · center, α scalar."""

    @abc.abstractmethod
    def averaged(self, shares: Array) -> Self:
        """Averages `[k, ...]` of these statistics `[m, ...]` by shares `[k, m]`."""

    @abc.abstractmethod
    def as_center(self) -> PyTree:
        """These statistics in the form in which centers of smoothing maps are given."""


@register_pytree
@dataclass(frozen=True)
class Moments(CenteredStatistics):
    """Means `[..., d]` and covariances about these means.

    Never raw second moments: E xxᵀ − μμᵀ loses all digits of the covariance of a
    cluster far from the origin.

    Attributes:
        mean: `[..., d]`.
        covariance: `[..., d, d]` if full, the variances `[..., d]` if diagonal, the
            average variance over coordinates `[...]` if spherical.
        form: "full", "diagonal" or "spherical".
        root: Upper triangular R with Σ = RᵀR, `[..., d, d]`, of full covariances whose
            small eigenvalues are lost in the rounding of Σ; None where Σ is enough.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> points = Moments(jnp.array([[0.0], [1e4]]), jnp.zeros((2, 1)), "diagonal")
        >>> print(jax.jit(points.blurred)(0.5).covariance.ravel())
        [0.25 0.25]
        >>> center = Moments(jnp.array([2.0]), jnp.array([1.0]), "diagonal")
        >>> mixed = jax.jit(points.mixed)(center, 0.5)
        >>> print(mixed.mean[0], mixed.covariance[0])
        [1.] [1.5]
    """

    mean: Array
    covariance: Array
    form: Form = jax.tree.static(default="full")
    root: Array | None = None

    def blurred(self, bandwidth: Array) -> "Moments":
        """Add the covariance of a kernel.

        Args:
            bandwidth: A scalar h for h² I, `[d]` for diag(h²), or a factor B `[d, d]`
                for B Bᵀ.

        Raises:
            ValueError: If the bandwidth has another shape.
        """
        dim = self.mean.shape[-1]
        if bandwidth.shape not in ((), (dim,), (dim, dim)):
            raise ValueError(
                f"`bandwidth` must be one number, one for each of the {dim} columns, "
                f"or a factor of shape {(dim, dim)}; got shape {bandwidth.shape}."
            )
        if bandwidth.ndim == 2:
            kernel = jnp.matmul(bandwidth, bandwidth.T, precision="highest")
        else:
            kernel = jnp.diag(jnp.broadcast_to(bandwidth**2, (dim,)))
        if self.form == "diagonal":
            kernel = jnp.diagonal(kernel)
        elif self.form == "spherical":
            kernel = jnp.trace(kernel) / dim
        root = None
        if self.root is not None:
            square = bandwidth.ndim == 2
            factor = (
                bandwidth.T if square else jnp.diag(jnp.broadcast_to(bandwidth, dim))
            )
            root = _root_of_sum(self.root, _aligned(factor, self.root))
        covariance = self.covariance + _aligned(kernel, self.covariance)
        return Moments(self.mean, covariance, self.form, root)

    @override
    def mixed(self, center: "Moments", share: Array) -> "Moments":
        self._check_center(center)
        share = jnp.broadcast_to(share, self.mean.shape[:-1])
        whole = Moments(
            _aligned(center.mean, self.mean),
            _aligned(center.covariance, self.covariance),
            self.form,
        )
        mixture = pool(1 - share, self, share, whole)
        if self.root is None:
            return mixture
        times = lambda amount, root: jnp.sqrt(amount)[..., None, None] * root
        root = _root_of_sum(
            times(1 - share, self.root),
            times(share, _aligned(center._known_root(), self.root)),
            times(share * (1 - share), (self.mean - whole.mean)[..., None, :]),
        )
        return replace(mixture, root=root)

    @override
    def added(self, center: "Moments", amount: Array) -> "Moments":
        self._check_center(center)
        add = lambda t, z: t + jnp.broadcast_to(amount * z, t.shape)
        root = None
        if self.root is not None:
            factor = jnp.sqrt(amount) * center._known_root()
            root = _root_of_sum(self.root, _aligned(factor, self.root))
        covariance = add(self.covariance, center.covariance)
        return Moments(add(self.mean, center.mean), covariance, self.form, root)

    def _known_root(self) -> Array:
        """The root; the transposed Cholesky factor of Σ where there is none."""
        if self.root is not None:
            return self.root
        return jnp.swapaxes(jnp.linalg.cholesky(self.covariance), -1, -2)

    def _check_center(self, center: PyTree) -> None:
        """Raise unless a center has the form and the shapes of a single row."""
        if not isinstance(center, Moments):
            is_array = isinstance(center, jax.Array | np.ndarray)
            raise TypeError(
                "`center` must be Moments(mean, covariance, form) for a Gaussian "
                f"family; got {'an array' if is_array else type(center).__name__}."
            )
        event = self.covariance.shape[self.mean.ndim - 1 :]
        shapes = center.mean.shape, center.covariance.shape
        if center.form != self.form or shapes != (self.mean.shape[-1:], event):
            raise ValueError(
                f"`center` must be {self.form} moments, a mean of shape "
                f"{self.mean.shape[-1:]} and a covariance of shape {event}; got "
                f"{center.form} ones of shapes {shapes[0]} and {shapes[1]}."
            )

    @override
    def averaged(self, shares: Array) -> "Moments":
        mean = average(self.mean, shares)

        def between(cluster: tuple[Array, Array]) -> Array:
            share, center = cluster
            rows = jnp.sqrt(share)[:, None] * (self.mean - center[None])
            if self.form == "full":
                return symmetric_part(jnp.matmul(rows.T, rows, precision="highest"))
            squares = jnp.sum(rows**2, axis=0)
            return squares if self.form == "diagonal" else jnp.mean(squares)

        inner = average(self.covariance, shares)
        covariance = inner + jax.lax.map(between, (shares, mean))
        if self.root is None:
            return Moments(mean, covariance, self.form)
        root = _averaged_roots(self.root, self.mean, shares, mean)
        return Moments(mean, covariance, self.form, root)

    @override
    def as_center(self) -> "Moments":
        return self


def average(values: Array, shares: Array) -> Array:
    """Averages by shares `[k, m]`, `[k, ...]` from `[m, ...]`, kept in range.

    Shares that add up to 1 + eps would make a probability of 1 larger than 1.
    """
    flat = values.reshape(values.shape[0], -1)
    low, high = jnp.min(flat, axis=0), jnp.max(flat, axis=0)
    mean = jnp.matmul(shares, flat, precision="highest")
    mean = jnp.clip(mean, low[None], high[None])
    return mean.reshape(shares.shape[0], *values.shape[1:])


def _averaged_roots(root: Array, mean: Array, shares: Array, center: Array) -> Array:
    """R with RᵀR = Σ_i share_i (R_iᵀR_i + δ_i δ_iᵀ), one cluster after the other."""
    alike = jnp.all(root == root[:1])
    d = mean.shape[-1]

    def one(cluster: tuple[Array, Array]) -> Array:
        share, center = cluster
        weight = jnp.sqrt(share)
        between = weight[:, None] * (mean - center[None])
        inner = jax.lax.cond(
            alike,
            lambda: root[0],
            lambda: root_of_rows((weight[:, None, None] * root).reshape(-1, d)),
        )
        return root_of_rows(jnp.concatenate([inner, between]))

    return jax.lax.map(one, (shares, center))


def scatter(difference: Array, form: Form) -> Array:
    """δδᵀ `[..., d, d]`, its diagonal `[..., d]`, or that diagonal's mean `[...]`."""
    if form == "full":
        return difference[..., :, None] * difference[..., None, :]
    if form == "diagonal":
        return difference**2
    return jnp.mean(difference**2, axis=-1)


def pool(w_a: Array, a: Moments, w_b: Array, b: Moments) -> Moments:
    """Moments of the union of two weighted clusters (Chan's pairwise update).

    With p = w_a / w, q = w_b / w and δ = μ_b − μ_a:

        μ = μ_a + q δ,    Σ = Σ_a + q (Σ_b − Σ_a) + p q δδᵀ
    """
    total = w_a + w_b
    axes = a.covariance.ndim - a.mean.ndim + 1
    nowhere = jnp.zeros((1,) * a.mean.ndim, bool)
    mean = weighted_mean(w_a[..., None], a.mean, w_b[..., None], b.mean, nowhere)
    nowhere = jnp.zeros((1,) * a.covariance.ndim, bool)
    inner = weighted_mean(
        _expand(w_a, axes), a.covariance, _expand(w_b, axes), b.covariance, nowhere
    )
    between = scatter(b.mean - a.mean, a.form)
    share = _expand(w_a / total * (w_b / total), axes)
    return Moments(mean, inner + share * between, a.form)


def pool_along(merges: Merges, weights: Array, leaves: Moments) -> Moments:
    """Moments of all nodes of a tree, by the update of `pool`.

    Args:
        merges: The tree.
        weights: Weights of all nodes, `[L + t]`.
        leaves: Moments of the leaves, `[L, ...]`.

    Returns:
        Moments `[L + t, ...]`.
    """
    mean = merges.average(weights, leaves.mean)
    (w_a, w_b), (mean_a, mean_b) = merges.parts(weights), merges.parts(mean)
    total = w_a + w_b
    axes = leaves.covariance.ndim - weights.ndim
    share = _expand(w_a / total * (w_b / total), axes)
    between = share * scatter(mean_b - mean_a, leaves.form)
    covariance = merges.average(weights, leaves.covariance, added=between)
    return Moments(mean, covariance, leaves.form)


@register_pytree
@dataclass(frozen=True)
class Normals:
    """Normal distributions in the form in which log-densities are quick.

    Attributes:
        mean: μ `[k, d]`.
        root: L⁻¹ of Σ = L Lᵀ `[k, d, d]`, or 1/σ `[k, d]`.
        log_norm: −½ (log det Σ + d log 2π), `[k]`.
    """

    mean: Array
    root: Array
    log_norm: Array

    @classmethod
    def of(cls, moments: Moments, root: Array | None = None) -> "Normals":
        """The normal distributions of these moments, `[k]`.

        Args:
            moments: Means and covariances.
            root: R with Σ = RᵀR, `[k, d, d]`, if it has digits that Σ has lost.
        """
        mean, covariance = moments.mean, moments.covariance
        if moments.form == "full":
            if root is None:
                factor = jnp.linalg.cholesky(covariance)
            else:
                factor = cholesky_by_root(covariance, root)
            eye = jnp.broadcast_to(
                jnp.eye(mean.shape[-1], dtype=mean.dtype), factor.shape
            )
            root = triangular_solve(factor, eye, left_side=True, lower=True)
            scale = jnp.diagonal(factor, axis1=-2, axis2=-1)
        else:
            variance = (
                covariance if moments.form == "diagonal" else covariance[..., None]
            )
            scale = jnp.sqrt(jnp.broadcast_to(variance, mean.shape))
            root = 1 / scale
        log_norm = -0.5 * mean.shape[-1] * math.log(2 * math.pi)
        return cls(mean, root, log_norm - jnp.sum(jnp.log(scale), axis=-1))

    def log_densities(self, x: Array) -> Array:
        """log N(x; μ_k, Σ_k) of a point `[d]`, `[k]`, by differences from the means."""
        gap = x[None] - self.mean
        if self.root.ndim > gap.ndim:
            white = jnp.einsum("kij,kj->ki", self.root, gap, precision="highest")
        else:
            white = self.root * gap
        return self.log_norm - 0.5 * jnp.sum(white**2, axis=-1)


def _root_of_sum(*rows: Array) -> Array:
    """R with RᵀR = Σ AᵀA over matrices A `[..., k, d]`; R has no derivatives."""
    return root_of_rows(jax.lax.stop_gradient(jnp.concatenate(rows, axis=-2)))


def _expand(x: Array, axes: int) -> Array:
    return x.reshape(x.shape + (1,) * axes)


def _aligned(x: Array, like: Array) -> Array:
    """Broadcast `x` to the shape of `like`."""
    return jnp.broadcast_to(x, like.shape)
