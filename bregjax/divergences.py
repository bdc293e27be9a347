"""Bregman divergences of differentiable and nondifferentiable convex functions."""

from collections.abc import Callable
from typing import Literal

import jax
import jax.numpy as jnp

from bregjax._numerics import float_arrays
from bregjax._typing import Array, ArrayLike
from bregjax.convex import ConvexFunction
from bregjax.convex._plain import as_convex_function

# Differences of coordinates that a block of pairs holds at once: 16 MB in float32.
_BLOCK_ENTRIES = 2**22

__all__ = [
    "bregman_centroid",
    "bregman_divergence",
    "bregman_information",
    "gordon_divergence",
    "pairwise_bregman_divergence",
]


def __dir__() -> list[str]:
    return __all__


def bregman_divergence(
    f: ConvexFunction | Callable[[Array], Array], x: ArrayLike, y: ArrayLike
) -> Array:
    """Bregman divergence B_f(x, y) = f(x) − f(y) + f'(y; y − x).

    B_f(x, y) is the gap at x between f and its linearisation at y. f'(y; v) is the
    one-sided derivative along v, taken towards y − x: f need not be differentiable, and
    B_f(·, y) is convex and at least 0. At a kink B_f(x, y) is the largest of the gaps
    that the subgradients at y leave (Proposition 2.3): for |·|, B(x, 0) = 2|x|.

    Where f is differentiable at y the value keeps its relative accuracy however near x
    is to y, up to the rounding of x − y.

    Args:
        f: Convex function: one of `bregjax.convex`, or a plain function of one vector
            `[n]` → scalar in `jax.numpy`, which is +inf outside its domain.
        x: Points, shape `[..., *event]`.
        y: References, shape `[..., *event]`; leading axes broadcast against `x`.

    Returns:
        Divergences, shape `[...]`, at least 0, in the units of f (nats for entropies).
        +inf where x or y is outside the domain, and where the ray from x through y
        leaves the domain at y. Derivatives of the functions of `bregjax.convex` are
        taken by x and y.

    Raises:
        ValueError: If the event axes differ or the leading ones do not broadcast; for a
            plain f outside `jit` also where its one-sided derivative is not decided.

    Examples:
        >>> import jax.numpy as jnp
        >>> from bregjax.convex import L1Norm
        >>> print(bregman_divergence(L1Norm(), jnp.array([3.0]), jnp.array([0.0])))
        6.0

    References:
        Telgarsky and Dasgupta (2012), Definition 2.1.
    """
    f = as_convex_function(f)
    x, y = _points(x, y, f.event_ndim)
    return f.remainder(y, x - y, x=x)


def gordon_divergence(
    f: ConvexFunction, x: ArrayLike, g: ArrayLike, *, conjugate: Callable | None = None
) -> Array:
    """Gordon's divergence D_f(x, g) = f(x) + f*(g) − ⟨g, x⟩ ≥ 0.

    D_f(x, g) is 0 exactly where g is a subgradient of f at x (Fenchel–Young). B_f(x, y)
    is the largest D_f(x, g) over the subgradients g at y.

    The terms are added as they stand: the error is a rounding of the largest term.

    Args:
        f: Convex function.
        x: Points, shape `[..., *event]`.
        g: Dual points, shape `[..., *event]`; leading axes broadcast against `x`.
        conjugate: f*, from dual points to values; by default `f.conjugate()`.

    Returns:
        Divergences, shape `[...]`; +inf where x is outside the domain of f, or g
        outside that of f*.

    Raises:
        ValueError: If the shapes do not agree.

    Examples:
        >>> import jax.numpy as jnp
        >>> from bregjax.divergences import gordon_divergence
        >>> from bregjax.convex import SquaredNorm
        >>> x = jnp.array([1.0, 2.0])
        >>> print(gordon_divergence(SquaredNorm(), x, x))
        0.0
        >>> print(gordon_divergence(SquaredNorm(), x, jnp.array([1.0, 0.0])))
        2.0

    References:
        Gordon (1999); Telgarsky and Dasgupta (2012), Remark 2.4.
    """
    x, g = _points(x, g, f.event_ndim)
    dual = f.conjugate() if conjugate is None else conjugate
    axes = tuple(range(-f.event_ndim, 0))
    primal, dual_value = f(x), dual(g)
    outside = jnp.isposinf(primal) | jnp.isposinf(dual_value)
    inner = jnp.sum(x * g, axes)
    value = jnp.where(outside, 0, primal + dual_value - inner)
    return jnp.where(outside, jnp.inf, jnp.maximum(value, 0))


