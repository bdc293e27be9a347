"""One-sided directional derivatives, right at kinks.

A function is traced to its jaxpr, and the jaxpr is walked with values along the ray
x + τv, τ → 0+ (see `_directional.ray`). Smooth primitives use their JVP; those that
have kinks have a rule.
"""

from collections.abc import Callable

import jax
import jax.extend.core as jec
import jax.numpy as jnp

from bregjax._typing import Array, PyTree
from bregjax.convex._directional.own import define_directional_derivative
from bregjax.convex._directional.ray import Doubt, Doubts, Ray, is_concrete
from bregjax.convex._directional.walk import walk

__all__ = ["define_directional_derivative", "directional_derivative"]

_UNNAMED = (
    "inf − inf, 0 · inf or 0 / 0 came up on the way, or x or v holds NaN. Write f "
    "without it, or bring a rule with `define_directional_derivative`."
)


def directional_derivative(
    f: Callable[[PyTree], PyTree], x: PyTree, v: PyTree
) -> PyTree:
    """One-sided derivative f'(x; v) = lim (f(x + τv) − f(x)) / τ for τ → 0+.

    Where f is smooth this is `jax.jvp(f, (x,), (v,))[1]`. At a kink it is the limit
    along v, which `jax.jvp` does not give: of |·| at 0 the derivative is |v|. Ties of
    max, min, abs, sorts and the like are decided by the slopes along v, and where these
    tie too by second derivatives, so that √(x²) and ‖x‖₂ at 0 give |v| and ‖v‖.

    The derivative is ±inf where f is infinitely steep (√‖x‖₁ or x log x at 0), or where
    the ray leaves the domain into f = ±inf. At a jump to a finite value (floor, integer
    casts, a discontinuous `where`) it is the slope of the piece that the ray enters.
    `lax.stop_gradient` is the identity here. A function with a custom JVP is walked
    where it has kinks; where it has none, or holds a `while` loop, its JVP is taken.

    Args:
        f: Pure JAX function from a pytree of float arrays to a pytree of float arrays.
            Control flow, `jit`, `vmap`, remat and custom derivatives may be inside.
        x: The point, a pytree of float arrays.
        v: The direction, of the structure and shapes of x.

    Returns:
        A pytree like f(x). NaN where the limit is not decided (see below) and the
        call is traced (`jit`, `vmap`).

    Raises:
        ValueError: x and v do not match; f returns no floats; or, with concrete
            numbers, the limit is not decided: a comparison of values not affine in x
            that tie to second order, a root at 0 whose argument has unknown growth,
            eigenvectors of equal eigenvalues, singular vectors of equal or zero
            singular values. The message says which.
        NotImplementedError: f holds a primitive for which there is no rule, traced or
            not (`custom_root`, callbacks, `jnp.linalg.eig`). Use
            `define_directional_derivative`.

    Examples:
        >>> import jax.numpy as jnp
        >>> x, v = jnp.zeros(3), jnp.array([1.0, -2.0, 0.0])
        >>> float(directional_derivative(lambda x: jnp.sum(jnp.abs(x)), x, v))
        3.0

    References:
        Telgarsky and Dasgupta (2012), Definition 2.1.
    """
    points, tree = jax.tree.flatten(x)
    given, other = jax.tree.flatten(v)
    if tree != other:
        raise ValueError(
            f"directional_derivative: x and v need the same structure; got {tree} and "
            f"{other}."
        )
    points = [jnp.asarray(leaf) for leaf in points]
    steps = [_step(*pair) for pair in zip(points, given, strict=True)]
    closed, shape = jax.make_jaxpr(
        lambda *leaves: f(jax.tree.unflatten(tree, leaves)), return_shape=True
    )(*points)
    if not all(jnp.issubdtype(a.dtype, jnp.floating) for a in closed.out_avals):
        raise ValueError(
            "directional_derivative: f has to return floats; got "
            f"{[str(aval.dtype) for aval in closed.out_avals]}."
        )
    doubts = Doubts()
    rays = [Ray(point, step) for point, step in zip(points, steps, strict=True)]
    outs = walk(doubts, closed, rays)
    values = jec.jaxpr_as_fun(closed)(*points)
    resting = jnp.array([jnp.all(step == 0) for step in steps]).all()
    slopes = [
        _settle(value, out, resting) for value, out in zip(values, outs, strict=True)
    ]
    if is_concrete(doubts.code, *slopes, *values):
        _raise_if_lost(doubts, values, slopes)
    return jax.tree.unflatten(jax.tree.structure(shape), slopes)


def _step(point: Array, leaf: Array) -> Array:
    """One leaf of the direction, checked against the point's."""
    if not jnp.issubdtype(point.dtype, jnp.floating):
        raise ValueError(
            f"directional_derivative: x needs float leaves; got {point.dtype}."
        )
    step = jnp.asarray(leaf, point.dtype)
    if step.shape != point.shape:
        raise ValueError(
            f"directional_derivative: x and v need the same shapes; got {point.shape} "
            f"and {step.shape}."
        )
    return step


def _settle(value: Array, out: Ray, resting: Array) -> Array:
    """The slope: 0 for v = 0, infinite where the ray leaves into f = ±inf at once."""
    slope = jnp.where(resting & jnp.isfinite(value), 0.0, out.first())
    leaves = jnp.isinf(out.value) & jnp.isfinite(value)
    return jnp.where(leaves, out.value, slope)


def _raise_if_lost(doubts: Doubts, values: list[Array], slopes: list[Array]) -> None:
    """Raise where a derivative is NaN and the value is not."""
    lost = [
        jnp.any(jnp.isnan(slope) & ~jnp.isnan(value))
        for value, slope in zip(values, slopes, strict=True)
    ]
    if not any(bool(flag) for flag in lost):
        return
    reasons = [reason.sentence for reason in Doubt if int(doubts.code) & reason]
    if not reasons:
        reasons = [_UNNAMED]
    raise ValueError(
        "directional_derivative: the limit is not decided. " + " ".join(reasons)
    )
