"""Compositions: rows of positive parts that add up to 1."""

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from bregjax._checks import check_support, is_concrete
from bregjax._pytree import register_pytree
from bregjax._result import Result
from bregjax._typing import Array, DataLike
from bregjax.convex import ConjugateSolution
from bregjax.families._stirling import stirling_rest
from bregjax.families._vector_family import VectorFamily
from bregjax.smoothing import StatisticMap, adding
from bregjax.smoothing._maps import Adding

__all__ = ["Dirichlet", "check_digits"]

# How far the sum of a row may be from 1: as rounding parts to six digits makes it.
_SUM_ERROR = 1e-5
# Σ e^{μ_i} counts as 1 if it differs from 1 by at most so many roundings of μ.
_EDGE = 4
# The most rounding of the cost of a row, in nats, under the default smoothing.
_LEAST_DIGITS = 1e-6
_SAME_AS = (
    'Take family="isotropic_gaussian" of numpy.sqrt(x), which is much the same of rows '
    "so near each other"
)
# Newton steps for N in a guess; without, the solver makes more steps than this saves.
_GUESS_STEPS = 1
# Where the two approximations of the inverse of digamma are equally good.
_SWITCH = -2.22
# Larger exponents would overflow.
_LARGEST = 700.0


@register_pytree
@dataclass(frozen=True)
class Dirichlet(VectorFamily):
    """Rows on the simplex, p(x) = Π x_i^{a_i} / (B(a) Π x_i): shares of a whole.

    θ = a > 0, T(x) = log x, ψ(a) = Σ log Γ(a_i) − log Γ(Σ a_i), log h(x) = −Σ log x_i;
    densities are with respect to the first n − 1 parts. μ = E log x has
    Σ e^{μ_i} < 1; a single row lies on that boundary, where ψ* = +inf, and needs
    smoothing. Clusters differ by the place of their rows and by the variation about
    that place, for example of the probabilities of a classifier; `Multinomial` takes a
    row for the proportions of a sample.

    ψ is computed as Σ (a_i − ½) log(a_i/N) − ½ (n − 1) log(N/2π) + Σ r(a_i) − r(N),
    with N = Σ a_i and r the rest of Stirling's formula: sums of log Γ of large a_i
    would cancel.

    Attributes:
        dim: n ≥ 2; taken from the data if None.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import bregjax as bj
        >>> print(jax.jit(bj.Dirichlet(dim=3).log_partition)(jnp.ones(3)))  # −log 2
        -0.693

    References:
        Minka (2000), Estimating a Dirichlet distribution.
    """

    dim: int | None = jax.tree.static(default=None)

    @property
    @override
    def num_parameters(self) -> int:
        return self.known_dim

    @property
    @override
    def natural_init(self) -> Array:
        """The uniform distribution on the simplex."""
        return jnp.ones(self.known_dim)

    @override
    def log_partition(self, natural: Array) -> Array:
        """Σ log Γ(a_i) − log Γ(Σ a_i), +inf unless all a_i > 0."""
        inside = jnp.all(natural > 0)
        a = jnp.where(inside, natural, 1)
        total = jnp.sum(a)
        # log(a/N) of the largest part as log(1 − rest/N): `rest` keeps digits of rare
        # parts that N loses.
        largest = jnp.arange(a.shape[-1]) == jnp.argmax(a)
        rest = jnp.sum(jnp.where(largest, 0, a))
        logs = jnp.where(largest, jnp.log1p(-rest / total), jnp.log(a / total))
        value = (
            jnp.sum((a - 0.5) * logs + stirling_rest(a))
            - 0.5 * (a.shape[-1] - 1) * jnp.log(total / (2 * math.pi))
            - stirling_rest(total)
        )
        return jnp.where(inside, value, jnp.inf)

    @override
    def sufficient_statistics(self, x: Array) -> Array:
        """log(x / Σ x), so that rounding of the sum does not matter."""
        x = jnp.asarray(x, dtype=float)
        return jnp.log(x) - jnp.log(jnp.sum(x))

    @override
    def log_base_measure(self, x: Array) -> Array:
        """−Σ log x; −inf where x is off the simplex."""
        x = jnp.asarray(x, dtype=float)
        inside = jnp.all(x > 0) & (jnp.abs(jnp.sum(x) - 1) <= _SUM_ERROR)
        logs = self.sufficient_statistics(jnp.where(inside, x, 1))
        return jnp.where(inside, -jnp.sum(logs), -jnp.inf)

    @property
    @override
    def solves(self) -> bool:
        return True

    @override
    def conjugate(
        self, mean: Array, *, start: Array | None = None
    ) -> ConjugateSolution:
        """Solve for ψ*; +inf where Σ e^{μ_i} is 1 to rounding of μ."""
        mean = jnp.asarray(mean, dtype=float)
        solution = self.numerical_conjugate(mean, start=start)
        rounding = jnp.finfo(mean.dtype).eps * jnp.sum(jnp.exp(mean) * jnp.abs(mean))
        edge = jnp.abs(_lost_share(mean, jnp)) <= _EDGE * rounding
        return dataclasses.replace(
            solution,
            value=jnp.where(edge, jnp.inf, solution.value),
            result=jnp.where(edge, int(Result.BOUNDARY), solution.result),
        )

    @override
    def natural_guess(self, means: np.ndarray) -> np.ndarray:
        """Guess a to a tenth or two, by a Newton step for N = Σ a_i.

        The step starts from N = (n − 1 + s) / 2s with s = 1 − Σ e^{μ_i}, the limit for
        large a.
        """
        means = means.astype(float)
        lost = _lost_share(means, np)[..., None]
        inside = np.all(np.isfinite(means), axis=-1, keepdims=True) & (lost > 0)
        means, lost = np.where(inside, means, -1), np.where(inside, lost, 1)
        total = (means.shape[-1] - 1 + lost) / (2 * lost)
        for _ in range(_GUESS_STEPS):
            a, slope = _parts_of_total(means, total)
            gap = np.sum(a, axis=-1, keepdims=True) - total
            slope = np.sum(slope, axis=-1, keepdims=True)
            # The exact slope is below 1; its approximation may not be.
            step = gap / np.where(slope < 1, 1 - slope, 1)
            total = np.clip(total + step, total / 8, 8 * total)
        return np.where(inside, _parts_of_total(means, total)[0], 1)

    @override
    def for_data(self, x: DataLike) -> Self:
        """The family with `dim` set.

        Raises:
            ValueError: If `x` has one column, or does not fit.
        """
        family = super().for_data(x)
        if family.known_dim < 2:
            raise ValueError(
                "`x` must have at least 2 columns for Dirichlet, the parts of a whole; "
                'got 1. Of one share take Beta(), family="beta".'
            )
        return family

    @override
    def check_support(self, x: DataLike) -> None:
        """Raise ValueError at the first part or sum of a row outside the simplex."""
        super().check_support(x)
        if is_concrete(x):
            sums = np.sum(np.asarray(self.as_rows(x)), axis=-1)
            check_support(
                "x",
                sums,
                np.abs(sums - 1) <= _SUM_ERROR,
                rule="must have rows that add up to 1 for Dirichlet",
                remedy="Divide each row by its sum, x / x.sum(axis=1, keepdims=True), "
                "or count what the columns leave out in a column more",
            )

    @override
    def support(self, x: np.ndarray) -> tuple[np.ndarray, str, str]:
        remedy = (
            "Shrink rows toward the center, (x * (m - 1) + 1 / n) / m of m rows and n "
            "columns, or add up columns that are 0 together with others"
        )
        return x > 0, "must be positive for Dirichlet", remedy

    @override
    def default_smoothing(self, x: Array, weights: Array | None) -> Adding:
        """Lower each log by 2 (n − 1) h², with h the normal-reference bandwidth of √x.

        A narrow Dirichlet of precision N = Σ a about p has the covariance
        (diag p − p pᵀ) / N. √x then has the covariance I / 4N in all d = n − 1
        directions along the sphere, whatever p is, and
        Σ p_i (log p_i − E log x_i) = d / 2N, both to first order. So lowering all logs
        of a row by d / 2N turns the row into such a distribution, with the row's
        log(x_i/x_j) as its mean log-ratios. Blurring √x by h is N = 1/4h². With s² the
        variance of √x in each direction, h = s (4 / ((d + 2) m))^{1/(d + 4)}. For two
        columns this is the smoothing of `Beta`, up to the curvature of the sphere.
        """
        xp = np if is_concrete((x, weights)) else jnp
        w = xp.ones(x.shape[0]) if weights is None else weights
        size, n = xp.sum(w), x.shape[1]
        d = n - 1
        roots = xp.sqrt(x)
        centered = roots - (w @ roots / size)[None]
        variance = xp.sum(w @ centered**2) / xp.where(size > 1, size - 1, 1) / d
        # Equal rows have no spread; any positive amount will do.
        equal = xp.all(xp.max(x, axis=0) == xp.min(x, axis=0))
        variance = xp.where(equal, 1, variance)
        square = variance * (4 / ((d + 2) * size)) ** (2 / (d + 4))
        amount = 2 * d * square
        check_digits(x.T, d / (2 * amount), name="Dirichlet", remedy=_SAME_AS)
        return adding(-xp.ones(n), amount)

    @property
    @override
    def smoothing_hint(self) -> str:
        return (
            'Pass smoothing="auto", or smoothing=adding(-numpy.ones(n), amount) with '
            "a small positive amount, which lowers E log x"
        )

    @override
    def smoothing_of(self, amount: float) -> StatisticMap:
        """Lowering E log x by `amount`."""
        return adding(-np.ones(self.known_dim), amount)


