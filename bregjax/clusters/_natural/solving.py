"""Conjugates of many means at once, from outside of compiled loops.

For code that has many means at hand: an engine, `replay`, a check. Most means are
solved by a few calls of one small program (`convex/_solvers/rapid.py`), whose shapes
depend on the number of parameters alone; the others go to the careful solver, a program
of its own. Both compile once for a family and a precision.

Example: 3,000 means of Dirichlets of three parts with shapes e^{1.5 Z}, Z normal, all
started at the shapes (1, 1, 1). Means are lanes; a call takes 16 blocks of 64 lanes.

    round   Newton steps   means   calls   left over
      1          5         3,000     3       2,912
      2          4         2,912     3         983
      3          6           983     1          38
      4          8            38     1           0

Between two rounds the solved lanes are left out, so that few lanes wait for the slowest
lane of a block. Nothing is left over for the careful solver.
"""

import functools
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from bregjax._programs import program
from bregjax._result import Result
from bregjax._typing import Array, PyTree
from bregjax.clusters._natural.state import flat_init, flat_psi
from bregjax.clusters._potential import Potential
from bregjax.convex._solvers.coupling import coupling, sample_points
from bregjax.convex._solvers.rapid import Lanes, Structure, advance

__all__ = ["Solutions", "Solver", "carefully", "with_params"]

# Blocks of lanes in a call.
_BLOCKS = 16
# Newton steps of each round of calls; lanes that are done are left out of the next.
_STEPS = (5, 4, 6, 8, 8, 16)
# Newton steps of the try in which drifting lanes need not settle.
_LAST = (2,)
# Systems of more equations go to the careful solver at once.
_WIDEST = 256
# Means that the careful solver takes in a call.
_CAREFUL_LANES = 8
_MOST_THREADS = 4
# Where the careful solver starts again after it stalled: at this share of the way from
# its first start to the last iterate. That point is in the domain, near the start.
_ONWARDS = 1 / 64
# Names of primitives that call LAPACK.
_FACTORISATION = re.compile(
    r"\b(cholesky|triangular_solve|lu|qr|geqrf|householder_product|eigh?|svd|schur)\b"
)
# Second derivatives that couple coordinates by less than this share of their size count
# as rounding: far above eps, and far below what a ψ that is no sum has.
_COUPLED = 1e-6


class Solutions(NamedTuple):
    """Conjugates of P means, NumPy arrays.

    Attributes:
        natural: θ, the last iterate where there is no maximiser, `[P, n]`.
        value: ψ*(μ), `[P]`; NaN where none was found.
        result: `Result` codes `[P]`. CONVERGED of a solve that need not settle says
            that the value is right, also for a mean on the boundary.
        careful: How many means the careful solver took.
    """

    natural: np.ndarray
    value: np.ndarray
    result: np.ndarray
    careful: int


