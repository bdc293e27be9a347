"""A jaxpr as a list of calls of NumPy functions, and about how long these take.

Worked example: the jaxpr of `lambda x: jnp.sum(2 * x)`, for x of shape [3], is

    { lambda ; a:f64[3]. let
        b:f64[3] = mul 2.0 a
        c:f64[] = reduce_sum[axes=(0,)] b
      in (c,) }

Its variables get the slots 1 (a), 2 (the literal 2.0), 3 (b) and 4 (c), and the steps
are multiply, (2, 1) → 3, and sum, (3) → 4, after which slots 1 and 3 are emptied. Slot
0 is for the meter, which loops of unknown length take.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.extend.core as jec
import numpy as np
from jax.core import Tracer

from bregjax._programs import elementwise, indexing, linear, shapes, special
from bregjax._programs.elementwise import Run, Unknown
from bregjax._programs.scans import scan_split

__all__ = ["Meter", "Routine", "TooLong"]

_BUILDERS: dict[str, Callable[[Any], Run]] = {
    **elementwise.BUILDERS,
    **special.BUILDERS,
    **shapes.BUILDERS,
    **indexing.BUILDERS,
    **linear.BUILDERS,
}
# Functions within functions: the name of the parameter that has the jaxpr.
_INNER = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "checkpoint": "jaxpr",
    "remat": "jaxpr",
    "remat2": "jaxpr",
}
# Nanoseconds that a call takes, and each number that it makes.
_CALL, _NUMBER = 1500.0, 1.0
# How often a loop of unknown length is thought to run.
_TURNS = 20
# What is computed once for all calls: not what fills memory.
_CONSTANT = 2**16
# Types of numbers that NumPy computes with as compiled programs do. Not keys of random
# numbers, nor short floating ones, which those compute with in longer ones.
_TYPES = frozenset(map(np.dtype, "?bhilqBHILQfd"))


class TooLong(Exception):
    """Raised where loops of unknown length take more turns than a meter allows."""


class Meter:
    """What the loops of unknown length of one run may take together, in nanoseconds."""

    def __init__(self, nanoseconds: float = math.inf) -> None:
        """Begin with so much."""
        self._left = nanoseconds

    def take(self, nanoseconds: float) -> None:
        """Take the time of a turn.

        Raises:
            TooLong: If there is not so much left.
        """
        self._left -= nanoseconds
        if self._left < 0:
            raise TooLong


class Routine:
    """A jaxpr, run by NumPy on arrays of the shapes that it was traced for.

    Attributes:
        nanoseconds: About how long a run takes.
        size: How many steps it has, those of inner routines counted once.

    Examples:
        >>> import jax
        >>> routine = Routine(jax.make_jaxpr(lambda x: x @ x + 1)(np.ones(3)))
        >>> float(routine([np.array([1.0, 2.0, 3.0])])[0])
        15.0
    """

    def __init__(self, closed: Any) -> None:
        """Translate.

        Raises:
            Unknown: If a primitive has no form in NumPy here.
        """
        self.nanoseconds = 0.0
        self.size = 0
        self._steps: list[_Step] = []
        self._start: list[Any] = [None]
        self._constant: set[int] = set()
        jaxpr, consts = _parts(closed)
        slot_of: dict[Any, int] = {}
        for variable, value in zip(jaxpr.constvars, consts, strict=True):
            slot_of[variable] = self._held(variable, value)
        self._inputs = [self._new() for _ in jaxpr.invars]
        self._types = [_type(variable) for variable in jaxpr.invars]
        slot_of.update(zip(jaxpr.invars, self._inputs, strict=True))
        self._add(jaxpr, slot_of)
        self._outputs = [self._slot(atom, slot_of) for atom in jaxpr.outvars]
        self._empty_early()

    def arrays(self, leaves: Sequence[Any]) -> list[np.ndarray]:
        """Arrays of the types that it was translated for."""
        return [np.asarray(*pair) for pair in zip(leaves, self._types, strict=True)]

    def __call__(
        self, operands: Sequence[Any], meter: Meter | None = None
    ) -> list[Any]:
        """Compute the outputs.

        Raises:
            TooLong: If there is a meter, and its loops take longer.
        """
        slots = list(self._start)
        slots[0] = meter
        for slot, operand in zip(self._inputs, operands, strict=True):
            slots[slot] = operand
        for run, sources, targets, types, done in self._steps:
            found = run(*[slots[k] for k in sources])
            if isinstance(targets, int):
                # NumPy may have made it of another type, 1 / x of a float64, say.
                slots[targets] = found if found.dtype is types else _as(found, types)
            else:
                for slot, part, dtype in zip(targets, found, types, strict=True):
                    slots[slot] = part if part.dtype is dtype else _as(part, dtype)
            for k in done:
                slots[k] = None
        return [slots[k] for k in self._outputs]

    def _new(self) -> int:
        self._start.append(None)
        return len(self._start) - 1

    def _known(self, value: Any) -> int:
        slot = self._new()
        self._set(slot, value)
        return slot

    def _held(self, variable: Any, value: Any) -> int:
        """A constant that a function holds: a copy, which its owner can't change."""
        if isinstance(value, Tracer):
            raise Unknown("a function that holds a traced value")
        return self._known(np.array(value, _type(variable)))

    def _set(self, slot: int, value: Any) -> None:
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
        self._start[slot] = value
        self._constant.add(slot)

    def _slot(self, atom: Any, slot_of: dict[Any, int]) -> int:
        if isinstance(atom, jec.Literal):
            return self._known(np.asarray(atom.val, _type(atom))[()])
        return slot_of[atom]

    def _add(self, jaxpr: Any, slot_of: dict[Any, int]) -> None:
        """Add the equations of a jaxpr whose operands have slots."""
        for eqn in jaxpr.eqns:
            sources = tuple(self._slot(atom, slot_of) for atom in eqn.invars)
            name = eqn.primitive.name
            if name in _INNER:
                outputs = self._inline(eqn, sources)
                slot_of.update(zip(eqn.outvars, outputs, strict=True))
                continue
            if eqn.primitive.multiple_results:
                types = tuple(map(_type, eqn.outvars))
            else:
                types = _type(eqn.outvars[0])
            if name in _CONTROL:
                run, nanoseconds, size = _CONTROL[name](eqn)
            elif name in _BUILDERS:
                run, nanoseconds, size = _BUILDERS[name](eqn), _CALL, 1
            else:
                raise Unknown(name)
            numbers = sum(_size(atom.aval) for atom in (*eqn.invars, *eqn.outvars))
            if eqn.primitive.multiple_results:
                targets = tuple(self._new() for _ in eqn.outvars)
            else:
                targets = self._new()
            slots = targets if isinstance(targets, tuple) else (targets,)
            slot_of.update(zip(eqn.outvars, slots, strict=True))
            # Loops over constants may be long, and branches may never be taken.
            is_control = name in _CONTROL
            small = numbers < _CONSTANT and not is_control
            if small and self._constant.issuperset(sources):
                self._fold(run, sources, slots, types)
                continue
            sources = (0, *sources) if is_control else sources
            self.nanoseconds += nanoseconds + _NUMBER * numbers
            self.size += size
            self._steps.append((run, sources, targets, types, ()))

    def _inline(self, eqn: Any, sources: tuple[int, ...]) -> list[int]:
        """Add the equations of a function that an equation calls."""
        name = _INNER[eqn.primitive.name]
        if name not in eqn.params:
            raise Unknown(f"{eqn.primitive.name} without {name}")
        jaxpr, consts = _parts(eqn.params[name])
        inner = dict(zip(jaxpr.invars, sources, strict=True))
        for variable, value in zip(jaxpr.constvars, consts, strict=True):
            inner[variable] = self._held(variable, value)
        self._add(jaxpr, inner)
        return [self._slot(atom, inner) for atom in jaxpr.outvars]

    def _fold(
        self, run: Run, sources: tuple[int, ...], slots: tuple[int, ...], types: Any
    ) -> None:
        """Compute now what depends on constants alone."""
        with np.errstate(all="ignore"):
            found = run(*[self._start[k] for k in sources])
        if not isinstance(types, tuple):
            found, types = (found,), (types,)
        for slot, value, dtype in zip(slots, found, types, strict=True):
            self._set(slot, _as(value, dtype))

    def _empty_early(self) -> None:
        """Note after which step each array is needed no more."""
        last = {}
        for number, (_, sources, targets, _, _) in enumerate(self._steps):
            slots = targets if isinstance(targets, tuple) else (targets,)
            last.update(dict.fromkeys((*sources, *slots), number))
        done: dict[int, list[int]] = {}
        for slot, number in last.items():
            if slot and slot not in self._constant and slot not in self._outputs:
                done.setdefault(number, []).append(slot)
        self._steps = [
            (run, sources, targets, types, tuple(done.get(number, ())))
            for number, (run, sources, targets, types, _) in enumerate(self._steps)
        ]


