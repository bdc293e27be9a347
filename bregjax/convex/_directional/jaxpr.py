"""Equations of a jaxpr: those inside, and how to run one again."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.extend.core as jec

from bregjax._typing import Array
from bregjax.convex._directional.ray import Ray, is_concrete


def inner_jaxprs(eqn: Any) -> list[Any]:
    """Jaxprs in the parameters of an equation."""
    return list(jec.jaxprs_in_params(eqn.params))


def equations(closed: Any) -> Iterator[Any]:
    """All equations of a jaxpr and of the jaxprs inside."""
    for eqn in getattr(closed, "jaxpr", closed).eqns:
        yield eqn
        for inner in inner_jaxprs(eqn):
            yield from equations(inner)


def evaluate(eqn: Any, rays: Sequence[Ray]) -> list[Array]:
    """The outputs of an equation, by the values of its operands alone."""
    operands = [ray.value for ray in rays]
    if not inner_jaxprs(eqn):
        small = is_concrete(*operands) and all(v.aval.size == 1 for v in eqn.outvars)
        # Scalars keep their values under jit: rules read exponents.
        with jax.ensure_compile_time_eval() if small else contextlib.nullcontext():
            outs = eqn.primitive.bind(*operands, **eqn.params)
        return list(outs) if eqn.primitive.multiple_results else [outs]
    run, variables = as_function(eqn)
    values = {
        atom: ray.value
        for atom, ray in zip(eqn.invars, rays, strict=True)
        if not isinstance(atom, jec.Literal)
    }
    return run(*(values[variable] for variable in variables))


def as_function(eqn: Any) -> tuple[Callable[..., list[Array]], list[Any]]:
    """The equation as a function of the distinct variables it reads, and these.

    Primitives with functions in their parameters cannot be bound again directly; a
    jaxpr of the one equation can be run.
    """
    variables = list(
        dict.fromkeys(a for a in eqn.invars if not isinstance(a, jec.Literal))
    )
    shell = jax.make_jaxpr(lambda: ())().jaxpr
    jaxpr = shell.replace(
        constvars=[],
        invars=variables,
        outvars=list(eqn.outvars),
        eqns=[eqn],
        effects=eqn.effects,
        debug_info=shell.debug_info,
    )
    return jec.jaxpr_as_fun(jec.ClosedJaxpr(jaxpr, [])), variables