class Solver:
    """Conjugates of a family whose ψ* has no closed form, many at a time."""

    def __init__(self, family: Potential, params: PyTree = None) -> None:
        """Look at the Hessian of ψ; call it in the precision of the solves.

        Args:
            family: The family.
            params: Parameters of the family in each of d columns, leaves `[d, ...]`;
                those of `family` in all columns if None.
        """
        self.family = family
        self.params = jax.tree.map(np.asarray, params)
        self.dtype = np.dtype(np.result_type(jnp.zeros(()).dtype))
        with jax.enable_x64(True):
            wide = jax.tree.map(_widened, family)
            self.start = np.asarray(flat_init(wide, jnp.dtype("float64")), float)
            self.structure = _structure(wide, self.start)
        self.size = len(self.start)
        alone = jax.default_backend() != "cpu" or _factorises(family, self.start)
        self.num_threads = 1 if alone else min(os.cpu_count() or 1, _MOST_THREADS)
        self._threads = ThreadPoolExecutor(self.num_threads)
        self._compiled = False

    def params_of(self, column: np.ndarray) -> PyTree:
        """Parameters of lanes in the given columns, in the precision of the solves."""
        as_float = lambda leaf: (
            leaf.astype(self.dtype) if leaf.dtype.kind == "f" else leaf
        )
        return jax.tree.map(lambda leaf: as_float(leaf[column]), self.params)

    def solve(
        self,
        means: np.ndarray,
        starts: np.ndarray,
        column: np.ndarray | int = 0,
        *,
        settled: bool,
    ) -> Solutions:
        """Solve for means `[P, n]` from starts `[P, n]` in the domain of ψ.

        Args:
            means: Mean parameters.
            starts: Natural parameters to start from; broadcast against the means.
            column: The column of each mean, `[P]`, where parameters differ by column.
            settled: Whether θ is wanted and codes must tell the interior from the
                boundary; if not, only the value has to be right.
        """
        starts = np.broadcast_to(starts, means.shape)
        column = np.broadcast_to(column, means.shape[:1])
        n, count = self.size, len(means)
        value = np.full(count, np.nan)
        result = np.full(count, Result.CONVERGED, np.int32)
        left = np.arange(count)
        # A column for each mean: the mean, θ, variances, shrink. The program returns
        # the last three.
        table = np.zeros((3 * n + 1, count), self.dtype)
        table[:n], table[n : 2 * n], table[-1] = means.T, starts.T, 1
        if self.structure.width <= _WIDEST:
            left = self._advance(table, value, column, left, _STEPS, settled=settled)
            # Far out ψ may have no curvature left: again, from the family's start.
            table[n:-1, left], table[-1, left] = 0, 1
            table[n : 2 * n, left] = self.start[:, None]
            left = self._advance(table, value, column, left, _STEPS, settled=settled)
            if settled:
                # A mean whose value is right while θ still drifts is on the boundary.
                drifting = left
                left = self._advance(table, value, column, left, _LAST, settled=False)
                result[np.setdiff1d(drifting, left)] = Result.BOUNDARY
        natural = np.ascontiguousarray(table[n : 2 * n].T)
        if len(left):
            begin = np.broadcast_to(self.start, (len(left), n))
            careful = self._carefully(means[left], begin, column[left])
            natural[left], value[left], result[left] = careful
        # Near a corner of the mean domain rounding stops some solves: once more, from
        # another start.
        again = left[np.isin(result[left], (Result.STALLED, Result.STEP_LIMIT))]
        if len(again):
            begin = self.start + _ONWARDS * (natural[again] - self.start)
            careful = self._carefully(means[again], begin, column[again])
            natural[again], value[again], result[again] = careful
        return Solutions(natural, value, result, len(left))

    def _advance(
        self,
        table: np.ndarray,
        value: np.ndarray,
        column: np.ndarray,
        left: np.ndarray,
        schedule: tuple[int, ...],
        *,
        settled: bool,
    ) -> np.ndarray:
        """Make Newton steps in the columns `left` of a table; return those not done."""
        work = functools.partial(self._call, table, column, settled=settled)
        if len(left) <= self.structure.lanes:
            # A single block may go on until all its lanes are done.
            schedule = (sum(schedule),)
        for steps in schedule:
            if not len(left):
                break
            parts = [left[part] for part in _slices(len(left), self._capacity)]
            found = self._mapped(functools.partial(work, steps=steps), parts)
            undone = []
            for part, out in zip(parts, found, strict=True):
                table[self.size :, part] = out[: 2 * self.size + 1]
                done = out[-1] > 0
                value[part[done]] = -out[-2][done]
                undone.append(part[~done])
            left = np.concatenate(undone)
        return left

    @property
    def _capacity(self) -> int:
        return _BLOCKS * self.structure.lanes

    def _call(
        self,
        table: np.ndarray,
        column: np.ndarray,
        part: np.ndarray,
        *,
        steps: int,
        settled: bool,
    ) -> np.ndarray:
        """Run the program on some columns: θ, variances, shrink, φ, done."""
        packed = np.ones((len(table), self._capacity), self.dtype)
        packed[:, : len(part)] = table[:, part]
        numbers = np.array([len(part), steps, settled], np.int32)
        lanes = np.zeros(self._capacity, int)
        lanes[: len(part)] = column[part]
        params = self.params_of(lanes)
        out = _advanced(self.family, params, packed, numbers, structure=self.structure)
        return np.asarray(out)[:, : len(part)]

    def _mapped(
        self, work: Callable[[np.ndarray], np.ndarray], parts: list[np.ndarray]
    ) -> Iterator[np.ndarray]:
        """Results of calls, several calls at once unless ψ factorises matrices."""
        if not self._compiled or len(parts) == 1:
            # The first call alone: several threads would each compile the program.
            yield work(parts[0])
            parts = parts[1:]
            self._compiled = True
        wide = jax.config.jax_enable_x64  # pyright: ignore[reportAttributeAccessIssue]
        device = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]

        def under(part: np.ndarray) -> np.ndarray:
            with jax.enable_x64(wide), jax.default_device(device):
                return work(part)

        yield from self._threads.map(under, parts)

    def _carefully(self, means: np.ndarray, starts: np.ndarray, column: np.ndarray):
        """θ, ψ* and codes from the careful solver."""
        natural = np.empty(means.shape, self.dtype)
        value, result = np.empty(len(means)), np.empty(len(means), np.int32)
        for part in _slices(len(means), _CAREFUL_LANES):
            fill = np.minimum(
                np.arange(part.start, part.start + _CAREFUL_LANES), part.stop - 1
            )
            out = carefully(
                self.family,
                self.params_of(column[fill]),
                means[fill].astype(self.dtype),
                starts[fill].astype(self.dtype),
            )
            kept = part.stop - part.start
            natural[part], value[part], result[part] = (
                np.asarray(field)[:kept] for field in out
            )
        return natural, value, result


