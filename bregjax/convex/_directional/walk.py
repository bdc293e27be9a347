"""The interpreter, which evaluates a jaxpr with rays for values.

For Σ|x_i| the jaxpr is `b = abs x; c = reduce_sum b`. At x = (0, 2) along v = (1, −3)
the ray of x has value (0, 2) and slope (1, −3); the rule of `abs` gives the slope
(1, −3), as |0 + τ| = τ; `reduce_sum`, which is smooth, gives −2 by its JVP.
"""

from collections.abc import Sequence
from typing import Any

import jax.extend.core as jec
import jax.numpy as jnp
import numpy as np

from bregjax.convex._directional.control import cond_rule, scan_rule, while_rule
from bregjax.convex._directional.custom import custom_jvp_rule
from bregjax.convex._directional.jaxpr import equations, evaluate, inner_jaxprs
from bregjax.convex._directional.order import ORDER_RULES
from bregjax.convex._directional.own import is_own, own_rule
from bregjax.convex._directional.ray import Doubts, Ray
from bregjax.convex._directional.roots import ROOT_RULES
from bregjax.convex._directional.rounding import ROUNDING_RULES
from bregjax.convex._directional.rules import RULES
from bregjax.convex._directional.smooth import (
    SPECIAL,
    discrete,
    open_operands,
    smooth,
)
from bregjax.convex._directional.spectral import SPECTRAL_RULES

_KINKS = {
    **RULES,
    **ROUNDING_RULES,
    **ROOT_RULES,
    **ORDER_RULES,
    **SPECTRAL_RULES,
}
_CONTROL = {"cond": cond_rule, "scan": scan_rule, "while": while_rule}

# Primitives that are one call of an inner jaxpr, by the parameter that holds it.
_CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "eval_jaxpr": "call_jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vmap_call": "call",
}

# Primitives whose JVP is right whatever their inner jaxprs hold.
_OPAQUE = frozenset(["custom_linear_solve", "scatter", "scatter-add", "scatter-mul"])
# Primitives whose JVP picks one side at a tie, or does not see equal eigenvalues.
_REFUSED = frozenset(
    [
        "approx_top_k",
        "call_hi_primitive",
        "eig",
        "reduce",
        "reduce_window",
        "schur",
        "select_and_gather_add",
        "select_and_scatter_add",
    ]
)

# Primitives with discrete outputs that do not change along a short ray.
_FLOAT_TO_DISCRETE = frozenset(["is_finite", "lu"])


def walk(doubts: Doubts, closed: Any, rays: Sequence[Ray]) -> list[Ray]:
    """Evaluate a jaxpr (closed, or open without constants) on rays."""
    jaxpr = getattr(closed, "jaxpr", closed)
    consts = [Ray(jnp.asarray(const)) for const in getattr(closed, "consts", ())]
    known: dict[Any, Ray] = dict(zip(jaxpr.constvars, consts, strict=True))
    known.update(zip(jaxpr.invars, rays, strict=True))

    def read(atom: Any) -> Ray:
        if isinstance(atom, jec.Literal):
            return Ray(_number(atom))
        return known[atom]

    for eqn in jaxpr.eqns:
        outs = _apply(doubts, eqn, [read(atom) for atom in eqn.invars])
        known.update(zip(eqn.outvars, outs, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _number(literal: Any) -> Any:
    """The literal as a NumPy array, whose value can be read under jit."""
    return np.asarray(literal.val, literal.aval.dtype)


def _apply(doubts: Doubts, eqn: Any, rays: list[Ray]) -> list[Ray]:
    """The outputs of one equation, as rays."""
    name = eqn.primitive.name
    if all(ray.slope is None for ray in rays):
        return [Ray(value) for value in evaluate(eqn, rays)]
    if name in _CONTROL:
        return _CONTROL[name](walk, doubts, eqn, rays)
    if name in _CALLS:
        inner = eqn.params[_CALLS[name]]
        if is_own(eqn):
            return own_rule(evaluate, eqn, rays)
        return walk(doubts, inner, rays)
    if name == "custom_jvp_call":
        enter = _can_enter(eqn) and has_kink(eqn.params["call_jaxpr"])
        return custom_jvp_rule(walk, doubts, eqn, rays, enter=enter)
    if name == "stop_gradient":
        # It is the identity, though JAX gives it the derivative 0.
        return rays
    _refuse_unknown(eqn)
    if name == "select_n" or (name in _KINKS and any(ray.is_active for ray in rays)):
        return _KINKS[name](doubts, eqn, rays)
    if not any(ray.is_active for ray in rays):
        return discrete(doubts, eqn, rays)
    special = SPECIAL.get(name, smooth)
    return open_operands(doubts, eqn, rays, special(doubts, eqn, rays))


def has_kink(closed: Any) -> bool:
    """Whether a primitive with a kink meets floats anywhere in a jaxpr."""
    return any(
        is_own(eqn)
        or (
            eqn.primitive.name in _KINKS
            and eqn.primitive.name not in ("select_n", "convert_element_type")
            and any(jnp.issubdtype(a.aval.dtype, jnp.inexact) for a in eqn.invars)
        )
        for eqn in equations(closed)
    )


def _can_enter(eqn: Any) -> bool:
    body = eqn.params["call_jaxpr"]
    inner = getattr(body, "jaxpr", body)
    if inner.debug_info.func_name == "_custom_root":
        # jax 0.12 makes it a primitive, which `_REFUSED` holds.
        raise _no_rule("custom_root")
    names = {equation.primitive.name for equation in equations(body)}
    return not names & (_REFUSED | {"while"})


def _refuse_unknown(eqn: Any) -> None:
    """Raise on a primitive whose derivative at a kink is not known."""
    name = eqn.primitive.name
    known = name in _KINKS or name in _OPAQUE
    jumps = any(
        jnp.issubdtype(a.aval.dtype, jnp.inexact) for a in eqn.invars
    ) and not all(jnp.issubdtype(b.aval.dtype, jnp.inexact) for b in eqn.outvars)
    if (
        name in _REFUSED
        or (inner_jaxprs(eqn) and not known)
        or (jumps and not known and name not in _FLOAT_TO_DISCRETE)
    ):
        inner = eqn.params.get("_prim")
        raise _no_rule(name if inner is None else type(inner).__name__)


def _no_rule(name: str) -> NotImplementedError:
    return NotImplementedError(
        f"directional_derivative: the primitive `{name}` has no rule. Write the "
        "function without it, or bring a rule with `define_directional_derivative`."
    )