# What runs, slots of its operands and of what it makes, the types of that, and slots
# that are needed no more.
_Step = tuple[Run, tuple[int, ...], tuple[int, ...] | int, Any, tuple[int, ...]]


def _type(atom: Any) -> np.dtype:
    """The type of a variable's numbers.

    Raises:
        Unknown: If NumPy has no such numbers.
    """
    dtype = getattr(atom.aval, "dtype", None)
    if dtype not in _TYPES:
        raise Unknown(f"numbers of type {dtype}")
    return np.dtype(dtype)


def _as(value: Any, dtype: np.dtype) -> Any:
    return np.asarray(value).astype(dtype, copy=False)


def _parts(closed: Any) -> tuple[Any, Sequence[Any]]:
    """A jaxpr and its constants, from a closed one or one that has none."""
    return getattr(closed, "jaxpr", closed), getattr(closed, "consts", ())


def _size(aval: Any) -> int:
    return math.prod(aval.shape)


# What runs an equation, about how many nanoseconds it takes, and how many steps it has.
_Control = tuple[Run, float, int]


def _while(eqn: Any) -> _Control:
    params = eqn.params
    goes_on, body = Routine(params["cond_jaxpr"]), Routine(params["body_jaxpr"])
    first, second = params["cond_nconsts"], params["body_nconsts"]

    turn = goes_on.nanoseconds + body.nanoseconds + _CALL

    def run(meter: Meter | None, *operands: Any) -> list[Any]:
        of_test, of_body = operands[:first], operands[first : first + second]
        state = list(operands[first + second :])
        while np.any(going := goes_on([*of_test, *state], meter)[0]):
            if meter is not None:
                meter.take(turn)
            found = body([*of_body, *state], meter)
            # Under vmap some of a batch are done before others, and stay as they are.
            state = (
                [_while_going(going, *pair) for pair in zip(found, state, strict=True)]
                if np.ndim(going)
                else found
            )
        return state

    return run, _TURNS * turn, goes_on.size + body.size