def _widened(leaf: Any) -> Any:
    """A leaf of floats in float64; any other leaf as it is."""
    array = np.asarray(leaf)
    return array.astype(float) if array.dtype.kind == "f" else leaf


def _structure(family: Potential, start: np.ndarray) -> Structure:
    """Which coordinates of θ the Hessian couples.

    Raises:
        ValueError: If ψ is said to be separable and is not.
    """
    size = len(start)
    if family.separable:
        share = float(_coupled_share(family, sample_points(start)))
        if share > _COUPLED:
            raise ValueError(
                "`separable=True` says that ψ is a sum over coordinates; its second "
                f"derivatives couple some ({share:.2g} of their size). Leave "
                "`separable` out."
            )
        return Structure(size, tuple((i,) for i in range(size)))
    if size > _WIDEST:
        return Structure(size, (tuple(range(size)),))
    return coupling(np.asarray(_hessians(family, sample_points(start))))


def _factorises(family: Potential, start: np.ndarray) -> bool:
    """Whether the slope of ψ factorises matrices.

    XLA on a CPU may lock up where two programs that factorise run side by side.
    """
    leaves, treedef = jax.tree.flatten(family)
    shape_of = lambda leaf: jax.ShapeDtypeStruct(np.shape(leaf), jnp.result_type(leaf))
    return _factorising(treedef, tuple(map(shape_of, leaves)), start.shape)


@functools.lru_cache(maxsize=256)
def _factorising(treedef: Any, leaves: tuple[Any, ...], shape: tuple[int]) -> bool:
    slope = lambda family, theta: jax.grad(flat_psi(family))(theta)
    family = jax.tree.unflatten(treedef, leaves)
    start = jax.ShapeDtypeStruct(shape, jnp.zeros(()).dtype)
    program = str(jax.make_jaxpr(slope)(family, start))
    return _FACTORISATION.search(program) is not None


def _slices(count: int, size: int) -> list[slice]:
    """Slices of at most `size` places that cover `count` places."""
    return [slice(k, min(k + size, count)) for k in range(0, count, size)]


