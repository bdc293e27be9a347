"""Loops and sums that write few arrays, and so compile in less time.

Compiling takes some 10 ms for each array that is written, and under `vmap` a loop
writes, and may copy, every array of its carry by itself. A carry of 20 numbers is one
stacked array here, written at once, and common subexpressions are computed once.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._typing import Array

Carry = TypeVar("Carry")


def packed_loop(
    going: Callable[[Carry], Array],
    advance: Callable[[Carry], Carry],
    begin: Carry,
) -> Carry:
    """Run `jax.lax.while_loop` on a pytree of floats of one dtype, counts and flags.

    Counts and flags are carried as floats, which is exact to 2²⁴.
    """
    leaves, treedef = jax.tree.flatten(begin)
    shapes = list(dict.fromkeys(leaf.shape for leaf in leaves))
    dtype = jnp.result_type(
        *(leaf for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.floating))
    )

    def pack(carry: Carry, stack: Callable) -> list[Array]:
        parts = [part.astype(dtype) for part in jax.tree.leaves(carry)]
        return [stack([p for p in parts if p.shape == shape]) for shape in shapes]

    def unpack(stacks: list[Array]) -> Carry:
        rows = {shape: iter(stack) for shape, stack in zip(shapes, stacks, strict=True)}
        parts = [next(rows[leaf.shape]).astype(leaf.dtype) for leaf in leaves]
        return jax.tree.unflatten(treedef, parts)

    end = jax.lax.while_loop(
        lambda stacks: going(unpack(stacks)),
        lambda stacks: pack(advance(unpack(stacks)), select_stack),
        pack(begin, jnp.stack),
    )
    return unpack(end)


def select_stack(parts: Sequence[Array]) -> Array:
    """Stack arrays of one shape by selection, which fuses with their computation."""
    # A NumPy constant: one of JAX would be computed, and hoisted out of loops.
    rows = np.arange(len(parts)).reshape(-1, *[1] * parts[0].ndim)
    total = parts[-1][None]
    for index, part in enumerate(parts[:-1]):
        total = jnp.where(rows == index, part[None], total)
    return total


def totals(*parts: Array) -> Array:
    """Sums over the entries of several arrays of one shape, computed at once.

    A flag counts as 0 or 1, so that a positive sum says that some flag is set.
    """
    dtype = jnp.result_type(
        *(part for part in parts if jnp.issubdtype(part.dtype, jnp.floating))
    )
    stack = select_stack([part.astype(dtype) for part in parts])
    return jnp.sum(stack, axis=tuple(range(1, stack.ndim)))
