"""Rules for control flow: branches and loops, with slopes carried along.

Whether a ray moves, and whether it bends, must be known before a loop is traced: its
`Kind`. In a scan of `c + t z` over constants t, from a constant c, the carry begins as
(False, False); one pass of the body makes it move, (True, False), and a second pass
changes nothing. So the loop carries a value and a slope.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from bregjax._programs.scans import scan_split
from bregjax._typing import Array
from bregjax.convex._directional.ray import Doubt, Doubts, Ray, is_concrete, unknown

Walk = Callable[[Doubts, Any, Sequence[Ray]], list[Ray]]


class Kind(NamedTuple):
    """What is known of a ray while its program is traced."""

    moves: bool
    bends: bool

    def join(self, other: "Kind") -> "Kind":
        """The least kind that covers both."""
        return Kind(self.moves or other.moves, self.bends or other.bends)


def _kind(ray: Ray) -> Kind:
    return Kind(ray.slope is not None, not ray.is_affine)


def _pack(rays: Sequence[Ray], kinds: Sequence[Kind]) -> list[Array]:
    """Arrays of the rays: all values, then the slopes of rays that move."""
    values = [_strong(ray.value) for ray in rays]
    slopes = [
        ray.first().astype(ray.value.dtype) if ray.is_float else ray.mask()
        for ray, kind in zip(rays, kinds, strict=True)
        if kind.moves
    ]
    return values + slopes


def _strong(value: Array) -> Array:
    """The value without the weak type of a literal, which would change in a loop."""
    if jnp.issubdtype(value.dtype, jax.dtypes.extended):
        return value
    return lax.convert_element_type(value, value.dtype)


def _unpack(arrays: Sequence[Array], kinds: Sequence[Kind]) -> list[Ray]:
    """Inverse of `_pack`; bends are lost, unless a ray is affine."""
    values, slopes = arrays[: len(kinds)], iter(arrays[len(kinds) :])
    return [
        Ray(
            value,
            next(slopes) if kind.moves else None,
            unknown(value) if kind.bends else None,
        )
        for value, kind in zip(values, kinds, strict=True)
    ]


def _kinds_after(walk: Walk, jaxpr: Any, rays: Sequence[Ray]) -> list[Kind]:
    """Kinds of the outputs, by abstract tracing."""
    kinds: list[Kind] = []

    def record(arrays: list[Array]) -> list[Array]:
        outs = walk(Doubts(), jaxpr, _unpack(arrays, before))
        kinds.extend(_kind(ray) for ray in outs)
        return [ray.value for ray in outs]

    before = [_kind(ray) for ray in rays]
    jax.eval_shape(record, _pack(rays, before))
    return kinds


def _poisoned(doubts: Doubts, ray: Ray, where: Array, reason: Doubt) -> Ray:
    if not ray.is_float:
        return Ray(ray.value, ray.mask() | where)
    slope = doubts.poison(ray.first(), where, reason)
    return Ray(ray.value, slope, unknown(slope))


def cond_rule(walk: Walk, doubts: Doubts, eqn: Any, rays: Sequence[Ray]) -> list[Ray]:
    """Enter the branch that holds for small τ > 0."""
    index, *operands = rays
    branches = eqn.params["branches"]
    if is_concrete(index.value):
        number = min(max(int(index.value), 0), len(branches) - 1)
        outs = walk(doubts, branches[number], operands)
    else:
        before = [_kind(ray) for ray in operands]
        found = [_kinds_after(walk, branch, operands) for branch in branches]
        after = found[0]
        for kinds in found[1:]:
            after = [a.join(b) for a, b in zip(after, kinds, strict=True)]

        def enter(branch: Any) -> Callable:
            def run(arrays: list[Array]) -> tuple[list[Array], Array]:
                inner = Doubts()
                outs = walk(inner, branch, _unpack(arrays, before))
                return _pack(outs, after), inner.code

            return run

        steps = [enter(branch) for branch in branches]
        arrays, code = lax.switch(index.value, steps, _pack(operands, before))
        doubts.join(code)
        outs = _unpack(arrays, after)
    if index.slope is None:
        return outs
    return [_poisoned(doubts, ray, index.slope, Doubt.TIE) for ray in outs]


def _slice(ray: Ray) -> Ray:
    """A ray of zeros of the kind and shape that one step of a scanned ray has."""
    part = lambda array: jnp.zeros(array.shape[1:], array.dtype)
    slope = None if ray.slope is None else part(ray.slope)
    value = part(ray.value)
    return Ray(value, slope, None if ray.is_affine else unknown(value))


def _with_kinds(rays: Sequence[Ray], kinds: Sequence[Kind]) -> list[Ray]:
    return _unpack(_pack(rays, kinds), kinds)


def _settle(
    step: Callable[[list[Ray]], list[Kind]], carry: Sequence[Ray]
) -> list[Kind]:
    """The least kinds of the carry that the body keeps, grown from its own kinds."""
    kinds = [_kind(ray) for ray in carry]
    while True:
        after = step(_with_kinds(carry, kinds))
        joined = [a.join(b) for a, b in zip(kinds, after, strict=True)]
        if joined == kinds:
            return kinds
        kinds = joined


def scan_rule(walk: Walk, doubts: Doubts, eqn: Any, rays: Sequence[Ray]) -> list[Ray]:
    """Run the same scan over values and slopes."""
    closed = eqn.params["jaxpr"]
    num_consts, num_carry = scan_split(eqn, closed.jaxpr)
    split = num_consts + num_carry
    consts, carry, xs = rays[:num_consts], rays[num_consts:split], rays[split:]
    first = [_slice(ray) for ray in xs]
    kinds = _settle(
        lambda now: _kinds_after(walk, closed, [*consts, *now, *first])[:num_carry],
        carry,
    )
    carry = _with_kinds(carry, kinds)
    ys = _kinds_after(walk, closed, [*consts, *carry, *first])[num_carry:]
    of_consts = [_kind(ray) for ray in consts]
    of_xs = [_kind(ray) for ray in xs]
    const_arrays = _pack(consts, of_consts)

    def body(state: tuple, slices: list[Array]) -> tuple[tuple, list[Array]]:
        arrays, code = state
        inner = Doubts()
        now = _unpack(const_arrays, of_consts) + _unpack(arrays, kinds)
        outs = walk(inner, closed, now + _unpack(slices, of_xs))
        new = _pack(outs[:num_carry], kinds), code | inner.code
        return new, _pack(outs[num_carry:], ys)

    (arrays, code), stacked = lax.scan(
        body,
        (_pack(carry, kinds), jnp.int32(0)),
        _pack(xs, of_xs),
        length=eqn.params["length"],
        reverse=eqn.params["reverse"],
        unroll=eqn.params["unroll"],
    )
    doubts.join(code)
    return _unpack(arrays, kinds) + _unpack(stacked, ys)


def while_rule(walk: Walk, doubts: Doubts, eqn: Any, rays: Sequence[Ray]) -> list[Ray]:
    """Run the same loop over values and slopes, while the predicate holds for τ > 0.

    The predicate is evaluated in the body, where its doubts can be recorded. A loop
    whose predicate has batch axes (of a function under vmap) runs until the predicate
    holds for no member; a member changes only while it holds for that member.
    """
    params = eqn.params
    of_cond, of_body = params["cond_nconsts"], params["body_nconsts"]
    split = of_cond + of_body
    # Rebuilt, so that no bend of the outer trace is computed inside the loop.
    cond_consts = _with_kinds(rays[:of_cond], [_kind(ray) for ray in rays[:of_cond]])
    body_consts = rays[of_cond:split]
    body_consts = _with_kinds(body_consts, [_kind(ray) for ray in body_consts])
    carry = rays[split:]
    test = lambda now, inner: walk(inner, params["cond_jaxpr"], [*cond_consts, *now])[0]
    kinds = _settle(
        lambda now: _kinds_after(walk, params["body_jaxpr"], [*body_consts, *now]),
        carry,
    )
    carry = _with_kinds(carry, kinds)
    start = Doubts()
    holds = test(carry, start)

    def step(state: tuple) -> tuple:
        arrays, going, open_, code = state
        inner = Doubts()
        now = _unpack(arrays, kinds)
        new = _pack(walk(inner, params["body_jaxpr"], [*body_consts, *now]), kinds)
        new = [
            jnp.where(_spread(going, fresh), fresh, old)
            for fresh, old in zip(new, arrays, strict=True)
        ]
        again = test(_unpack(new, kinds), inner)
        return new, again.value, open_ | again.mask(), code | inner.code

    first = _pack(carry, kinds), holds.value, holds.mask(), start.code
    arrays, _, open_, code = lax.while_loop(
        lambda state: jnp.any(state[1]), step, first
    )
    doubts.join(code)
    outs = _unpack(arrays, kinds)
    (may_be_open,) = _kinds_after(walk, params["cond_jaxpr"], [*cond_consts, *carry])
    if not may_be_open.moves:
        return outs
    return [
        _poisoned(doubts, ray, _spread(open_, ray.value), Doubt.LOOP) for ray in outs
    ]


def _spread(flags: Array, target: Array) -> Array:
    """Flags of the leading batch axes, shaped to broadcast against the target."""
    return lax.expand_dims(flags, range(flags.ndim, target.ndim))
