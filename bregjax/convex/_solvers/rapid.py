"""Many conjugates at once: Newton steps for a block of points side by side.

The careful solver (`newton.py`) is built for the worst points, and takes long to
compile. Most points are harmless. This module makes a few Newton steps for each of many
points, in one small program, and proves of most that they are solved; the other points
go to the careful solver.

Notation: φ(θ) = ψ(θ) − ⟨τ, θ⟩ is minimised, r = τ − ∇ψ(θ), H = ∇²ψ(θ), p the Newton
step, λ² = ⟨p, r⟩ the squared Newton decrement. Points are lanes, the last axis of every
array: a block of a few dozen lanes stays in the cache of a core.

Any θ gives ⟨τ, θ⟩ − ψ(θ) ≤ ψ*(τ): a solve that ended too early gives too small a value.
A lane is solved where

1. a full Newton step was taken from a point with λ² ≤ eps^¾;
2. H p = r was *seen*, with H p a derivative of ψ along p: then p is the Newton step
   whatever it was computed from, and λ² the decrement, even if `Structure` is wrong;
3. pivots of the scaled Hessian are above eps^½, so that its rounding does not matter,
   and coordinates without curvature have no residual;
4. φ has kept most of its digits.

These four bound the error of the value by λ⁴ only if variances hardly change over the
step (a mean of 1e-9 has λ² ≤ 1e-9 wherever θ is). So a lane is done where, besides, it
is

- *settled*: no variance H_ii changed by more than a share of 1e-3 in the last step; or,
  if the value alone is asked for,
- *spent*: λ² is below rounding of ψ(θ) and ⟨τ, θ⟩. Iterates that drift towards a
  boundary (a count of zero) never settle, but gain 1/e of the last gain each step.

For ψ(θ) = e^θ₁ + log(e^θ₂ + e^θ₃) the groups are {1} and {2}: nothing couples θ₁ with
the others, and θ₃ is overcomplete. From 0, for τ = (2, ¾, ¼), in float64:

    step   θ₁        θ₂        λ² before the step   H₁₁ before the step
    1      1.000000  1.000000  1.25                 1.000000
    2      0.735759  1.096339  0.19                 2.718282
    3      0.694042  1.098611  0.0036               2.087065
    4      0.693148  1.098612  1.6e-6               2.001791
    5      0.693147  1.098612  3.2e-13              2.000001

Before step 5 λ² is first below eps^¾ = 1.8e-12, and H₁₁ has changed by 9e-4: solved,
settled and done, at θ = (log 2, log 3, 0).
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._typing import Array, PyTree

__all__ = ["LANES", "Lanes", "Structure", "advance"]

LanePotential = Callable[[Array, PyTree], Array]

# Numbers that decide. The size of blocks:
LANES = 64  # lanes of a block, unless its matrices are large
_BLOCK_ENTRIES = 2**17  # numbers that the matrices of a block may hold
_WRITTEN_OUT = 3  # equations of a system that is written out; larger ones are a loop
# Steps:
_RIDGE = 32  # eps a coordinate, added to the diagonal of the scaled Hessian
_ROSE = 8  # eps: a value that rises by less has not risen
_SHRINK = 32  # how much shorter the next steps are where no length lowers φ
_LENGTHS = (2, 4, 1 / 4, 1 / 16)  # lengths tried after the cautious and the logarithmic
# Acceptance, by powers of eps, shares and roundings:
DECREMENT = 0.75  # λ² ≤ eps^¾
PIVOT = 0.5  # below eps^½ half of a pivot's digits are lost
ROUNDING = 1 / 3  # rounding of φ relative to φ: above eps^⅓ its digits cancelled
UNSEEN = 0.01  # share of λ² by which H p may differ from r
NOISE = 16  # roundings: a smaller residual counts as none
OFF_HULL = 256  # roundings of the largest mean: the same in overcomplete coordinates
STEADY = 3 / 16  # relative change of a variance below eps^(3/16), 1e-3, is settled


@dataclass(frozen=True)
class Structure:
    """Which coordinates of θ a Newton step couples; hashable, part of a program.

    Attributes:
        size: Number n of coordinates.
        groups: Coordinates that the Hessian couples with each other only; coordinates
            in no group are overcomplete and stay where they start.
    """

    size: int
    groups: tuple[tuple[int, ...], ...]

    @functools.cached_property
    def width(self) -> int:
        """Number of equations of the largest system."""
        return max(len(group) for group in self.groups)

    @functools.cached_property
    def lanes(self) -> int:
        """Number of lanes of a block, a power of two; its matrices stay in cache."""
        entries = self.width**2 * len(self.groups)
        fitting = _BLOCK_ENTRIES / max(entries, 1)
        return int(2 ** np.floor(np.log2(np.clip(fitting, 8, LANES))))

    def table(self) -> np.ndarray:
        """Coordinates of each group, `[width, groups]`; n fills smaller groups up."""
        table = np.full((self.width, len(self.groups)), self.size, np.int32)
        for column, group in enumerate(self.groups):
            table[: len(group), column] = group
        return table

    def grouped(self) -> np.ndarray:
        """Whether each coordinate is in a group, `[n]`."""
        return np.isin(np.arange(self.size), self.table())


class Lanes(NamedTuple):
    """A block of B solves under way."""

    theta: Array  # [n, B]
    variances: Array  # H_ii at the point before, [n, B]; 0 at the start
    shrink: Array  # factor of the lengths of the next damped steps, [B]
    done: Array  # [B]
    settled: Array  # [B]


class _Newton(NamedTuple):
    """A Newton step and what is known of it, by lane."""

    value: Array  # φ(θ), [B]
    step: Array  # [n, B]
    decrement: Array  # λ², [B]
    variances: Array  # [n, B]
    proven: Array  # whether λ² is the squared decrement beyond doubt, [B]


def advance(
    psi: LanePotential,
    extra: PyTree,
    structure: Structure,
    tau: Array,
    lanes: Lanes,
    num_steps: Array | int,
    *,
    strict: Array | bool,
) -> tuple[Lanes, Array]:
    """Make up to `num_steps` Newton steps in each lane that is not done.

    Args:
        psi: ψ(θ, extra) of one lane, θ `[n]`; inf or NaN outside its domain.
        extra: The other argument of ψ in each lane: a pytree, lanes first.
        structure: Which coordinates the Hessian couples.
        tau: Means `[n, B]`.
        lanes: The solves so far.
        num_steps: How many steps; may be traced.
        strict: Whether lanes have to be settled to be done.

    Returns:
        The lanes, and φ `[B]` at their points: −ψ*(τ) where done.
    """
    values = jax.vmap(psi, in_axes=(-1, 0))
    must_settle = jnp.asarray(strict)

    def phi(theta: Array) -> Array:
        value = values(theta, extra) - jnp.sum(tau * theta, axis=0)
        return jnp.where(jnp.isnan(value), jnp.inf, value)

    def more(carry: tuple[Array, Lanes, Array]) -> Array:
        count, lanes, _ = carry
        return (count < num_steps) & ~jnp.all(lanes.done)

    def step(carry: tuple[Array, Lanes, Array]) -> tuple[Array, Lanes, Array]:
        count, lanes, value = carry
        newton = _newton(values, extra, structure, tau, lanes.theta)
        new, new_value = _move(phi, structure, tau, lanes, newton, must_settle)

        def keep(new: Array, old: Array) -> Array:
            done = lanes.done[None] if new.ndim == 2 else lanes.done
            return jnp.where(done, old, new)

        return count + 1, jax.tree.map(keep, new, lanes), keep(new_value, value)

    begin = (jnp.asarray(0, jnp.int32), lanes, jnp.zeros_like(lanes.shrink))
    _, lanes, value = jax.lax.while_loop(more, step, begin)
    return lanes, value


def _newton(
    values: Callable, extra: PyTree, structure: Structure, tau: Array, theta: Array
) -> _Newton:
    """The Newton step at θ by the groups of the structure, and its proof."""
    eps = jnp.finfo(tau.dtype).eps

    def total(theta: Array) -> tuple[Array, Array]:
        by_lane = values(theta, extra)
        return jnp.sum(by_lane), by_lane

    slopes = jax.grad(total, has_aux=True)
    along = lambda tangent: jax.jvp(slopes, (theta,), (tangent,), has_aux=True)
    table = structure.table()
    marks = np.zeros((structure.width, structure.size + 1), bool)
    np.put_along_axis(marks, table, values=True, axis=1)
    marks = jnp.asarray(marks[:, :-1, None], theta.dtype)
    gradient, products, psi = jax.vmap(
        lambda mark: along(jnp.broadcast_to(mark, theta.shape)),
        out_axes=(None, 0, None),
    )(marks)
    gradient, products, psi = jax.lax.optimization_barrier((gradient, products, psi))

    blocks = _gathered(products, table).swapaxes(0, 1)
    diagonal = jnp.stack([blocks[i, i] for i in range(structure.width)])
    positive = diagonal > 0
    scale = jnp.where(positive, jax.lax.rsqrt(jnp.where(positive, diagonal, 1)), 0)
    residual = tau - gradient
    right = scale * _gathered(residual, table)
    ridge = _RIDGE * structure.width * eps
    unit = jnp.eye(structure.width, dtype=bool)[:, :, None, None]
    matrix = blocks * scale[None] * scale[:, None]
    matrix = matrix + jnp.where(unit, jnp.where(positive, ridge, 1.0), 0)
    matrix, right = jax.lax.optimization_barrier((matrix, right))
    solution, pivot = _solve(matrix, right)
    step = _scattered(scale * solution, table, structure.size)
    step, pivot = jax.lax.optimization_barrier((step, pivot))

    if len(structure.groups) == 1:
        coefficients = jnp.stack([step[i] for i in structure.groups[0]])
        seen = jnp.sum(products * coefficients[:, None], axis=0)
    else:
        seen = along(step)[1]
    decrement = jnp.sum(step * residual, axis=0)
    size = _scattered(scale, table, structure.size)
    variances = _scattered(jnp.where(positive, diagonal, 0), table, structure.size)
    noise = NOISE * eps * (jnp.abs(tau) + jnp.abs(gradient))
    # Coordinates in no group, or without curvature, must have no residual.
    misfit = jnp.abs(seen - residual)
    largest = jnp.max(noise, axis=0, keepdims=True) * (OFF_HULL / NOISE)
    none = jnp.where(jnp.asarray(structure.grouped())[:, None], noise, largest)
    curved = size > 0
    missed = jnp.sum(jnp.where(curved, size * misfit, 0) ** 2, axis=0)
    allowed = UNSEEN * decrement + jnp.sum((size * noise) ** 2, axis=0)
    rest = jnp.all(curved | (misfit <= none), axis=0)
    proven = (pivot >= eps**PIVOT) & (missed <= allowed) & rest
    usable = jnp.isfinite(decrement) & (decrement >= 0)
    finite = usable & jnp.all(jnp.isfinite(step), axis=0)
    step = jnp.where(finite[None], step, 0)
    value = psi - jnp.sum(tau * theta, axis=0)
    value = jnp.where(jnp.isnan(value), jnp.inf, value)
    return _Newton(value, step, decrement, variances, proven & usable)


def _move(
    phi: Callable[[Array], Array],
    structure: Structure,
    tau: Array,
    lanes: Lanes,
    newton: _Newton,
    strict: Array,
) -> tuple[Lanes, Array]:
    """Take the full step where φ falls, else the best of a few lengths."""
    eps = jnp.finfo(tau.dtype).eps
    theta, step, decrement = lanes.theta, newton.step, newton.decrement
    value = newton.value
    size = jnp.abs(value) + jnp.sum(jnp.abs(tau * theta), axis=0) + 1
    slack = _ROSE * eps * size
    # Near the solution φ is flat to rounding: the step is right though φ may rise.
    slack = jnp.where(decrement <= eps**0.5, jnp.maximum(slack, decrement), slack)

    largest = jnp.max(jnp.abs(step), axis=0)
    # Where ψ is near exponential the Newton step p should be about log(1 + p).
    logarithm = jnp.log1p(largest) / jnp.where(largest > 0, largest, 1)
    cautious = 1 / (1 + jnp.sqrt(jnp.maximum(decrement, 0)))
    fixed = [jnp.full_like(value, length) for length in _LENGTHS]
    damped = lanes.shrink[None] * jnp.stack([cautious, logarithm, *fixed])
    lengths = jnp.concatenate([jnp.ones_like(value)[None], damped])

    def more(carry: tuple[Array, ...]) -> Array:
        count, _, _, full = carry
        return (count < len(lengths)) & ~jnp.all(full | lanes.done)

    def attempt(carry: tuple[Array, ...]) -> tuple[Array, ...]:
        count, least, best, full = carry
        length = lengths[count]
        reached = phi(theta + length[None] * step)
        full = jnp.where(count == 0, reached < value + slack, full)
        take = jnp.where(count == 0, full, ~full & (reached < least))
        least, best = jnp.where(take, reached, least), jnp.where(take, length, best)
        return count + 1, least, best, full

    count = jnp.asarray(0, jnp.int32)
    begin = (count, value, jnp.zeros_like(value), jnp.zeros_like(lanes.done))
    _, new_value, length, full = jax.lax.while_loop(more, attempt, begin)
    moved = length > 0

    change = jnp.abs(newton.variances - lanes.variances)
    # Coordinates of groups without curvature, far out towards a boundary, never settle.
    flat = jnp.asarray(structure.grouped())[:, None] & (newton.variances <= 0)
    steady = jnp.all((change <= eps**STEADY * lanes.variances) & ~flat, axis=0)
    solved = full & newton.proven & (decrement <= eps**DECREMENT)
    solved = solved & (size <= eps ** (ROUNDING - 1) * jnp.maximum(1, jnp.abs(value)))
    # Where variances still fall the decrement alone says how much is left to gain.
    spent = decrement <= eps * (size - 1)
    return (
        Lanes(
            theta=theta + length[None] * step,
            variances=newton.variances,
            shrink=jnp.where(moved, 1, lanes.shrink / _SHRINK),
            done=solved & (steady | (spent & ~strict)),
            settled=solved & steady,
        ),
        new_value,
    )


def _gathered(vectors: Array, table: np.ndarray) -> Array:
    """Entries by group `[..., w, g, B]` of vectors `[..., n, B]`; 0 fills groups up."""
    n, lanes = vectors.shape[-2:]
    if table.shape == (n, 1) and np.array_equal(table[:, 0], np.arange(n)):
        return vectors[..., None, :]
    none = jnp.zeros((*vectors.shape[:-2], 1, lanes), vectors.dtype)
    return jnp.concatenate([vectors, none], axis=-2)[..., table, :]


def _scattered(entries: Array, table: np.ndarray, size: int) -> Array:
    """The vector `[n, B]` of entries by group `[w, g, B]`; 0 in no group."""
    if table.shape == (size, 1) and np.array_equal(table[:, 0], np.arange(size)):
        return entries[:, 0]
    flat = entries.reshape(-1, entries.shape[-1])
    place = np.full(size + 1, flat.shape[0], np.int32)
    place[table.ravel()] = np.arange(table.size)
    place = place[:size]
    inside = (place < flat.shape[0])[:, None]
    return jnp.where(inside, flat[np.minimum(place, flat.shape[0] - 1)], 0)


def _solve(matrix: Array, right: Array) -> tuple[Array, Array]:
    """Solutions `[w, g, B]` of scaled systems `[w, w, g, B]`; least pivots `[B]`.

    Gauss–Jordan elimination without pivoting, which positive definite matrices do not
    need: lanes are eliminated side by side, where LAPACK takes one matrix at a time.
    """
    width = matrix.shape[0]
    system = jnp.concatenate([matrix, right[:, None]], axis=1)

    def eliminate(j: Array | int, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        system, least = carry
        pivot = system[j, j]
        row = system[j] / pivot[None]
        system = system - system[:, j][:, None] * row[None]
        return system.at[j].set(row), jnp.minimum(least, pivot)

    carry = (system, jnp.full_like(matrix[0, 0], jnp.inf))
    if width <= _WRITTEN_OUT:
        for j in range(width):
            carry = eliminate(j, carry)
    else:
        carry = jax.lax.fori_loop(0, width, eliminate, carry)
    system, pivot = carry
    return system[:, width], jnp.min(pivot, axis=0)
