"""Cheap lower bounds of the merge costs of all pairs, by matrix products.

An engine screens with these and evaluates costs only where they don't exclude a pair.
So a bound must never be above the cost, rounding included; how close it comes decides
the speed, not the tree.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from bregjax._typing import Array
from bregjax.convex import (
    BinaryEntropy,
    Burg,
    ConvexFunction,
    NegativeEntropy,
    Scaled,
    SimplexEntropy,
    SquaredNorm,
)

__all__ = [
    "PairBound",
    "bound_of",
    "distances_from",
    "in_range",
    "less_rounding",
    "log_of_product",
]


# Factors that share a logarithm.
_TOGETHER = 8

Screen = Callable[[Array, Array, jnp.dtype], Callable[[Array, Array], Array]]


@dataclass(frozen=True)
class PairBound:
    """A lower bound of Δ for all pairs, and what an engine sizes its work by.

    Attributes:
        screen: From the weights `[k]` and means `[k, n]` of rows, and the precision to
            work in, to a function from weights `[m]` and means `[m, n]` of columns to
            bounds `[k, m]`.
        group: Pairs that may share one bound, a power of two: many where the bound is
            close and the cost cheap.
        numbers: Numbers a pair in temporaries; few where nothing is `[k, m, n]`.
        of_pairs: A closer bound for single pairs, from weights `[p]`, means `[p, n]`,
            weights and means to `[p]`; None where the cost itself is as cheap.
    """

    screen: Screen
    group: int
    numbers: int = 4
    of_pairs: Callable[[Array, Array, Array, Array], Array] | None = None


@functools.singledispatch
def bound_of(function: ConvexFunction) -> PairBound | None:
    """The bound for a convex function; None where nothing beats the cost itself."""
    del function
    return None


@bound_of.register
def _scaled(function: Scaled) -> PairBound | None:
    inner = bound_of(function.function)
    if inner is None:
        return None

    def screen(w_a, t_a, dtype):
        bound = inner.screen(w_a, t_a, dtype)
        factor = jnp.asarray(function.factor, dtype)
        return lambda w_b, t_b: bound(w_b, t_b) * factor

    of_pairs = inner.of_pairs
    if of_pairs is None:
        return PairBound(screen, inner.group, inner.numbers)
    factor = jnp.asarray(function.factor)
    scaled_pairs = lambda *pair: of_pairs(*pair) * factor.astype(pair[0].dtype)
    return PairBound(screen, inner.group, inner.numbers, scaled_pairs)


@bound_of.register
def _squared_norm(function: SquaredNorm) -> PairBound:
    """The cost itself, ½ (w_a w_b / w) ‖a − b‖²."""
    del function

    def screen(w_a, t_a, dtype):
        distances, w_a = distances_from(t_a, dtype), w_a.astype(dtype)
        return lambda w_b, t_b: 0.5 * _harmonic(w_a, w_b) * distances(t_b)

    return PairBound(screen, group=8)


@bound_of.register(NegativeEntropy)
@bound_of.register(SimplexEntropy)
def _entropy(function: ConvexFunction) -> PairBound:
    del function
    return PairBound(_hellinger, group=4, of_pairs=_pollard)


@bound_of.register
def _binary_entropy(function: BinaryEntropy) -> PairBound:
    """Two categories a coordinate."""
    del function
    both = lambda t: jnp.concatenate([t, 1 - t], axis=-1)

    def screen(w_a, t_a, dtype):
        bound = _hellinger(w_a, both(t_a), dtype)
        return lambda w_b, t_b: bound(w_b, both(t_b))

    def of_pairs(w_a, t_a, w_b, t_b):
        delta = t_a - t_b
        signed = jnp.concatenate([delta, -delta], axis=-1)
        return _pollard_of(w_a, both(t_a), w_b, both(t_b), signed)

    return PairBound(screen, group=4, of_pairs=of_pairs)


def _hellinger(w_a: Array, t_a: Array, dtype) -> Callable[[Array, Array], Array]:
    """Δ ≥ 2 κ (w_a w_b / w) ‖√a − √b‖² for sums of a log a, by matrix product.

    κ = −log p / (2 (1 − p)), p ≥ ½ the larger share of the weight; its series in
    q = 1 − p, cut off, is below it: κ ≥ ½ (1 + q/2 + q²/3 + q³/4).

    Proof, for one coordinate, by homogeneity with a = 1, b = r: the cost is
    f(r) = q r log r − (p + q r) log(p + q r), the distance g(r) = 2 p q (1 − √r)², both
    0 to first order at r = 1, and f″/g″ = √r / (p + q r) rises to its maximum and
    falls, with 1 at r = 1. So for κ ≤ 1 h = f − κ g is convex on an interval around 1,
    hence at least 0 there, and concave on both sides of it: at least 0 if it is at
    r = 0, where −p log p ≥ 2 κ p q, and, with the roles of a and b exchanged, at
    r = ∞, where −q log q ≥ 2 κ p q. The first decides where p is the larger.
    """
    # Roots are good to a few roundings of the states' precision.
    rounding = 4 * float(jnp.finfo(t_a.dtype).eps)
    distances = distances_from(jnp.sqrt(t_a), dtype, rounding)
    w_a = w_a.astype(dtype)[:, None]

    def bound(w_b: Array, t_b: Array) -> Array:
        w_b = w_b.astype(dtype)[None]
        share = 1 / (w_a + w_b)
        q = jnp.minimum(w_a, w_b) * share
        twice_kappa = 1 + q * (1 / 2 + q * (1 / 3 + q / 4))
        slack = 1 - 16 * jnp.finfo(dtype).eps
        return (slack * twice_kappa) * (w_a * w_b * share) * distances(jnp.sqrt(t_b))

    return bound


def _pollard(w_a: Array, t_a: Array, w_b: Array, t_b: Array) -> Array:
    """Δ ≥ 3/2 (w_a w_b / w) Σ δ² [q / (a + 2c) + p / (b + 2c)], δ = a − b, c the mean.

    From x log x − x + 1 ≥ 3 (x − 1)² / (2 (x + 2)), Pollard's inequality, at x = a / c
    and b / c. Good to the fourth order in δ, and never below 3/4 of the cost.
    """
    return _pollard_of(w_a, t_a, w_b, t_b, t_a - t_b)


def _pollard_of(w_a: Array, t_a: Array, w_b: Array, t_b: Array, delta: Array) -> Array:
    total = w_a + w_b
    p, q = (w_a / total)[..., None], (w_b / total)[..., None]
    c = p * t_a + q * t_b
    a, b = t_a + 2 * c, t_b + 2 * c
    # Where both are 0 so is δ.
    terms = (
        delta * delta * (q * b + p * a) / jnp.maximum(a * b, jnp.finfo(c.dtype).tiny)
    )
    slack = 1.5 * (1 - (32 + t_a.shape[-1]) * jnp.finfo(c.dtype).eps)
    return slack * (w_a * w_b / total) * jnp.sum(terms, axis=-1)


@bound_of.register
def _burg(function: Burg) -> PairBound:
    """The cost, w Σ log c − w_a Σ log a − w_b Σ log b, less its rounding."""
    del function

    def screen(w_a, t_a, dtype):
        scale = jnp.mean(t_a, axis=0, keepdims=True)
        t_a = (t_a / scale).astype(dtype)
        w_a = w_a.astype(dtype)[:, None]
        log_a = jnp.sum(jnp.log(t_a), axis=-1)[:, None]
        log_a = log_a + in_range(jnp.min(t_a, axis=-1))[:, None]
        columns_a = t_a.T

        def bound(w_b, t_b):
            t_b = (t_b / scale).astype(dtype).T
            log_b = jnp.sum(jnp.log(t_b), axis=0) + in_range(jnp.min(t_b, axis=0))
            log_b = log_b[None]
            w_b = w_b.astype(dtype)[None]
            total = w_a + w_b
            p, q = w_a / total, w_b / total
            term = lambda k: p * columns_a[k][:, None] + q * t_b[k][None]
            logs = log_of_product(term, t_a.shape[-1], p)
            return less_rounding(total, logs, w_a, log_a, w_b, log_b, t_a)

        return bound

    return PairBound(screen, group=4, numbers=64)


def less_rounding(total, logs, w_a, log_a, w_b, log_b, like: Array) -> Array:
    """w log c − w_a log a − w_b log b, less what rounding may have added to it."""
    cost = total * logs - w_a * log_a - w_b * log_b
    size = like.shape[-1] + jnp.abs(logs) + jnp.abs(log_a) + jnp.abs(log_b)
    return cost - 64 * jnp.finfo(like.dtype).eps * total * size


def log_of_product(term: Callable[[Array], Array], count: int, like: Array) -> Array:
    """Σ_k log term(k), with one logarithm for eight factors; NaN on overflow.

    Factors should be of order 1: the product of so many stays in range for factors
    from 1e-38 to 1e38 in float64, 1e-4 to 1e4 in float32. One that leaves it gives NaN
    or −inf, which exclude nothing.

    Args:
        term: From a number k to factors of the shape of `like`.
        count: How many.
        like: An array of the shape and precision of the result.
    """

    def several(start: Array, how_many: int = _TOGETHER) -> Array:
        factors = [term(start + k) for k in range(how_many)]
        return jnp.log(functools.reduce(lambda x, y: x * y, factors))

    # A loop: written out, long sums are no longer kept in registers.
    whole, rest = divmod(count, _TOGETHER)
    add = lambda k, out: out + several(k * _TOGETHER)
    out = jax.lax.fori_loop(0, whole, add, jnp.zeros_like(like))
    if rest:
        out = out + several(jnp.int32(whole * _TOGETHER), rest)
    return jnp.where(out < jnp.inf, out, jnp.nan)


def distances_from(
    a: Array, dtype, relative_error: float = 0.0
) -> Callable[[Array], Array]:
    """From `b` `[m, n]` to ‖a_i − b_j‖² from below, `[k, m]`, by matrix product.

    ‖a‖² + ‖b‖² − 2⟨a, b⟩ about the mean of the rows of `a`, less a bound of its
    rounding, (3n + 16) eps (‖a‖² + ‖b‖²); NaN where that would overflow. All three
    terms are one product of vectors with two entries more.

    Where entries have a relative error r of their own, the distance d has one of
    e = r (‖a‖ + ‖b‖) about 0, and (d − e)² ≥ (1 − η) d² − 2 r² (‖a‖² + ‖b‖²) / η.

    Args:
        a: `[k, n]`.
        dtype: The precision to work in.
        relative_error: r.
    """
    n = a.shape[-1]
    centre = jnp.mean(a, axis=0, keepdims=True)
    info = jnp.finfo(dtype)
    eta = float(jnp.finfo(a.dtype).eps) ** 0.5 if relative_error else 0.0

    def centred(x: Array) -> tuple[Array, Array]:
        own = jnp.sum(x * x, axis=-1, keepdims=True)
        x = (x - centre).astype(dtype)
        norm = jnp.sum(x * x, axis=-1, keepdims=True)
        norm = jnp.where(norm < info.max / 8, norm, jnp.nan)
        norm = (1 - (3 * n + 16) * info.eps) * norm
        if relative_error:
            own = 2 * relative_error**2 / (eta * (1 - eta)) * own
            norm = norm - own.astype(dtype)
        return x, norm

    a, norm_a = centred(a)
    left = jnp.concatenate([-2 * a, norm_a, jnp.ones_like(norm_a)], axis=-1)
    left = (1 - eta) * left

    def to(b: Array) -> Array:
        b, norm_b = centred(b)
        right = jnp.concatenate([b, jnp.ones_like(norm_b), norm_b], axis=-1)
        return jnp.matmul(left, right.T, precision="highest")

    return to


def in_range(smallest: Array) -> Array:
    """0 where products of factors as small as half of this keep their digits, else NaN.

    A weighted mean of two numbers is at least half of one of them.
    """
    info = jnp.finfo(smallest.dtype)
    floor = 2 * float(info.tiny) ** (1 / _TOGETHER)
    return jnp.where(smallest >= floor, 0, jnp.nan).astype(smallest.dtype)


def _harmonic(w_a: Array, w_b: Array) -> Array:
    """w_a w_b / (w_a + w_b) of all pairs, from below, in the precision of `w_a`."""
    slack = 1 - 16 * jnp.finfo(w_a.dtype).eps
    return slack / (1 / w_a[:, None] + 1 / w_b.astype(w_a.dtype)[None])
