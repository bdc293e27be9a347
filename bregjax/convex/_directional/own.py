"""Functions that bring their own one-sided derivative.

The rule has to survive `jit` and `vmap` of the function with public JAX alone. So the
rule is written into the function's jaxpr as a call whose result is not used: the
compiler drops the call, `vmap` batches it along with the function, and the interpreter
finds it. The direction passed to the rule is a copy of x behind a marked identity, the
slot; the interpreter replaces that copy by the true direction. The jaxpr of f(a) is

    c = stop_gradient a
    d = jit[name=bregjax_own_slot] c
    e = jit[name=bregjax_own_rule] c d
    b = jit[name=bregjax_own_value] a

of which b is returned; along v the interpreter evaluates the rule at c and d = v.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax import lax

from bregjax._typing import Array, PyTree
from bregjax.convex._directional.ray import Ray, unknown

_FUNCTION = "bregjax_with_own_rule"
_VALUE, _SLOT, _RULE = "bregjax_own_value", "bregjax_own_slot", "bregjax_own_rule"


def define_directional_derivative(
    f: Callable[[PyTree], PyTree], rule: Callable[[PyTree, PyTree], PyTree]
) -> Callable[[PyTree], PyTree]:
    """The function f, with `rule(x, v)` as its one-sided derivative f'(x; v).

    `directional_derivative` uses the rule and does not look into f; values, `jit`,
    `vmap`, `jax.grad` and `jax.jvp` are those of f.

    Args:
        f: Maps a pytree of float arrays to a pytree of float arrays. Values that depend
            on x have to be passed in x, not closed over.
        rule: Takes x and a direction v of the same structure, and returns a pytree
            like f(x). The rule need not be linear in v.

    Returns:
        A function of x.

    Examples:
        The Euclidean norm, whose derivative at 0 is ‖v‖:

        >>> import jax.numpy as jnp
        >>> from bregjax.convex import directional_derivative
        >>> def rule(x, v):
        ...     norm = jnp.linalg.norm(x)
        ...     smooth = x @ v / jnp.where(norm > 0, norm, 1.0)
        ...     return jnp.where(norm > 0, smooth, jnp.linalg.norm(v))
        >>> norm = define_directional_derivative(jnp.linalg.norm, rule)
        >>> float(directional_derivative(norm, jnp.zeros(2), jnp.array([3.0, -4.0])))
        5.0
    """

    def with_own_rule(x: PyTree) -> PyTree:
        leaves, tree = jax.tree.flatten(x)
        number = len(leaves)

        def value(*parts: Array) -> PyTree:
            return f(jax.tree.unflatten(tree, parts))

        def along(*parts: Array) -> PyTree:
            point, direction = parts[:number], parts[number:]
            return rule(
                jax.tree.unflatten(tree, point), jax.tree.unflatten(tree, direction)
            )

        def both(*parts: Array) -> PyTree:
            still = [lax.stop_gradient(part) for part in parts]
            slots = [_named(_SLOT, lambda part: part)(part) for part in still]
            _named(_RULE, along)(*still, *slots)
            return _named(_VALUE, value)(*parts)

        return _named(_FUNCTION, both)(*leaves)

    return with_own_rule


def _named(name: str, function: Callable) -> Callable:
    function.__name__ = function.__qualname__ = name
    return jax.jit(function)


def is_own(eqn: Any) -> bool:
    """Whether the equation calls a function that has a rule of its own."""
    if eqn.params.get("name") != _FUNCTION:
        return False
    inner = eqn.params["jaxpr"].jaxpr
    calls = [step.params.get("name") for step in inner.eqns]
    # The derivative of such a function (jax.grad inside f) has another layout, and is
    # walked as other functions are.
    if calls.count(_VALUE) != 1 or calls.count(_RULE) != 1:
        return False
    return inner.eqns[calls.index(_VALUE)].outvars == inner.outvars


def own_rule(
    evaluate: Callable[[Any, Sequence[Ray]], list[Array]],
    eqn: Any,
    rays: Sequence[Ray],
) -> list[Ray]:
    """The value of f, with the slope that the rule gives."""
    inner = eqn.params["jaxpr"].jaxpr
    known: dict[Any, Ray] = dict(zip(inner.invars, rays, strict=True))
    # `source`: the operand that a variable copies; `filled`: operands with a slot.
    source: dict[Any, Any] = {var: var for var in inner.invars}
    filled: set[Any] = set()
    values: list[Array] = []
    slopes: list[Array] = []
    for step in inner.eqns:
        operands = [known[atom] for atom in step.invars]
        name = step.params.get("name")
        if name == _SLOT:
            known[step.outvars[0]] = Ray(operands[0].first())
            filled.add(source[step.invars[0]])
        elif name == _RULE:
            slopes = evaluate(step, [Ray(ray.value) for ray in operands])
        elif name == _VALUE:
            values = evaluate(step, [Ray(ray.value) for ray in operands])
        else:
            known[step.outvars[0]] = operands[0]
            source[step.outvars[0]] = source[step.invars[0]]
    if any(
        ray.slope is not None and var not in filled
        for var, ray in zip(inner.invars, rays, strict=True)
    ):
        raise NotImplementedError(
            "directional_derivative: a function with its own rule closes over a value "
            "that depends on x. Pass it as part of the argument."
        )
    if [s.shape for s in slopes] != [value.shape for value in values]:
        raise ValueError(
            "define_directional_derivative: the rule has to return the structure and "
            f"shapes of f(x), {[value.shape for value in values]}; got "
            f"{[slope.shape for slope in slopes]}."
        )
    return [
        Ray(value, slope.astype(value.dtype), unknown(value))
        for value, slope in zip(values, slopes, strict=True)
    ]
