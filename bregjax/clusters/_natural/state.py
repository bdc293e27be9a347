"""States of clusters that hold natural parameters, and functions of raveled θ."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from bregjax._pytree import register_pytree
from bregjax._result import Result
from bregjax._typing import Array
from bregjax.clusters._potential import Potential

__all__ = [
    "NaturalState",
    "flat_init",
    "flat_psi",
    "found",
    "has_value",
    "tabulates",
    "unsolved",
    "vectorize",
]

# The most coordinates for which ψ* is tabulated: each knot evaluates all of ψ, so that
# the work grows as their square.
_WIDEST_TABLE = 256


@register_pytree
@dataclass(frozen=True)
class NaturalState:
    """States that hold the solution of the conjugate; parameters are n numbers.

    Attributes:
        weight: `[k]`.
        mean: Mean parameters τ, raveled, `[k, n]`.
        natural: The natural parameters θ with ∇ψ(θ) = τ, raveled, `[k, n]`.
        value: ψ*(τ), `[k]`.
        result: Codes of the solver, `[k]`.

    Examples:
        >>> state = unsolved(jnp.ones(2), jnp.array([[1.0], [4.0]]), jnp.zeros(1))
        >>> print(state.natural.ravel(), [Result(code).name for code in state.result])
        [0. 0.] ['STEP_LIMIT', 'STEP_LIMIT']
    """

    weight: Array
    mean: Array
    natural: Array
    value: Array
    result: Array


def unsolved(weight: Array, mean: Array, start: Array) -> NaturalState:
    """A state still to be solved: a start for θ, the value inf, the code STEP_LIMIT."""
    lead = mean.shape[:-1]
    return NaturalState(
        weight,
        mean,
        jnp.broadcast_to(start, mean.shape),
        jnp.full(lead, jnp.inf, mean.dtype),
        jnp.full(lead, Result.STEP_LIMIT, jnp.int32),
    )


def vectorize(function: Callable, *arrays: Array):
    """Map a function of vectors over the leading axes of arrays, broadcast together."""
    spread = jnp.broadcast_arrays(*arrays)
    lead = spread[0].shape[:-1]
    flat = [array.reshape(-1, array.shape[-1]) for array in spread]
    out = jax.vmap(function)(*flat)
    return jax.tree.map(lambda leaf: leaf.reshape(lead + leaf.shape[1:]), out)


def flat_init(family: Potential, dtype: jnp.dtype) -> Array:
    """`natural_init`, raveled, `[n]`."""
    return ravel_pytree(family.natural_init)[0].astype(dtype)


def flat_psi(family: Potential) -> Callable[[Array], Array]:
    """ψ as a function of raveled θ `[n]`."""
    _, unravel = ravel_pytree(family.natural_init)
    return lambda theta: family.log_partition(unravel(theta))


def tabulates(family: Potential) -> bool:
    """Whether a table of ψ* can bound merge costs: ψ is a sum over few coordinates."""
    size = sum(np.size(leaf) for leaf in jax.tree.leaves(family.natural_init))
    return family.separable and family.solves and size <= _WIDEST_TABLE


def found(state: NaturalState) -> Array:
    """Whether θ was found, inside the mean domain."""
    return state.result == Result.CONVERGED


def has_value(state: NaturalState) -> Array:
    """Whether ψ* is known and finite: inside, or on a boundary with a finite limit."""
    boundary = state.result == Result.BOUNDARY
    return (boundary | found(state)) & jnp.isfinite(state.value)
