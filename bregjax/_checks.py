"""Checks of concrete arguments at the public boundary; tracers pass unread."""

import contextlib
import operator
from typing import SupportsIndex

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from bregjax._typing import Array, ArrayLike, DataLike, PyTree

__all__ = [
    "as_key",
    "check_count",
    "check_finite",
    "check_support",
    "check_weights",
    "float_array",
    "is_concrete",
    "known_values",
    "place",
]


def is_concrete(tree: PyTree) -> bool:
    """Whether the values of every leaf can be read: none is a tracer."""
    leaves = jax.tree.leaves(tree)
    return not any(isinstance(leaf, Tracer) for leaf in leaves)


def known_values() -> contextlib.AbstractContextManager:
    """Compute with values, also while a caller's `jit` is traced.

    Known arrays are constants of the caller's program; without this, what is computed
    from them would become part of it.
    """
    # While it holds constants are evaluated one by one wherever a program is traced,
    # which takes seconds: not unless it is needed.
    if is_concrete(jax.lax.add(np.float32(0), np.float32(0))):
        return contextlib.nullcontext()
    return jax.ensure_compile_time_eval()


def float_array(values: DataLike) -> Array:
    """Concrete values as a float64 NumPy array, traced ones as a JAX array of floats.

    A small computation on concrete values then keeps all its digits whether or not
    JAX's 64-bit mode is on.
    """
    if np.iscomplexobj(values):
        raise TypeError("Numbers must be real; got complex ones. Pass real features.")
    if is_concrete(values):
        return np.asarray(values, dtype=np.float64)  # pyright: ignore[reportReturnType]
    return jnp.asarray(values, dtype=float)


def as_key(key_or_seed: ArrayLike) -> Array:
    """A JAX key as it is, or the key of an integer.

    Raises:
        TypeError: If it is neither.
    """
    dtype = jnp.result_type(key_or_seed) if hasattr(key_or_seed, "dtype") else None
    if dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key):
        return key_or_seed  # pyright: ignore[reportReturnType]
    if dtype == jnp.uint32 and np.shape(key_or_seed) == (2,):
        return jax.random.wrap_key_data(jnp.asarray(key_or_seed), impl="threefry2x32")
    whole = dtype is None or jnp.issubdtype(dtype, jnp.integer)
    if not whole or isinstance(key_or_seed, float) or np.ndim(key_or_seed) != 0:
        raise TypeError(f"`key` must be a JAX key or an integer; got {key_or_seed!r}.")
    return jax.random.key(key_or_seed)


def place(index: tuple[int, ...]) -> str:
    """A position in words: `row 3, column 0`."""
    names = ("row", "column")
    if len(index) <= len(names):
        return ", ".join(f"{n} {i}" for n, i in zip(names, index, strict=False))
    return f"index {index}"


def check_count(name: str, value: SupportsIndex, largest: int, what: str) -> int:
    """The integer from 1 to `largest`, the number of `what`.

    Raises:
        ValueError: If it is not from 1 to that.
        TypeError: If it is no integer.
    """
    count = operator.index(value)
    if not 1 <= count <= largest:
        raise ValueError(
            f"`{name}` must be from 1 to {largest}, the number of {what}; got {count}."
        )
    return count


def check_finite(name: str, values: DataLike | Array) -> None:
    """Raise ValueError at the first NaN or inf."""
    array = np.asarray(values)
    if jnp.issubdtype(array.dtype, jnp.inexact):
        check_support(
            name,
            array,
            np.isfinite(array),
            rule="must be finite",
            remedy="Drop or impute such entries first",
        )


def check_support(
    name: str, values: DataLike, allowed: DataLike, *, rule: str, remedy: str
) -> None:
    """Raise ValueError at the first entry that is not allowed.

    Args:
        name: The argument's name.
        values: Its entries.
        allowed: Boolean array of the shape of `values`, or of its first axes.
        rule: What must hold, as "must be non-negative".
        remedy: What to do, a sentence without its full stop.
    """
    allowed = np.asarray(allowed)
    if allowed.all():
        return
    bad = np.argwhere(~allowed)
    first = tuple(int(i) for i in bad[0])
    more = f" ({len(bad)} such in all)" if len(bad) > 1 else ""
    raise ValueError(
        f"`{name}` {rule}; got {np.asarray(values)[first]} at {place(first)}{more}. "
        f"{remedy}."
    )


def check_weights(weights: DataLike, num_points: int) -> None:
    """Raise ValueError unless there is one positive finite weight a point."""
    if np.shape(weights) != (num_points,):
        raise ValueError(
            f"`weights` must have shape ({num_points},), one weight a row of `x`; got "
            f"{np.shape(weights)}."
        )
    if not is_concrete(weights):
        return
    array = np.asarray(weights)
    check_finite("weights", array)
    check_support(
        "weights",
        array,
        array > 0,
        rule="must be positive",
        remedy="Drop the rows of weight 0 first",
    )