def pairwise_bregman_divergence(
    f: ConvexFunction | Callable[[Array], Array], x: ArrayLike, y: ArrayLike
) -> Array:
    """Bregman divergences B_f(x_i, y_j) of all pairs.

    Time O(k m) divergences; memory O(k m) for the result and about 4 million entries
    for the differences, as rows of `x` are taken in blocks.

    Args:
        f: Convex function, as for `bregman_divergence`.
        x: Points, shape `[k, *event]`.
        y: References, shape `[m, *event]`.

    Returns:
        Divergences, shape `[k, m]`, each as `bregman_divergence` gives it.

    Raises:
        ValueError: If `x` or `y` is not a list of points, or the event axes differ.

    Examples:
        >>> import jax.numpy as jnp
        >>> from bregjax.divergences import pairwise_bregman_divergence
        >>> from bregjax.convex import SquaredNorm
        >>> x = jnp.array([[0.0], [1.0]])
        >>> print(pairwise_bregman_divergence(SquaredNorm(), x, x))
        [[0.  0.5]
         [0.5 0. ]]
    """
    event_ndim = f.event_ndim if isinstance(f, ConvexFunction) else 1
    for name, points in (("x", x), ("y", y)):
        if jnp.ndim(points) != event_ndim + 1:
            raise ValueError(
                f"`{name}` must hold one leading axis of points with {event_ndim} "
                f"axes each; got shape {jnp.shape(points)}."
            )
    x, y = float_arrays(x, y)
    row = lambda point: bregman_divergence(f, point[None], y)
    rows = max(1, _BLOCK_ENTRIES // max(1, y.size))
    if x.shape[0] <= rows:
        return jax.vmap(row)(x)
    return jax.lax.map(row, x, batch_size=rows)


def bregman_centroid(
    f: ConvexFunction,
    x: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    side: Literal["right", "left"] = "right",
) -> Array:
    """The point that minimises the total divergence to, or from, weighted points.

    The right centroid is argmin over c of Σ w_i B_f(x_i, c), the weighted mean whatever
    f is; the left one is argmin over c of Σ w_i B_f(c, x_i), the dual mean
    ∇f*(Σ w_i ∇f(x_i) / Σ w_i).

    Args:
        f: Convex function.
        x: Points, shape `[m, *event]`.
        weights: Not negative, of positive sum, shape `[m]`; by default all 1.
        side: "right" for the mean, "left" for the dual mean.

    Returns:
        The centroid, shape `[*event]`.

    Raises:
        ValueError: If the shapes do not agree, or `side` is neither.

    Examples:
        >>> import jax.numpy as jnp
        >>> from bregjax.divergences import bregman_centroid
        >>> from bregjax.convex import NegativeEntropy
        >>> x = jnp.array([[1.0], [4.0]])
        >>> print(bregman_centroid(NegativeEntropy(), x))
        [2.5]
        >>> print(bregman_centroid(NegativeEntropy(), x, side="left"))
        [2.]

    References:
        Banerjee, Merugu, Dhillon and Ghosh (2005), Proposition 1, for the right
        centroid; by duality, B_f(c, x) = B_f*(∇f(x), ∇f(c)), for the left one.
    """
    x, weights = _weighted(f, x, weights)
    if side == "right":
        return _mean(x, weights)
    if side == "left":
        return f.conjugate().gradient(_mean(f.gradient(x), weights))
    raise ValueError(f'`side` must be "right" or "left"; got {side!r}.')


def bregman_information(
    f: ConvexFunction, x: ArrayLike, weights: ArrayLike | None = None
) -> Array:
    """Bregman information Σ w_i B_f(x_i, μ), μ the weighted mean.

    It is the part of Σ w_i B_f(x_i, y) that no y can explain: for any y that sum is the
    information plus (Σ w_i) B_f(μ, y), if f is relatively differentiable.

    Args:
        f: Convex function.
        x: Points, shape `[m, *event]`.
        weights: Not negative, of positive sum, shape `[m]`; by default all 1.

    Returns:
        Scalar, at least 0, in the units of f times those of the weights.

    Raises:
        ValueError: If the shapes do not agree.

    Examples:
        >>> import jax.numpy as jnp
        >>> from bregjax.divergences import bregman_information
        >>> from bregjax.convex import SquaredNorm
        >>> print(bregman_information(SquaredNorm(), jnp.array([[0.0], [4.0]])))
        4.0

    References:
        Telgarsky and Dasgupta (2012), Definition 3.2 and Lemma 3.5.
    """
    x, weights = _weighted(f, x, weights)
    gaps = bregman_divergence(f, x, _mean(x, weights)[None])
    # A point of weight 0 may lie outside the domain.
    return jnp.sum(jnp.where(weights == 0, 0, weights * gaps))


def _points(x: ArrayLike, y: ArrayLike, event_ndim: int) -> tuple[Array, Array]:
    """Float arrays of one rank, checked to broadcast."""
    shapes = f"got shapes {jnp.shape(x)} and {jnp.shape(y)}"
    events = {jnp.shape(point)[-event_ndim:] for point in (x, y)}
    if len(events) > 1 or min(jnp.ndim(x), jnp.ndim(y)) < event_ndim:
        raise ValueError(f"The last {event_ndim} axes of points must agree; {shapes}.")
    x, y = float_arrays(x, y)
    split = x.ndim - event_ndim
    for first, second in zip(x.shape[:split], y.shape[:split], strict=True):
        if first != second and 1 not in (first, second):
            raise ValueError(f"The leading axes of points must broadcast; {shapes}.")
    return x, y


def _weighted(
    f: ConvexFunction, x: ArrayLike, weights: ArrayLike | None
) -> tuple[Array, Array]:
    if jnp.ndim(x) != f.event_ndim + 1:
        raise ValueError(
            f"`x` must hold one leading axis of points with {f.event_ndim} axes each; "
            f"got shape {jnp.shape(x)}."
        )
    (x,) = float_arrays(x)
    if weights is None:
        return x, jnp.ones(x.shape[0], x.dtype)
    weights = jnp.asarray(weights, x.dtype)
    if weights.shape != x.shape[:1]:
        raise ValueError(
            f"`weights` must hold one number a point, shape {x.shape[:1]}; got shape "
            f"{weights.shape}."
        )
    return x, weights


def _mean(x: Array, weights: Array) -> Array:
    """Weighted mean over the first axis; a weight of 0 drops its point, NaN or not.

    As a sum of shares of the total weight the mean is inside the hull up to rounding.
    """
    share = (weights / jnp.sum(weights)).reshape((-1,) + (1,) * (x.ndim - 1))
    return jnp.sum(jnp.where(share == 0, 0, share * x), 0)
