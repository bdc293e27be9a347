"""A user's parameters, any pytree, split into what differentiates and structure."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._checks import float_array
from bregjax._typing import Array, PyTree

__all__ = ["Held", "in_words", "joined", "name_of", "split"]

_WIDTH = 90  # characters; a pytree whose words are longer is shown by its size alone


class Held:
    """A value as part of a tree structure, compared by value or else by identity.

    Tree structures must be hashable. A value that is not hashable, such as a list, is
    hashed and compared by identity.
    """

    def __init__(self, value: Any):
        self.value = value
        try:
            self._hash = hash(value)
            self._by_value = True
        except TypeError:
            self._hash = id(value)
            self._by_value = False

    def __hash__(self) -> int:
        """The hash of the value, or of its identity if the value has none."""
        return self._hash

    def __eq__(self, other: object) -> bool:
        """Whether the values are one object, or hashable and equal."""
        if not isinstance(other, Held):
            return False
        if self.value is other.value:
            return True
        same_kind = type(self.value) is type(other.value)
        return self._by_value and same_kind and bool(self.value == other.value)


def split(params: PyTree) -> tuple[PyTree, tuple[Any, tuple[Held, ...]]]:
    """Split a pytree into its arrays and numbers, and everything else.

    Args:
        params: Any pytree. Leaves that are not numbers (functions, names, flags) belong
            to the structure.

    Returns:
        The pytree with None for each leaf that is not a number, and the structure from
        which `joined` restores these leaves.
    """
    leaves, treedef = jax.tree.flatten(params, is_leaf=_is_none)
    arrays = [_kept(leaf) if _is_numbers(leaf) else None for leaf in leaves]
    rest = tuple(Held(None if _is_numbers(leaf) else leaf) for leaf in leaves)
    return jax.tree.unflatten(treedef, arrays), (treedef, rest)


def joined(arrays: PyTree, structure: tuple[Any, tuple[Held, ...]]) -> PyTree:
    """The pytree that `split` was given, with other arrays."""
    treedef, rest = structure
    if all(held.value is None for held in rest):
        return arrays
    leaves = [
        array if held.value is None else held.value
        for array, held in zip(treedef.flatten_up_to(arrays), rest, strict=True)
    ]
    return jax.tree.unflatten(treedef, leaves)


def name_of(function: Callable[..., Any]) -> str:
    """The name of a function, of what a partial calls, or of an object's class."""
    if isinstance(function, functools.partial):
        return f"partial({name_of(function.func)})"
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return name.rsplit(".", maxsplit=1)[-1]


def in_words(tree: PyTree) -> str:
    """A pytree as text, with `float64[3]` for arrays and names for functions."""
    text = repr(jax.tree.map(_word, tree))
    if len(text) <= _WIDTH:
        return text
    leaves = jax.tree.leaves(tree)
    numbers = sum(np.size(leaf) for leaf in leaves if _is_numbers(leaf))
    return f"<{len(leaves)} leaves, {numbers:,} numbers>"


class _Word(str):
    """Text whose repr has no quotation marks."""

    __slots__ = ()
    __repr__ = str.__str__


def _word(leaf: Any) -> _Word:
    if _is_numbers(leaf) or isinstance(leaf, jax.ShapeDtypeStruct):
        shape = ",".join(map(str, jnp.shape(leaf)))
        kind = getattr(leaf, "dtype", None) or jnp.result_type(leaf)
        return _Word(f"{kind}[{shape}]")
    return _Word(name_of(leaf) if callable(leaf) else repr(leaf))


def _is_none(leaf: Any) -> bool:
    return leaf is None


def _is_numbers(leaf: Any) -> bool:
    """Whether a leaf is an array or a number; a Python bool is neither."""
    if isinstance(leaf, np.ndarray | np.generic):
        return leaf.dtype.kind in "biufcV"  # V: bfloat16 and its like
    if isinstance(leaf, bool):
        return False
    is_array = isinstance(leaf, jax.Array) or hasattr(leaf, "__jax_array__")
    return is_array or isinstance(leaf, int | float | complex)


def _kept(leaf: Any) -> Array:
    """A leaf as an array with all its digits; integers, flags and keys as they are."""
    kind = jnp.result_type(leaf)
    floats = jnp.issubdtype(kind, jnp.inexact)
    return float_array(leaf) if floats else jnp.asarray(leaf)
