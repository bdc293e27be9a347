"""Rules that hold away from kinks: JVPs, logarithms and quotients at 0, masks.

At 0 along 1, z log z has the value 0 and the slope 1 · log 0 = −∞, along 0 the slope 0.
For (z + z²) / 2z a' = 1, a'' = 2, b' = 2 and b'' = 0: the value is 1/2 and the slope
(2 − ½ · 0) / (2 · 2) = ½, which the JVP of 0/0 does not give.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._typing import Array
from bregjax.convex._directional.jaxpr import evaluate
from bregjax.convex._directional.ray import (
    Doubt,
    Doubts,
    Ray,
    is_concrete,
    later,
    unknown,
)
from bregjax.convex._directional.roots import power_rule
from bregjax.convex._directional.rules import Rule

# Linear in all float operands together, so that affine rays give affine rays.
_LINEAR = frozenset(
    [
        "add",
        "add_any",
        "broadcast_in_dim",
        "concatenate",
        "copy",
        "copy_p",
        "cumsum",
        "device_put",
        "dynamic_slice",
        "dynamic_update_slice",
        "expand_dims",
        "gather",
        "imag",
        "neg",
        "optimization_barrier",
        "pad",
        "real",
        "reduce_precision",
        "reduce_sum",
        "reduce_window_sum",
        "reshape",
        "rev",
        "scatter",
        "scatter-add",
        "slice",
        "split",
        "squeeze",
        "stop_gradient",
        "sub",
        "transpose",
    ]
)
# Linear in each operand while the other is constant.
_BILINEAR = frozenset(["mul", "dot_general", "conv_general_dilated"])

# An undecided entry of an operand makes the same entry of the output undecided.
_ELEMENTWISE = frozenset(
    [
        "abs",
        "add",
        "and",
        "clamp",
        "convert_element_type",
        "div",
        "eq",
        "ge",
        "gt",
        "integer_pow",
        "le",
        "lt",
        "max",
        "min",
        "mul",
        "ne",
        "neg",
        "not",
        "or",
        "rem",
        "shift_left",
        "shift_right_arithmetic",
        "shift_right_logical",
        "sign",
        "sub",
        "xor",
    ]
)
# Applied to the mask of undecided entries as to the value.
_ONE_OPERAND = frozenset(
    [
        "broadcast_in_dim",
        "copy",
        "expand_dims",
        "reshape",
        "rev",
        "slice",
        "squeeze",
        "transpose",
    ]
)


def smooth(doubts: Doubts, eqn: Any, rays: Sequence[Ray]) -> list[Ray]:
    """Slopes by the primitive's JVP."""
    del doubts
    moving = [place for place, ray in enumerate(rays) if ray.is_active]

    def bind(*parts: Array) -> tuple[Array, ...]:
        operands = [ray.value for ray in rays]
        for place, part in zip(moving, parts, strict=True):
            operands[place] = part
        outs = eqn.primitive.bind(*operands, **eqn.params)
        return tuple(outs) if eqn.primitive.multiple_results else (outs,)

    affine = all(ray.is_affine for ray in rays) and _keeps_affine(eqn, rays)
    return along(bind, [rays[place] for place in moving], affine=affine)


def along(
    function: Callable[..., tuple[Array, ...]], rays: Sequence[Ray], *, affine: bool
) -> list[Ray]:
    """The outputs of a function as rays: slopes by `jax.jvp`, bends by two of them."""
    values = tuple(ray.value for ray in rays)
    slopes = tuple(ray.first() for ray in rays)
    outs, out_slopes = jax.jvp(function, values, slopes)
    inexact = [jnp.issubdtype(out.dtype, jnp.inexact) for out in outs]

    def float_slopes(*parts: Array) -> tuple[Array, ...]:
        primals, tangents = parts[: len(values)], parts[len(values) :]
        _, result = jax.jvp(function, primals, tangents)
        return tuple(part for part, real in zip(result, inexact, strict=True) if real)

    def second() -> tuple[Array, ...]:
        bends = tuple(ray.second() for ray in rays)
        try:
            return jax.jvp(float_slopes, (*values, *slopes), (*slopes, *bends))[1]
        except (TypeError, NotImplementedError):
            # There is no second derivative: the tie that needs it stays undecided.
            return tuple(
                jnp.full_like(out, jnp.nan)
                for out, real in zip(outs, inexact, strict=True)
                if real
            )

    bends = later(second)
    result = []
    for place, (out, slope) in enumerate(zip(outs, out_slopes, strict=True)):
        if not inexact[place]:
            result.append(Ray(out))
            continue
        number = sum(inexact[:place])
        bend = None if affine else later(lambda number=number: bends()[number])
        result.append(Ray(out, slope, bend))
    return result


def _keeps_affine(eqn: Any, rays: Sequence[Ray]) -> bool:
    name = eqn.primitive.name
    if name in _LINEAR:
        return True
    moving = [ray.is_active for ray in rays]
    if name in _BILINEAR:
        return sum(moving) == 1
    return name == "div" and not moving[1]


def discrete(doubts: Doubts, eqn: Any, rays: Sequence[Ray]) -> list[Ray]:
    """The outputs of an equation on Booleans and integers, some of them undecided."""
    return open_operands(
        doubts, eqn, rays, [Ray(value) for value in evaluate(eqn, rays)]
    )


