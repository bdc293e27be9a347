"""Directions: unit vectors about a mean direction."""

from dataclasses import dataclass
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from typing_extensions import override

from bregjax._checks import check_support, is_concrete
from bregjax._numerics import safe_norm
from bregjax._pytree import register_pytree
from bregjax._typing import Array, DataLike
from bregjax.clusters import BregmanModel
from bregjax.convex import ConjugateSolution, SphereCumulant, SphereEntropy
from bregjax.families._closed_form import all_finite, closed_form
from bregjax.families._vector_family import VectorFamily
from bregjax.smoothing import mixing
from bregjax.smoothing._maps import Mixing

__all__ = ["VonMisesFisher"]

# How far the length of a row may be from 1: as rounding its entries to six digits makes
# it.
_LENGTH_ERROR = 1e-5
# Variances of directions up to this have few digits, as 1 − R² cancels: rows that are
# not equal are refused.
_LEAST_SPREAD = 1e-12


@register_pytree
@dataclass(frozen=True)
class VonMisesFisher(VectorFamily):
    """Rows of length 1 in R^n, p(x) = h exp(κ⟨e, x⟩ − ψ): directions about e.

    θ = κe, T(x) = x, ψ(θ) = log 0F1(; n/2; κ²/4), the logarithm of the mean of
    exp⟨θ, u⟩ over u uniform on the sphere. Densities are with respect to the surface of
    the sphere, h = Γ(n/2) / (2 π^{n/2}). μ has the direction of e and the length
    A(κ) = I_{n/2}(κ) / I_{n/2−1}(κ) < 1; ψ*(μ) depends on ‖μ‖ alone and is +inf on the
    sphere, where all rows lie: rows need smoothing. For angles φ pass the rows
    (cos φ, sin φ); for texts and embeddings x / ‖x‖, to have a likelihood in place of
    the cosine similarity.

    κ is found to rounding for every n ≥ 2 and up to lengths within rounding of 1.

    Attributes:
        dim: n ≥ 2; taken from the data if None.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import bregjax as bj
        >>> family = bj.VonMisesFisher(dim=3)
        >>> print(jax.jit(family.natural_to_mean)(jnp.array([2.0, 0.0, 0.0])))
        [0.537 0.    0.   ]

    References:
        Mardia and Jupp (2000), Directional Statistics, Section 9.3; Banerjee, Dhillon,
        Ghosh, Sra (2005), Clustering on the unit hypersphere using von Mises–Fisher
        distributions.
    """

    dim: int | None = jax.tree.static(default=None)

    @property
    @override
    def num_parameters(self) -> int:
        return self.known_dim

    @property
    @override
    def natural_init(self) -> Array:
        """The uniform distribution."""
        return jnp.zeros(self.known_dim)

    @override
    def log_partition(self, natural: Array) -> Array:
        """log 0F1(; n/2; ‖θ‖²/4)."""
        return SphereCumulant()(natural)

    @override
    def natural_to_mean(self, natural: Array) -> Array:
        """A(κ) e, the mean direction."""
        return SphereCumulant().gradient(natural)

    @override
    def sufficient_statistics(self, x: Array) -> Array:
        """The direction x / ‖x‖, so that rounding of the length does not matter."""
        x = jnp.asarray(x, dtype=float)
        return x / safe_norm(x)

    @override
    def log_base_measure(self, x: Array) -> Array:
        """−log of the surface of the sphere; −inf off the sphere."""
        half = x.shape[-1] / 2
        surface = np.log(2) + half * np.log(np.pi) - gammaln(half)
        on_sphere = jnp.abs(safe_norm(x) - 1) <= _LENGTH_ERROR
        return jnp.where(on_sphere, -surface, -jnp.inf)

    @override
    def conjugate(
        self, mean: Array, *, start: Array | None = None
    ) -> ConjugateSolution:
        """F(‖μ‖) at θ = κ μ / ‖μ‖."""
        del start
        function = SphereEntropy()
        length, inside = safe_norm(mean), function.contains(mean)
        noise = 8 * jnp.finfo(mean.dtype).eps
        return closed_form(
            function(mean),
            function.gradient(jnp.where(inside, mean, 0)),
            inside=inside,
            closure=length <= 1 + noise,
            valid=all_finite(mean),
        )

    @override
    def kl_divergence(self, natural_p: Array, natural_q: Array) -> Array:
        """B_ψ(θ_q, θ_p), from lengths and angles."""
        return SphereCumulant().remainder(natural_p, natural_q - natural_p, x=natural_q)

    @override
    def cluster_model(self) -> BregmanModel:
        """Clusters by the divergence of mean directions."""
        return BregmanModel(SphereEntropy())

    @override
    def for_data(self, x: DataLike) -> Self:
        """The family with `dim` set.

        Raises:
            ValueError: If `x` has one column, or does not fit.
        """
        family = super().for_data(x)
        if family.known_dim < 2:
            raise ValueError(
                "`x` must have at least 2 columns for VonMisesFisher; got 1. Of angles "
                "take numpy.stack([numpy.cos(x), numpy.sin(x)], axis=1)."
            )
        return family

    @override
    def check_support(self, x: DataLike) -> None:
        """Raise ValueError at the first row that is not of length 1."""
        super().check_support(x)
        if is_concrete(x):
            lengths = np.linalg.norm(np.asarray(self.as_rows(x)), axis=-1)
            check_support(
                "x",
                lengths,
                np.abs(lengths - 1) <= _LENGTH_ERROR,
                rule="must have rows of length 1 for VonMisesFisher",
                remedy="Divide each row by its length, "
                "x / numpy.linalg.norm(x, axis=1, keepdims=True), and drop rows of 0",
            )

    @override
    def default_smoothing(self, x: Array, weights: Array | None) -> Mixing:
        """Mix with 0, the mean of the uniform distribution, as blurring each row does.

        A row blurred by a von Mises–Fisher kernel of concentration 1/h² has the mean
        A(1/h²) x, so that the amount is 1 − A(1/h²). A is replaced by a lower bound of
        Amos (1974), which makes the amount up to 17 % larger at n = 2, and less for
        larger n. h is the normal-reference bandwidth in the d = n − 1 directions along
        the sphere, s (4 / ((d + 2) m))^{1/(d + 4)}, with s² = (1 − R²)/d the variance
        in each direction and R the length of the mean of all rows.

        Raises:
            ValueError: If rows differ by less than rounding of 1 − R².
        """
        xp = np if is_concrete((x, weights)) else jnp
        w = xp.ones(x.shape[0]) if weights is None else weights
        size, d = xp.sum(w), x.shape[1] - 1
        mean = xp.sum((w / size)[:, None] * x, axis=0)
        spread = (1 - xp.sum(mean * mean)) / d
        if is_concrete((x, weights)) and spread <= _LEAST_SPREAD:
            _check_equal(np.asarray(x))
        # Equal rows have no spread; any positive amount will do.
        spread = xp.where(spread > _LEAST_SPREAD, spread, 1 / d)
        square = spread * (4 / ((d + 2) * size)) ** (2 / (d + 4))
        return mixing(xp.zeros(x.shape[1]), _blurred_away(square, d, xp))

    @property
    @override
    def smoothing_hint(self) -> str:
        return (
            'Pass smoothing="auto", or smoothing=mixing(numpy.zeros(n), amount) with '
            "a small positive amount"
        )


def _check_equal(x: np.ndarray) -> None:
    """Raise ValueError at the first row that differs from row 0 beyond rounding."""
    apart = np.max(np.abs(x - x[:1]), axis=1)
    row = int(np.argmax(apart > 1e-14))
    if apart[row] > 1e-14:
        raise ValueError(
            f"`x` varies too little for VonMisesFisher: row {row} is only "
            f"{apart[row]:.1g} from row 0, and lengths of means are rounded. Take "
            'family="isotropic_gaussian" of the same rows, which is much the same of '
            "rows so near each other, or give a `smoothing`."
        )


def _blurred_away(square: Any, d: int, xp: Any) -> Any:
    """1 − κ / (d/2 + √(κ² + (d/2 + 1)²)) at κ = 1/h², without cancellation."""
    half = d / 2
    root = xp.sqrt(1 + ((half + 1) * square) ** 2)
    below = half * square + root
    return (half * square + ((half + 1) * square) ** 2 / (root + 1)) / below