def _while_going(going: np.ndarray, new: Any, old: Any) -> Any:
    """New values where the loop goes on, along the leading axes."""
    going = np.reshape(going, going.shape + (1,) * (np.ndim(new) - going.ndim))
    return np.where(going, new, old)


def _scan(eqn: Any) -> _Control:
    params = eqn.params
    body, length = Routine(params["jaxpr"]), params["length"]
    consts, carry = scan_split(eqn, _parts(params["jaxpr"])[0])
    steps = range(length)
    order = reversed(steps) if params["reverse"] else steps
    order = list(order)
    made = [variable.aval for variable in eqn.outvars[carry:]]

    def run(meter: Meter | None, *operands: Any) -> list[Any]:
        fixed, state = operands[:consts], list(operands[consts : consts + carry])
        rows = operands[consts + carry :]
        outs = [np.empty(aval.shape, aval.dtype) for aval in made]
        for k in order:
            found = body([*fixed, *state, *(row[k] for row in rows)], meter)
            state = found[:carry]
            for out, part in zip(outs, found[carry:], strict=True):
                out[k] = part
        return [*state, *outs]

    return run, length * (body.nanoseconds + _CALL), body.size


def _cond(eqn: Any) -> _Control:
    branches = [Routine(branch) for branch in eqn.params["branches"]]
    last = len(branches) - 1

    def run(meter: Meter | None, index: Any, *operands: Any) -> list[Any]:
        return branches[min(max(int(index), 0), last)](operands, meter)

    longest = max(branch.nanoseconds for branch in branches)
    return run, longest, sum(branch.size for branch in branches)


def _reduce(eqn: Any) -> _Control:
    """Reductions by a function of one's own: a tree of its calls along one axis."""
    axes = eqn.params["dimensions"]
    if len(axes) != 1:
        raise Unknown("reduce along several axes")
    jaxpr = eqn.params["jaxpr"]
    count = len(eqn.outvars)
    axis = axes[0]
    jaxpr, consts = _parts(jaxpr)
    if consts:
        raise Unknown("reduce with constants")
    one_by_one = Routine(jaxpr)

    def run(meter: Meter | None, *operands: Any) -> list[Any]:
        arrays, found = operands[:count], list(operands[count:])
        for k in range(arrays[0].shape[axis]):
            rows = [np.take(a, k, axis) for a in arrays]
            found = one_by_one([*found, *rows], meter)
        return found

    turns = eqn.invars[0].aval.shape[axis]
    return run, turns * (one_by_one.nanoseconds + _CALL), one_by_one.size


def _linear_solve(eqn: Any) -> _Control:
    """The solver of a system that has rules of its own for derivatives."""
    lengths, jaxprs = eqn.params["const_lengths"], eqn.params["jaxprs"]
    solve = Routine(jaxprs.solve)
    start = lengths.matvec + lengths.vecmat
    own = slice(start, start + lengths.solve)
    right = sum(lengths)

    def run(meter: Meter | None, *operands: Any) -> list[Any]:
        return solve([*operands[own], *operands[right:]], meter)

    return run, solve.nanoseconds, solve.size


_CONTROL: dict[str, Callable[[Any], _Control]] = {
    "cond": _cond,
    "custom_linear_solve": _linear_solve,
    "reduce": _reduce,
    "scan": _scan,
    "while": _while,
}
