"""Conjugate in many dimensions: L-BFGS, then a few Newton steps by conjugate gradients.

No matrix is formed: O(n) memory times the history, a gradient or a Hessian–vector product
at a time. The certificate is weaker than the dense one: the decrement is that of
conjugate gradients, and the rounding that a nearly singular Hessian would magnify is
not bounded.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.scipy.sparse.linalg import cg

from bregjax._result import Result
from bregjax._typing import Array
from bregjax.convex._boundary import ray_test
from bregjax.convex._outcome import FlatFunction, Outcome, terms, value_tolerance

HISTORY = 20
POLISHING = 8  # Newton steps at most
CG_STEPS = 200


class State(NamedTuple):
    """Carry of the L-BFGS loop."""

    theta: Array
    residual: Array
    optimiser: Any
    best: Array
    idle: Array
    num_steps: Array
    going: Array


class Polish(NamedTuple):
    """Carry of the polishing loop; `step` is the Newton direction at `theta`."""

    theta: Array
    residual: Array
    step: Array
    decrement: Array
    model: Array  # the curvature along the step is the same at its end
    num_steps: Array
    going: Array


def minimise(f: FlatFunction, warm: Array, y: Array, max_steps: int) -> Outcome:
    """Solve ∇f(θ) = y from `warm`."""
    gradient = jax.grad(f)
    invalid = ~jnp.all(jnp.isfinite(y))
    descent = _descend(f, warm, y, max_steps, skip=invalid)
    polish = _polish(f, descent.theta, y, skip=invalid)
    theta = polish.theta
    value, slope = jax.value_and_grad(f)(theta)

    size = value_tolerance(y.dtype) * terms(y, theta, value, slope)
    rounding = jnp.finfo(y.dtype).eps * jnp.sum(jnp.abs(y * theta))
    passed = (polish.decrement <= size) & (rounding <= size) & polish.model
    lost = ~(passed | invalid)

    rays = jnp.stack([theta - warm, polish.step, polish.residual])
    reach = jnp.max(jnp.abs(theta - warm))
    verdict = ray_test(gradient, y, warm, rays, jnp.zeros(3, bool), reach, lost)
    conditions = [invalid, passed, verdict.outside, verdict.boundary, descent.going]
    codes = [
        Result.INVALID,
        Result.CONVERGED,
        Result.OUTSIDE,
        Result.BOUNDARY,
        Result.STEP_LIMIT,
    ]
    codes = [jnp.asarray(int(code), jnp.int32) for code in codes]
    result = jnp.select(conditions, codes, jnp.asarray(int(Result.STALLED), jnp.int32))
    known = (result == Result.CONVERGED) | (result == Result.BOUNDARY)
    infinite = (result == Result.OUTSIDE) | (
        (result == Result.BOUNDARY) & ~(polish.decrement <= size)
    )
    number = jnp.sum(y * theta) - value
    number = jnp.where(infinite, jnp.inf, jnp.where(known, number, jnp.nan))
    residual = jnp.max(jnp.abs(y - slope))
    null = jnp.zeros((y.size, 0), y.dtype)
    steps = descent.num_steps + polish.num_steps
    return Outcome(theta, number, result, steps, residual, null)


def _descend(
    f: FlatFunction, warm: Array, y: Array, max_steps: int, *, skip: Array
) -> State:
    eps = jnp.finfo(y.dtype).eps

    def objective(theta: Array) -> Array:
        return f(theta) - jnp.sum(y * theta)

    solver = optax.lbfgs(memory_size=HISTORY)
    evaluate = optax.value_and_grad_from_state(objective)

    def advance(state: State) -> State:
        value, slope = evaluate(state.theta, state=state.optimiser)
        update, optimiser = solver.update(
            slope,
            state.optimiser,
            state.theta,
            value=value,
            grad=slope,
            value_fn=objective,
        )
        theta = optax.apply_updates(state.theta, update)
        slope = optax.tree_utils.tree_get(optimiser, "grad")
        size = jnp.max(jnp.abs(slope))
        lower = size < 0.9 * state.best
        idle = jnp.where(lower, 0, state.idle + 1)
        good = jnp.all(jnp.isfinite(theta)) & jnp.all(jnp.isfinite(slope))
        exact = jnp.all(jnp.abs(slope) <= eps * jnp.abs(y))
        num_steps = state.num_steps + 1
        return State(
            theta=jnp.where(good, theta, state.theta),
            residual=jnp.where(good, -slope, state.residual),
            optimiser=optimiser,
            best=jnp.minimum(state.best, size),
            idle=idle.astype(jnp.int32),
            num_steps=num_steps,
            going=good & ~exact & (idle < 10),
        )

    begin = State(
        theta=warm,
        residual=y - jax.grad(f)(warm),
        optimiser=solver.init(warm),
        best=jnp.asarray(jnp.inf, y.dtype),
        idle=jnp.asarray(0, jnp.int32),
        num_steps=jnp.asarray(0, jnp.int32),
        going=~skip,
    )
    return jax.lax.while_loop(
        lambda state: state.going & (state.num_steps < max_steps), advance, begin
    )


def _polish(f: FlatFunction, theta: Array, y: Array, *, skip: Array) -> Polish:
    """Newton steps by conjugate gradients while they halve the decrement."""
    gradient = jax.grad(f)
    eps = jnp.finfo(y.dtype).eps

    def product(theta: Array, vector: Array) -> Array:
        return jax.jvp(gradient, (theta,), (vector,))[1]

    def examine(theta: Array) -> tuple[Array, Array, Array, Array]:
        residual = y - gradient(theta)
        step, _ = cg(
            lambda vector: product(theta, vector),
            residual,
            tol=1e-4,
            maxiter=CG_STEPS,
        )
        step = jnp.where(jnp.all(jnp.isfinite(step)), step, 0)
        here = jnp.sum(step * product(theta, step))
        there = jnp.sum(step * product(theta + step, step))
        # What conjugate gradients left of the residual must be covered as well.
        left = residual - product(theta, step)
        solved = jnp.sum(left**2) <= 1e-4 * jnp.sum(residual**2)
        exact = jnp.all(jnp.abs(residual) <= 4 * eps * jnp.abs(y))
        model = exact | (solved & (jnp.abs(there - here) <= 0.25 * here))
        decrement = jnp.where(exact, 0, jnp.sum(residual * step))
        return residual, step, decrement, model

    def advance(state: Polish) -> Polish:
        target = state.theta + state.step
        residual, step, decrement, model = examine(target)
        better = jnp.all(jnp.isfinite(residual)) & (decrement < 0.5 * state.decrement)
        better = better & model & (decrement >= 0)
        fresh = Polish(
            target, residual, step, decrement, model, state.num_steps + 1, better
        )
        stay = state._replace(going=jnp.zeros_like(state.going))
        return jax.tree.map(lambda new, old: jnp.where(better, new, old), fresh, stay)

    none = jnp.asarray(0, jnp.int32)
    begin = Polish(theta, *examine(theta), none, ~skip)
    return jax.lax.while_loop(
        lambda state: state.going & (state.num_steps < POLISHING), advance, begin
    )


def inverse_product(f: FlatFunction, theta: Array, right: Array) -> Array:
    """H⁻¹ `right` by conjugate gradients; twice differentiable, forward and reverse."""

    def product(vector: Array) -> Array:
        return jax.jvp(jax.grad(f), (theta,), (vector,))[1]

    tol = 1e-12 if jnp.finfo(theta.dtype).bits == 64 else 1e-6

    def solve(operator, target: Array) -> Array:
        return cg(operator, target, tol=tol, maxiter=10 * CG_STEPS)[0]

    return jax.lax.custom_linear_solve(product, right, solve, symmetric=True)