@program
def _coupled_share(family: Potential, points: Array) -> Array:
    """The relative difference of ∇²ψ v and diag(∇²ψ) v, the most at points `[k, n]`.

    0 if ψ is a sum over coordinates.
    """
    slope = jax.grad(flat_psi(family))
    direction = jnp.cos(1 + 2.0 * jnp.arange(points.shape[1], dtype=points.dtype))

    def share(point: Array) -> Array:
        along = lambda v: jax.jvp(slope, (point,), (v,))[1]
        diagonal, product = jax.lax.map(
            along, jnp.stack([jnp.ones_like(direction), direction])
        )
        rest = jnp.max(jnp.abs(product - diagonal * direction))
        size = jnp.max(jnp.abs(product)) + jnp.max(jnp.abs(diagonal))
        known = jnp.isfinite(rest) & jnp.isfinite(size) & (size > 0)
        return jnp.where(known, rest / jnp.where(known, size, 1), 0)

    return jnp.max(jax.vmap(share)(points))


@program
def _hessians(family: Potential, points: Array) -> Array:
    """∇²ψ at points `[k, n]`, `[k, n, n]`; inf in place of NaN, outside of dom ψ."""
    hessians = jax.vmap(jax.jacfwd(jax.grad(flat_psi(family))))(points)
    return jnp.where(jnp.isnan(hessians), jnp.inf, hessians)


@program
def _advanced(
    family: Potential,
    params: PyTree,
    packed: Array,
    numbers: Array,
    *,
    structure: Structure,
) -> Array:
    """Make Newton steps in lanes of mean, θ, variances and shrink.

    Args:
        family: The family.
        params: Parameters of the family in each lane, leaves `[lanes, ...]`, or None.
        packed: `[3n + 1, lanes]`.
        numbers: How many lanes are in use, how many steps, whether lanes must settle.
        structure: Which coordinates the Hessian couples.

    Returns:
        θ, variances, shrink, φ, and whether done; `[2n + 3, lanes]`.
    """
    n, size = structure.size, structure.lanes
    count, steps, strict = numbers[0], numbers[1], numbers[2] > 0

    def psi(theta: Array, params: PyTree) -> Array:
        return flat_psi(with_params(family, params))(theta)

    def block(i: Array, out: Array) -> Array:
        lanes = jax.lax.dynamic_slice(
            packed, (jnp.int32(0), i * size), (len(packed), size)
        )
        cut = lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, i * size, size)
        idle = i * size + jnp.arange(size, dtype=jnp.int32) >= count
        begin = Lanes(lanes[n : 2 * n], lanes[2 * n : 3 * n], lanes[-1], idle, idle)
        end, value = advance(
            psi, jax.tree.map(cut, params), structure, lanes[:n], begin, steps,
            strict=strict,
        )  # fmt: skip
        done = end.done.astype(packed.dtype)
        rows = [end.theta, end.variances, end.shrink[None], value[None], done[None]]
        found = jnp.concatenate(rows)
        return jax.lax.dynamic_update_slice(out, found, (jnp.int32(0), i * size))

    out = jnp.zeros((2 * n + 3, packed.shape[1]), packed.dtype)
    return jax.lax.fori_loop(0, (count + size - 1) // size, block, out)


@jax.jit
def carefully(family: Potential, params: PyTree, means: Array, starts: Array):
    """θ `[k, n]`, ψ* and codes `[k]` of means `[k, n]`, from the careful solver."""
    _, unravel = ravel_pytree(family.natural_init)

    def solve(params: PyTree, mean: Array, start: Array):
        one = with_params(family, params)
        solution = one.conjugate(unravel(mean), start=unravel(start))
        return ravel_pytree(solution.maximiser)[0], solution.value, solution.result

    return jax.vmap(solve)(params, means, starts)


def with_params(family: Potential, params: PyTree) -> Potential:
    """The family with other parameters of ψ; `family` itself if None."""
    return family if params is None else family.with_params(params)  # pyright: ignore[reportAttributeAccessIssue]