def open_operands(
    doubts: Doubts, eqn: Any, rays: Sequence[Ray], outs: list[Ray]
) -> list[Ray]:
    """Make outputs undecided where undecided entries of discrete operands reach."""
    masks = [ray.slope for ray in rays if not ray.is_float and ray.slope is not None]
    if not masks:
        return outs
    result = []
    for out in outs:
        where = _spread_masks(eqn, masks, out.value.shape)
        if out.is_float:
            slope = doubts.poison(out.first(), where, Doubt.TIE)
            result.append(Ray(out.value, slope, unknown(slope)))
        else:
            result.append(Ray(out.value, out.mask() | where))
    return result


def _spread_masks(eqn: Any, masks: Sequence[Array], shape: tuple[int, ...]) -> Array:
    """Entries of the output that depend on undecided entries of the operands."""
    if eqn.primitive.name in _ONE_OPERAND and len(eqn.invars) == 1:
        return eqn.primitive.bind(masks[0], **eqn.params)
    if all(mask.shape in (shape, ()) for mask in masks) and (
        eqn.primitive.name in _ELEMENTWISE
    ):
        where = jnp.zeros(shape, bool)
        for mask in masks:
            where = where | mask
        return where
    anywhere = jnp.zeros((), bool)
    for mask in masks:
        anywhere = anywhere | jnp.any(mask)
    return jnp.broadcast_to(anywhere, shape)


def _logarithm(doubts: Doubts, eqn: Any, rays: Sequence[Ray]) -> list[Ray]:
    (out,) = smooth(doubts, eqn, rays)
    return [Ray(out.value, out.slope, out.bend, logarithmic=True)]


def _product(doubts: Doubts, eqn: Any, rays: Sequence[Ray]) -> list[Ray]:
    """The product a b, with 0 · log 0 = 0 and its slope a' log 0."""
    (out,) = smooth(doubts, eqn, rays)
    value, slope = out.value, out.first()
    for zero, infinite in (rays, rays[::-1]):
        if not infinite.logarithmic:
            continue
        meets = (zero.value == 0) & jnp.isinf(infinite.value)
        steep = jnp.where(zero.first() == 0, 0.0, zero.first() * infinite.value)
        value = jnp.where(meets, 0.0, value)
        slope = jnp.where(meets, steep, slope)
    scaled = any(ray.logarithmic for ray in rays) and not all(
        ray.is_active for ray in rays
    )
    return [Ray(value, slope, out.bend, scaled)]


def _quotient(doubts: Doubts, eqn: Any, rays: Sequence[Ray]) -> list[Ray]:
    """The quotient a / b; where both vanish, by the first two orders of each.

    (a'τ + a''τ²/2) / (b'τ + b''τ²/2) is a'/b' + τ (a'' − (a'/b') b'') / (2b').
    """
    a, b = rays
    (out,) = _keep_logarithm(doubts, eqn, rays)
    if not b.is_active:
        return [out]
    meets = (a.value == 0) & (b.value == 0)
    if is_concrete(meets) and not bool(jnp.any(meets)):
        return [out]
    base = jnp.where(meets, b.first(), 1.0)
    limit = a.first() / base
    turn = (a.second() - limit * b.second()) / (2 * base)
    value = jnp.where(meets, limit, out.value)
    slope = jnp.where(meets, turn, out.first())
    bend = later(lambda: jnp.where(meets, jnp.nan, out.second()))
    return [Ray(value, slope, bend, out.logarithmic)]


def _keep_logarithm(doubts: Doubts, eqn: Any, rays: Sequence[Ray]) -> list[Ray]:
    (out,) = smooth(doubts, eqn, rays)
    scaled = rays[0].logarithmic and not any(ray.is_active for ray in rays[1:])
    return [Ray(out.value, out.slope, out.bend, scaled)]


def _power(doubts: Doubts, eqn: Any, rays: Sequence[Ray]) -> list[Ray]:
    """a^b: a root where b is known to be in (0, 1); undecided at 0^b where b moves."""
    base, exponent = rays
    if exponent.slope is None and base.is_active and is_concrete(exponent.value):
        powers = set(np.asarray(exponent.value).ravel().tolist())
        if len(powers) == 1 and 0 < (power := powers.pop()) < 1:
            return [power_rule(doubts, eqn, base, power)]
    (out,) = smooth(doubts, eqn, rays)
    if not exponent.is_active:
        return [out]
    lost = base.value == 0
    if not base.is_active:
        lost &= exponent.value <= 0
    slope = doubts.poison(
        out.first(), jnp.broadcast_to(lost, out.value.shape), Doubt.ROOT
    )
    return [Ray(out.value, slope, out.bend)]


def _bessel_i0e(doubts: Doubts, eqn: Any, rays: Sequence[Ray]) -> list[Ray]:
    """exp(−|x|) I₀(x), with the kink of |x| at 0, of slope −|x'|."""
    (x,) = rays
    (out,) = smooth(doubts, eqn, rays)
    zero = x.value == 0
    slope = jnp.where(zero, -jnp.abs(x.first()), out.first())
    return [
        Ray(out.value, slope, later(lambda: jnp.where(zero, jnp.nan, out.second())))
    ]


SPECIAL: dict[str, Rule] = {
    "log": _logarithm,
    "log1p": _logarithm,
    "mul": _product,
    "pow": _power,
    "bessel_i0e": _bessel_i0e,
    "neg": _keep_logarithm,
    "div": _quotient,
    "broadcast_in_dim": _keep_logarithm,
    "reshape": _keep_logarithm,
    "squeeze": _keep_logarithm,
}
