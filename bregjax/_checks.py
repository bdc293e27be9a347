"""Checks of concrete arguments at the public boundary; tracers pass unread."""

import contextlib
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import SupportsIndex

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from bregjax._inputs import FILL, column_names, number_array, place
from bregjax._sparse_rows import SparseRows
from bregjax._typing import Array, ArrayLike, DataLike, PyTree

__all__ = [
    "as_key",
    "check_count",
    "check_entries",
    "check_finite",
    "check_in_jax",
    "check_support",
    "check_weights",
    "float_array",
    "is_concrete",
    "is_under_jit",
    "known_values",
    "on_host",
    "values_behind",
    "works_in_double",
]


def check_in_jax(
    name: str, function: Callable[..., PyTree], *arguments: PyTree
) -> None:
    """Raise TypeError if a user's function of JAX arrays calls NumPy.

    Args:
        name: What the function is called.
        function: Traced, not called with values.
        arguments: Arrays, or their shapes.
    """
    try:
        jax.eval_shape(function, *arguments)
    except jax.errors.TracerArrayConversionError as error:
        raise TypeError(
            f"`{name}` must be written in jax.numpy, so that it can be differentiated "
            "and compiled; it calls NumPy. Say import jax.numpy as jnp, and write "
            "jnp.exp, say, for np.exp."
        ) from error


def is_concrete(tree: PyTree) -> bool:
    """Whether the values of every leaf can be read: none is a tracer."""
    leaves = jax.tree.leaves(tree)
    return not any(isinstance(leaf, Tracer) for leaf in leaves)


# Up to so many rows and numbers a GPU has nothing to gain, and compiling for it takes
# longer.
_FEW_ROWS, _FEW_NUMBERS = 1000, 2**16


def works_in_double(tree: PyTree) -> bool:
    """Whether costs of a pytree of arguments are in float64 whatever the caller's mode.

    Known values are, on a CPU, and of small problems, which are worked on there
    whatever the device. Where they are not, the caller's mode decides.
    """
    return is_concrete(tree) and (_platform() == "cpu" or _is_small(tree))


def _platform() -> str:
    """Where computations go."""
    device = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
    if device is None:
        return jax.default_backend()
    return getattr(device, "platform", device)


def _is_small(tree: PyTree) -> bool:
    leaves = jax.tree.leaves(tree)
    rows = max((np.shape(leaf)[0] for leaf in leaves if np.ndim(leaf)), default=0)
    return rows <= _FEW_ROWS and sum(map(np.size, leaves)) <= _FEW_NUMBERS


@contextlib.contextmanager
def on_host() -> Iterator[None]:
    """Compute on the CPU and in float64, whatever the caller's device and mode."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(jax.enable_x64(True))
        if jax.default_backend() != "cpu":
            # Of several processes each has CPU devices of its own.
            cpu = jax.local_devices(backend="cpu")[0]
            stack.enter_context(jax.default_device(cpu))
        yield


def is_under_jit() -> bool:
    """Whether a caller's program is being traced, and takes up computations."""
    return not is_concrete(jax.lax.add(np.float32(0), np.float32(0)))


def known_values() -> contextlib.AbstractContextManager:
    """Compute with values inside this context, also while a caller's `jit` is traced.

    Known arrays are constants of the caller's program; outside of the context
    computations from them would become part of the program.
    """
    # Within JAX's context constants are evaluated one by one wherever a program is
    # traced, which takes seconds: entered only where a caller's program is traced.
    return (
        jax.ensure_compile_time_eval() if is_under_jit() else contextlib.nullcontext()
    )


def values_behind(tree: PyTree) -> PyTree | None:
    """The tree with the values of its leaves, also where `jax.grad` traces them.

    None inside `jit` and `vmap`, where values are unknown.
    """
    if is_concrete(tree):
        return tree
    leaves, structure = jax.tree.flatten(tree)
    seen = []

    @jax.custom_jvp
    def look(leaves):
        seen.append(leaves)
        return leaves

    # Derivative rules are called with the values that are differentiated at.
    look.defjvp(lambda primals, tangents: (look(*primals), tangents[0]))
    look(leaves)
    return structure.unflatten(seen[-1]) if is_concrete(seen[-1]) else None