def check_digits(
    parts: Iterable[Array], precision: Any, *, name: str, remedy: str
) -> None:
    """Raise ValueError where rounding of logarithms is too coarse for narrow leaves.

    Rounding of log x changes ψ* by eps N Σ x |log x|, with N = Σ a the precision of a
    leaf.

    Args:
        parts: Parts of rows, one array for each part; traced parts pass unread.
        precision: N of the leaves; broadcasts against each part.
        name: The name of the family.
        remedy: What to do, a sentence without its full stop.
    """
    parts = list(parts)
    if not is_concrete((parts, precision)):
        return
    entropies = sum(-np.asarray(part) * np.log(part) for part in parts)
    # Cells of NaN are missing.
    lost = float(np.nanmax(np.finfo(float).eps * np.asarray(precision) * entropies))
    if lost > _LEAST_DIGITS:
        raise ValueError(
            f"`x` varies too little for {name}: costs would be good to {lost:.0e} nats "
            f"a row, as the logarithms of rows are rounded. {remedy}."
        )


def _parts_of_total(
    means: np.ndarray, total: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Approximate a_i = digamma⁻¹(μ_i + digamma(N)) and its derivative by N.

    With digamma(N) ≈ log(N + ½) − 1/N, and digamma⁻¹(y) ≈ e^y + ½ for large y and
    −1/(y + γ) for small y.
    """
    inverse = 1 / total
    y = means + np.log(total + 0.5) - inverse
    large = np.exp(np.minimum(y, _LARGEST))
    small = -1 / (np.minimum(y, _SWITCH) + np.euler_gamma)
    far = y < _SWITCH
    slope = np.where(far, small**2, large) * (1 / (total + 0.5) + inverse**2)
    return np.where(far, small, large + 0.5), slope


def _lost_share(mean: Any, xp: Any) -> Any:
    """1 − Σ e^{μ_i}, to rounding of the largest μ_i even if that is near 0."""
    largest = xp.arange(mean.shape[-1]) == xp.argmax(mean, axis=-1)[..., None]
    terms = xp.where(largest, xp.expm1(mean), xp.exp(mean))
    return -xp.sum(terms, axis=-1)
