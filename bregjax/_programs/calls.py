"""Functions that are compiled where they have much to do, and run by NumPy elsewhere.

Compiling takes a second or more, once for each shape; tracing takes some hundredths.
The jaxpr of a trace says how much there is to do: where NumPy does it in less time than
the compiler would need, NumPy does it. Which of the two it is follows from shapes, so
that the same call gives the same digits whenever it is made; but a loop whose length
depends on values may turn out to be long, and from then on calls of that kind are
compiled.
"""

import functools
from collections.abc import Callable, Hashable
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from bregjax._programs.elementwise import Unknown
from bregjax._programs.translate import Meter, Routine, TooLong
from bregjax._typing import PyTree

__all__ = ["Program", "program"]

# Nanoseconds that compiling takes, about: of the smallest program, and of each step.
_COMPILING, _STEP = 1e8, 1.5e6
# Routines that are kept, a shape each, and compiled functions, for static arguments.
_KEPT = 256
# What stands for a routine that was not asked for.
_ABSENT: Any = object()


class Program:
    """A pure function of pytrees that chooses how it runs; see `program`."""

    def __init__(self, function: Callable[..., PyTree]) -> None:
        """Wrap a function; nothing is traced yet."""
        functools.update_wrapper(self, function)
        self.function = function
        self._compiled: dict[Any, Callable[..., PyTree]] = {}
        self._routines: dict[Any, tuple[Routine, Any] | None] = {}

    def __call__(self, *args: PyTree, **static: Hashable) -> PyTree:
        """Call the function; what is given by keyword is static."""
        leaves, structure = jax.tree.flatten(args)
        traced = any(isinstance(leaf, Tracer) for leaf in leaves)
        if not traced and _numpy_may():
            key = _key(leaves, structure, static)
            found = self._routine(key, leaves, structure, static)
            if found is not None and _takes_less_than_compiling(found[0]):
                try:
                    return _run(*found, leaves)
                except TooLong:
                    _keep(self._routines, key, None)
        return self._jitted(static)(*args)

    def is_quick(self, *args: PyTree, **static: Hashable) -> bool:
        """Whether NumPy would run it; arguments as for `routine`."""
        routine = self.routine(*args, **static)
        return routine is not None and _takes_less_than_compiling(routine)

    def routine(self, *args: PyTree, **static: Hashable) -> Routine | None:
        """What NumPy would run; None, if it can't.

        Args:
            *args: Values, or `jax.ShapeDtypeStruct` in their place.
            **static: As in a call.
        """
        leaves, structure = jax.tree.flatten(args)
        key = _key(leaves, structure, static)
        found = self._routine(key, leaves, structure, static)
        return None if found is None else found[0]

    def _routine(
        self, key: Any, leaves: list[Any], structure: Any, static: dict[str, Hashable]
    ) -> tuple[Routine, Any] | None:
        """The routine for arguments of such shapes, and the structure of its result."""
        found = self._routines.get(key, _ABSENT)
        if found is _ABSENT:
            args = jax.tree.unflatten(structure, leaves)
            found = self._translated(args, static)
            _keep(self._routines, key, found)
        return found

    def _jitted(self, static: dict[str, Hashable]) -> Callable[..., PyTree]:
        key = tuple(sorted(static.items()))
        found = self._compiled.get(key)
        if found is None:
            found = jax.jit(functools.partial(self.function, **static))
            _keep(self._compiled, key, found)
        return found

    def _translated(
        self, args: PyTree, static: dict[str, Hashable]
    ) -> tuple[Routine, Any] | None:
        # A trace of the compiled function is kept for it, if it comes to that.
        function = self._jitted(static)
        closed, out = jax.make_jaxpr(function, return_shape=True)(*args)
        try:
            return Routine(closed), jax.tree.structure(out)
        except Unknown:
            return None


def program(function: Callable[..., PyTree]) -> Program:
    """Return the function, to be compiled or run by NumPy, whichever takes less time.

    By NumPy, if all values are known, the work is in float64, every primitive has a
    form there, and the run is quick beside compiling. Then the results are NumPy
    arrays, else JAX's.

    The function may not rely on more than the values of its arguments, static ones
    among these: not on their types (a JAX array may come as NumPy's and the other way
    round), nor on values from outside that change or are traced, nor on printing or
    other effects, nor on being traced once for each shape.

    Args:
        function: Pure, of pytrees; arguments by keyword are static.

    Examples:
        >>> import jax.numpy as jnp
        >>> norm = program(lambda x: jnp.sqrt(jnp.sum(x**2)))
        >>> with jax.enable_x64(True):
        ...     print(type(norm(np.array([3.0, 4.0]))).__name__)
        ...     print(type(norm(np.ones(2 * 10**8, np.int8))).__name__)
        ndarray
        ArrayImpl
    """
    return Program(function)


def compile_nanoseconds(size: int) -> float:
    """About how many nanoseconds it takes to compile so many steps."""
    return _COMPILING + _STEP * size


def _takes_less_than_compiling(routine: Routine) -> bool:
    return routine.nanoseconds <= compile_nanoseconds(routine.size)


def _numpy_may() -> bool:
    """Whether JAX's settings ask for nothing that NumPy does not do here."""
    config: Any = jax.config
    looks_for_faults = config.jax_debug_nans or config.jax_debug_infs
    return config.jax_enable_x64 and not looks_for_faults


def _key(leaves: list[Any], structure: Any, static: dict[str, Hashable]) -> Any:
    """What decides about a routine: shapes, types, the mode, and what is static."""
    config: Any = jax.config
    in_double = config.jax_enable_x64
    given = tuple(sorted(static.items()))
    return structure, tuple(map(_form, leaves)), in_double, given


def _form(leaf: Any) -> Any:
    """Shape and type of an operand; a weak type gives way to others."""
    if type(leaf) is np.ndarray:
        return leaf.shape, leaf.dtype, False
    try:
        return leaf.shape, leaf.dtype, getattr(leaf, "weak_type", False)
    except AttributeError:
        return type(leaf)


def _keep(kept: dict[Any, Any], key: Any, value: Any) -> None:
    """Add an entry, in the place of the oldest where there are many."""
    while len(kept) >= _KEPT and key not in kept:
        # Other threads may do so at the same time.
        for oldest in list(kept)[:1]:
            kept.pop(oldest, None)
    kept[key] = value


def _run(routine: Routine, structure: Any, leaves: list[Any]) -> PyTree:
    operands = routine.arrays(leaves)
    meter = Meter(compile_nanoseconds(routine.size))
    with np.errstate(all="ignore"):
        shared = set(map(id, operands))
        results = []
        for value in routine(operands, meter):
            # What is an operand, or was a result before, is not to be shared.
            results.append(np.array(value) if id(value) in shared else _own(value))
            shared.add(id(value))
    return jax.tree.unflatten(structure, results)


def _own(value: Any) -> np.ndarray:
    """Return an array that is not a part of another, without subnormal numbers.

    These have lost digits; compiled programs have 0 in their place.
    """
    value = np.asarray(value)
    if value.base is not None or not value.flags.writeable:
        value = np.array(value)
    if value.dtype.kind == "f":
        subnormal = (np.abs(value) < np.finfo(value.dtype).tiny) & (value != 0)
        if subnormal.any():
            value[subnormal] = 0
    return value