def float_array(values: DataLike, name: str = "x") -> Array:
    """Concrete values as a float64 NumPy array, traced ones as a JAX array of floats.

    A small computation on concrete values then keeps all its digits, whether JAX's
    64-bit mode is on or off.

    Raises:
        ValueError: At the first entry that is no number, or hidden by a mask.
        TypeError: If numbers are complex.
    """
    if not is_concrete(values):
        if np.iscomplexobj(values):
            raise TypeError(
                f"`{name}` must be real numbers; got complex ones. Pass real features."
            )
        return jnp.asarray(values, dtype=float)
    return np.asarray(number_array(values, name), np.float64)  # pyright: ignore[reportReturnType]


def as_key(key_or_seed: ArrayLike) -> Array:
    """A JAX key as it is, or the key made from an integer.

    Raises:
        TypeError: If the argument is neither.
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


def check_count(name: str, value: SupportsIndex, largest: int, what: str) -> int:
    """Return the value as an integer from 1 to `largest`, the number of `what`.

    Raises:
        ValueError: If the integer is below 1 or above `largest`.
        TypeError: If the value is no integer.
    """
    try:
        count = operator.index(value)
    except TypeError:
        raise TypeError(
            f"`{name}` must be one whole number, of {what}; got {value!r}."
        ) from None
    if not 1 <= count <= largest:
        raise ValueError(
            f"`{name}` must be from 1 to {largest}, the number of {what}; got {count}."
        )
    return count


def check_finite(
    name: str,
    values: DataLike | Array,
    *,
    columns: Sequence[object] | None = None,
    missing: bool = False,
) -> None:
    """Raise ValueError at the first NaN, inf or missing entry.

    Args:
        name: The argument's name.
        values: Its entries.
        columns: Names of the columns; those of a data frame if None.
        missing: Whether NaN stands for a missing entry, which is allowed.
    """
    array = number_array(values, name)
    if not jnp.issubdtype(array.dtype, jnp.inexact):
        return
    check_support(
        name,
        array,
        np.isfinite(array) | (missing & np.isnan(array)),
        rule="must be finite",
        remedy=FILL,
        columns=columns or column_names(values),
    )


def check_support(
    name: str,
    values: DataLike,
    allowed: DataLike,
    *,
    rule: str,
    remedy: str,
    columns: Sequence[object] | None = None,
) -> None:
    """Raise ValueError at the first entry that is not allowed.

    Args:
        name: The argument's name.
        values: Its entries.
        allowed: Boolean array of the shape of `values`, or of its first axes.
        rule: What must hold, as "must be non-negative".
        remedy: What to do, a sentence without its full stop.
        columns: Names of the columns, if they have any.
    """
    allowed = np.asarray(allowed)
    if allowed.all():
        return
    bad = np.argwhere(~allowed)
    first = tuple(int(i) for i in bad[0])
    more = f" ({len(bad)} such in all)" if len(bad) > 1 else ""
    raise ValueError(
        f"`{name}` {rule}; got {np.asarray(values)[first]} at {place(first, columns)}"
        f"{more}. {remedy}."
    )


def check_entries(
    name: str, rows: SparseRows, allowed: np.ndarray, rule: str, remedy: str
) -> None:
    """Raise ValueError at the first entry of sparse rows that is not finite or allowed.

    Args:
        name: The argument's name.
        rows: Its rows.
        allowed: Whether each entry is, `[e]`.
        rule: What must hold, as "must be non-negative".
        remedy: What to do, a sentence without its full stop.
    """
    values = np.asarray(rows.values)
    finite = np.isfinite(values)
    if finite.all() and allowed.all():
        return
    if not finite.all():
        allowed, rule, remedy = finite, "must be finite", FILL
    entry = int(np.argmin(allowed))
    bad = np.count_nonzero(~allowed)
    index = int(rows.pattern.rows[entry]), int(rows.pattern.columns[entry])
    more = f" ({bad} such in all)" if bad > 1 else ""
    raise ValueError(
        f"`{name}` {rule}; got {values[entry]} at {place(index)}{more}. {remedy}."
    )


def check_weights(weights: DataLike, num_points: int) -> None:
    """Raise ValueError unless each point has one positive finite weight."""
    if np.shape(weights) != (num_points,):
        hint = " Pass numpy.asarray(weights).ravel()."
        columns = " Weights of columns are for Product(…, weights={column: weight})."
        raise ValueError(
            f"`weights` must have shape ({num_points},), one weight a row of `x`; got "
            f"{np.shape(weights)}."
            f"{hint if np.size(weights) == num_points else columns}"
        )
    if not is_concrete(weights):
        return
    array = np.asarray(float_array(weights, "weights"))
    check_finite("weights", array)
    check_support(
        "weights",
        array,
        array > 0,
        rule="must be positive",
        remedy="Drop the rows of weight 0 first",
    )
