"""Functions that are compiled where they have much to do, and run by NumPy elsewhere.

Compiling takes a second or more, once for each shape; tracing takes some hundredths.
The jaxpr of a trace says how much there is to do: where NumPy does it in less time than
the compiler would need, NumPy does it. Which of the two it is follows from shapes
alone, so that the same call gives the same digits whenever it is made.
"""

import functools
from collections.abc import Callable, Hashable
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from bregjax._programs.elementwise import Unknown
from bregjax._programs.translate import Routine
from bregjax._typing import PyTree

__all__ = ["Program", "program"]

# Nanoseconds that compiling takes, about: of the smallest program, and of each step.
_COMPILING, _STEP = 1e8, 1.5e6
# Routines that are kept, a shape each.
_KEPT = 256


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
        in_double = jax.config.jax_enable_x64  # pyright: ignore[reportAttributeAccessIssue]
        if in_double and not traced:
            found = self._routine(leaves, structure, static)
            if found is not None and is_quick(found[0]):
                return _run(*found, leaves)
        return self._jitted(**static)(*args)

    def is_quick(self, *args: PyTree, **static: Hashable) -> bool:
        """Whether NumPy would run it; arguments as for `routine`."""
        routine = self.routine(*args, **static)
        return routine is not None and is_quick(routine)

    def routine(self, *args: PyTree, **static: Hashable) -> Routine | None:
        """What NumPy would run; None, if it can't.

        Args:
            *args: Values, or `jax.ShapeDtypeStruct` in their place.
            **static: As in a call.
        """
        found = self._routine(*jax.tree.flatten(args), static)
        return None if found is None else found[0]

    def _routine(
        self, leaves: list[Any], structure: Any, static: dict[str, Hashable]
    ) -> tuple[Routine, Any] | None:
        """The routine for arguments of such shapes, and the structure of its result."""
        key = (structure, tuple(map(_form, leaves)), tuple(static.items()))
        if key not in self._routines:
            if len(self._routines) >= _KEPT:
                self._routines.clear()
            args = jax.tree.unflatten(structure, leaves)
            self._routines[key] = self._translated(args, static)
        return self._routines[key]

    def _jitted(self, **static: Hashable) -> Callable[..., PyTree]:
        key = tuple(static.items())
        if key not in self._compiled:
            self._compiled[key] = jax.jit(functools.partial(self.function, **static))
        return self._compiled[key]

    def _translated(
        self, args: PyTree, static: dict[str, Hashable]
    ) -> tuple[Routine, Any] | None:
        # A trace of the compiled function is kept for it, if it comes to that.
        function = self._jitted(**static)
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


def is_quick(routine: Routine) -> bool:
    """Whether NumPy runs a routine in less time than it would take to compile it."""
    return routine.nanoseconds <= compiling(routine.size)


def compiling(size: int) -> float:
    """About how many nanoseconds it takes to compile so many steps."""
    return _COMPILING + _STEP * size


def _form(leaf: Any) -> Any:
    """Shape and type of an operand."""
    try:
        return leaf.shape, leaf.dtype
    except AttributeError:
        return type(leaf)


def _run(routine: Routine, structure: Any, leaves: list[Any]) -> PyTree:
    operands = [np.asarray(leaf) for leaf in leaves]
    with np.errstate(all="ignore"):
        found = routine(operands)
        given = set(map(id, operands))
        # An operand that is returned as it is must not be shared with the caller.
        found = [np.array(v) if id(v) in given else _own(v) for v in found]
    return jax.tree.unflatten(structure, found)


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
