"""Functions with a custom JVP: by their rule, or by their body where it has kinks.

`jax.nn.relu` is max(x, 0) with a rule that is 0 at 0. At x = 0 along v = 1 the rule
would give 0; the body, which has a kink, is walked and gives 1.
"""

from collections.abc import Sequence
from typing import Any

import jax.extend.core as jec
import jax.numpy as jnp

from bregjax._typing import Array
from bregjax.convex._directional.control import Walk
from bregjax.convex._directional.jaxpr import as_function
from bregjax.convex._directional.ray import Doubts, Ray, is_concrete, later
from bregjax.convex._directional.smooth import along, open_operands


def custom_jvp_rule(
    walk: Walk, doubts: Doubts, eqn: Any, rays: Sequence[Ray], *, enter: bool
) -> list[Ray]:
    """Slopes by the function's JVP rule, or by a walk of its body where it has kinks.

    At a kink the rule picks one side. Where the walk meets 0/0 (a removable
    singularity) the rule is used after all. A function whose body has a `while` keeps
    its rule: a solver must not be differentiated through its iterations.
    """
    if not enter:
        return _by_rule(doubts, eqn, rays)
    inner = Doubts()
    outs = walk(inner, eqn.params["call_jaxpr"], rays)
    doubts.join(inner.code)
    lost = [jnp.isnan(out.first()) for out in outs if out.is_active]
    if not lost or (is_concrete(*lost) and not any(bool(jnp.any(m)) for m in lost)):
        return outs
    result = []
    for out, rule in zip(outs, _by_rule(doubts, eqn, rays), strict=True):
        if not out.is_active:
            result.append(out)
            continue
        where = jnp.isnan(out.first()) & (inner.code == 0)
        value = jnp.where(where, rule.value, out.value)
        slope = jnp.where(where, rule.first(), out.first())
        bend = later(
            lambda where=where, out=out: jnp.where(where, jnp.nan, out.second())
        )
        result.append(Ray(value, slope, bend))
    return result


def _by_rule(doubts: Doubts, eqn: Any, rays: Sequence[Ray]) -> list[Ray]:
    run, variables = as_function(eqn)
    by_variable = {
        atom: ray
        for atom, ray in zip(eqn.invars, rays, strict=True)
        if not isinstance(atom, jec.Literal)
    }
    moving = [name for name in variables if by_variable[name].is_active]

    def apply(*parts: Array) -> tuple[Array, ...]:
        values = {name: ray.value for name, ray in by_variable.items()}
        values.update(zip(moving, parts, strict=True))
        return tuple(run(*(values[name] for name in variables)))

    outs = along(apply, [by_variable[name] for name in moving], affine=False)
    return open_operands(doubts, eqn, rays, outs)
