"""A jaxpr as a list of calls of NumPy functions, and about how long these take.

Worked example: the jaxpr of `lambda x: jnp.sum(2 * x)`, for x of shape [3], is

    { lambda ; a:f64[3]. let
        b:f64[3] = mul 2.0 a
        c:f64[] = reduce_sum[axes=(0,)] b
      in (c,) }

Its variables get the slots 0 (the literal 2.0), 1 (a), 2 (b) and 3 (c), and the steps
are multiply, (0, 1) → 2, and sum, (2) → 3, after which slots 1 and 2 are emptied.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.extend.core as jec
import numpy as np

from bregjax._programs import elementwise, indexing, linear, shapes
from bregjax._programs.elementwise import Run, Unknown
from bregjax._programs.scans import scan_split

__all__ = ["Routine"]

_BUILDERS: dict[str, Callable[[Any], Run]] = {
    **elementwise.BUILDERS,
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
        self._steps: list[tuple[Run, tuple[int, ...], tuple[int, ...] | int, Any]] = []
        self._start: list[Any] = []
        self._constant: set[int] = set()
        jaxpr, consts = _parts(closed)
        slot_of: dict[Any, int] = {}
        for variable, value in zip(jaxpr.constvars, consts, strict=True):
            slot_of[variable] = self._known(np.asarray(value))
        self._inputs = [self._new() for _ in jaxpr.invars]
        slot_of.update(zip(jaxpr.invars, self._inputs, strict=True))
        self._add(jaxpr, slot_of)
        self._outputs = [self._slot(atom, slot_of) for atom in jaxpr.outvars]
        self._dtypes = [atom.aval.dtype for atom in jaxpr.outvars]
        self._empty_early()

    def __call__(self, operands: Sequence[Any]) -> list[Any]:
        """Compute the outputs."""
        slots = list(self._start)
        for slot, operand in zip(self._inputs, operands, strict=True):
            slots[slot] = operand
        for run, sources, targets, done in self._steps:
            found = run(*[slots[k] for k in sources])
            if isinstance(targets, int):
                slots[targets] = found
            else:
                for slot, part in zip(targets, found, strict=True):
                    slots[slot] = part
            for k in done:
                slots[k] = None
        return [slots[k] for k in self._outputs]

    def _new(self) -> int:
        self._start.append(None)
        return len(self._start) - 1

    def _known(self, value: Any) -> int:
        slot = self._new()
        self._start[slot] = value
        self._constant.add(slot)
        return slot

    def _slot(self, atom: Any, slot_of: dict[Any, int]) -> int:
        if isinstance(atom, jec.Literal):
            aval: Any = atom.aval
            return self._known(np.asarray(atom.val, aval.dtype)[()])
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
            if numbers < _CONSTANT and self._constant.issuperset(sources):
                self._fold(run, sources, targets)
                continue
            self.nanoseconds += nanoseconds + _NUMBER * numbers
            self.size += size
            self._steps.append((run, sources, targets, ()))

    def _inline(self, eqn: Any, sources: tuple[int, ...]) -> list[int]:
        """Add the equations of a function that an equation calls."""
        name = _INNER[eqn.primitive.name]
        if name not in eqn.params:
            raise Unknown(f"{eqn.primitive.name} without {name}")
        jaxpr, consts = _parts(eqn.params[name])
        inner = dict(zip(jaxpr.invars, sources, strict=True))
        for variable, value in zip(jaxpr.constvars, consts, strict=True):
            inner[variable] = self._known(np.asarray(value))
        self._add(jaxpr, inner)
        return [self._slot(atom, inner) for atom in jaxpr.outvars]

    def _fold(self, run: Run, sources: tuple[int, ...], targets: Any) -> None:
        """Compute now what depends on constants alone."""
        with np.errstate(all="ignore"):
            found = run(*[self._start[k] for k in sources])
        if isinstance(targets, int):
            targets, found = (targets,), (found,)
        for slot, value in zip(targets, found, strict=True):
            self._start[slot] = value
            self._constant.add(slot)

    def _empty_early(self) -> None:
        """Note after which step each array is needed no more."""
        last = {}
        for number, (_, sources, targets, _) in enumerate(self._steps):
            slots = targets if isinstance(targets, tuple) else (targets,)
            last.update(dict.fromkeys((*sources, *slots), number))
        done: dict[int, list[int]] = {}
        for slot, number in last.items():
            if slot not in self._constant and slot not in self._outputs:
                done.setdefault(number, []).append(slot)
        self._steps = [
            (run, sources, targets, tuple(done.get(number, ())))
            for number, (run, sources, targets, _) in enumerate(self._steps)
        ]


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

    def run(*operands: Any) -> list[Any]:
        of_test, of_body = operands[:first], operands[first : first + second]
        state = list(operands[first + second :])
        while np.any(going := goes_on([*of_test, *state])[0]):
            found = body([*of_body, *state])
            # Under vmap some of a batch are done before others, and stay as they are.
            state = (
                [_chosen(going, *pair) for pair in zip(found, state, strict=True)]
                if np.ndim(going)
                else found
            )
        return state

    nanoseconds = _TURNS * (goes_on.nanoseconds + body.nanoseconds)
    return run, nanoseconds, goes_on.size + body.size


def _chosen(going: np.ndarray, new: Any, old: Any) -> Any:
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

    def run(*operands: Any) -> list[Any]:
        fixed, state = operands[:consts], list(operands[consts : consts + carry])
        rows = operands[consts + carry :]
        outs = [np.empty(aval.shape, aval.dtype) for aval in made]
        for k in order:
            found = body([*fixed, *state, *(row[k] for row in rows)])
            state = found[:carry]
            for out, part in zip(outs, found[carry:], strict=True):
                out[k] = part
        return [*state, *outs]

    return run, length * (body.nanoseconds + _CALL), body.size


def _cond(eqn: Any) -> _Control:
    branches = [Routine(branch) for branch in eqn.params["branches"]]
    last = len(branches) - 1

    def run(index: Any, *operands: Any) -> list[Any]:
        return branches[min(max(int(index), 0), last)](operands)

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

    def run(*operands: Any) -> list[Any]:
        arrays, found = operands[:count], list(operands[count:])
        for k in range(arrays[0].shape[axis]):
            found = one_by_one([*found, *(np.take(a, k, axis) for a in arrays)])
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

    def run(*operands: Any) -> list[Any]:
        return solve([*operands[own], *operands[right:]])

    return run, solve.nanoseconds, solve.size


_CONTROL: dict[str, Callable[[Any], _Control]] = {
    "cond": _cond,
    "custom_linear_solve": _linear_solve,
    "reduce": _reduce,
    "scan": _scan,
    "while": _while,
}
