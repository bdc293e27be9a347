"""Conjugate in many dimensions: L-BFGS, then Newton steps by conjugate gradients.

No matrix is formed: memory O(n) times the history, time a gradient or a Hessian–vector
product at a time. The test of the answer is weaker than that of the dense solver: the
decrement comes from conjugate gradients, and the rounding that a nearly singular
Hessian would magnify is not bounded.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.scipy.sparse.linalg import cg

from bregjax._result import Result
from bregjax._typing import Array
from bregjax.convex._solvers import thresholds
from bregjax.convex._solvers.boundary import ray_test
from bregjax.convex._solvers.outcome import (
    FlatFunction,
    FlatSolution,
    terms,
    value_tolerance,
)


class LbfgsState(NamedTuple):
    """Carry of the L-BFGS loop."""

    theta: Array
    residual: Array
    optimiser: Any
    best: Array  # least max-norm of the gradient so far
    idle: Array  # steps since the gradient last fell by a tenth
    num_steps: Array
    going: Array


class Polish(NamedTuple):
    """Carry of the polishing loop; `step` is the Newton direction at `theta`."""

    theta: Array
    residual: Array
    step: Array
    decrement: Array
    model: Array  # whether the curvature along the step is the same at its end
    num_steps: Array
    going: Array


def minimise(f: FlatFunction, warm: Array, y: Array, max_steps: int) -> FlatSolution:
    """Solve ∇f(θ) = y from `warm`."""
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
    none = jnp.zeros(3, bool)
    verdict = ray_test(f, y, warm, rays, none, reach, lost)
    # Unless the gain is small, the value on a boundary is not known to be finite.
    boundary = verdict.boundary & (polish.decrement <= size)
    conditions = [invalid, passed, verdict.outside, boundary, descent.going]
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
    number = jnp.where(known, jnp.sum(y * theta) - value, jnp.nan)
    number = jnp.where(result == Result.OUTSIDE, jnp.inf, number)
    residual = jnp.max(jnp.abs(y - slope))
    null = jnp.zeros((y.size, 0), y.dtype)
    steps = descent.num_steps + polish.num_steps
    return FlatSolution(theta, number, result, steps, residual, null)


def _descend(
    f: FlatFunction, warm: Array, y: Array, max_steps: int, *, skip: Array
) -> LbfgsState:
    eps = jnp.finfo(y.dtype).eps

    def objective(theta: Array) -> Array:
        return f(theta) - jnp.sum(y * theta)

    solver = optax.lbfgs(memory_size=thresholds.HISTORY)
    evaluate = optax.value_and_grad_from_state(objective)

    def advance(state: LbfgsState) -> LbfgsState:
        value, slope = evaluate(state.theta, state=state.optimiser)
        update, optimiser = solver.update(
            slope,
            state.optimiser,
            state.theta,
            value=value,
            grad=slope,
            value_fn=objective,
        )
        theta = state.theta + jnp.asarray(update)
        slope = optax.tree_utils.tree_get(optimiser, "grad")
        size = jnp.max(jnp.abs(slope))
        lower = size < thresholds.LOWER * state.best
        idle = jnp.where(lower, 0, state.idle + 1)
        good = jnp.all(jnp.isfinite(theta)) & jnp.all(jnp.isfinite(slope))
        exact = jnp.all(jnp.abs(slope) <= eps * jnp.abs(y))
        num_steps = state.num_steps + 1
        return LbfgsState(
            theta=jnp.where(good, theta, state.theta),
            residual=jnp.where(good, -slope, state.residual),
            optimiser=optimiser,
            best=jnp.minimum(state.best, size),
            idle=idle.astype(jnp.int32),
            num_steps=num_steps,
            going=good & ~exact & (idle < thresholds.LBFGS_IDLE),
        )

    begin = LbfgsState(
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

    def examine(theta: Array) -> tuple[Array, Array, Array, Array]:
        residual = y - gradient(theta)

        def product(vector: Array) -> Array:
            return jax.jvp(gradient, (theta,), (vector,))[1]

        scale = _scale(product, theta)

        def scaled(vector: Array) -> Array:
            return product(vector / scale) / scale

        target = residual / scale
        solution, _ = cg(
            scaled,
            target,
            tol=thresholds.CG_TOLERANCE,
            maxiter=thresholds.CG_STEPS,
        )
        solution = jnp.where(jnp.all(jnp.isfinite(solution)), solution, 0)
        step = solution / scale
        here = jnp.sum(step * product(step))
        there = jnp.sum(step * jax.jvp(gradient, (theta + step,), (step,))[1])
        # The residual that conjugate gradients leave must be small, or rounding: the
        # part along directions in which f is affine stays.
        left = target - scaled(solution)
        rounding = eps * (2 * jnp.abs(y) + jnp.abs(residual)) / scale
        allowed = thresholds.LEFT * jnp.sum(target**2)
        allowed = allowed + thresholds.LEFT_ROUNDINGS * jnp.sum(rounding**2)
        solved = jnp.sum(left**2) <= allowed
        nothing = thresholds.EXACT_ROUNDINGS * eps * jnp.abs(y)
        exact = jnp.all(jnp.abs(residual) <= nothing)
        model = exact | (solved & (jnp.abs(there - here) <= thresholds.SETTLED * here))
        decrement = jnp.where(exact, 0, jnp.sum(residual * step))
        return residual, step, decrement, model

    def advance(state: Polish) -> Polish:
        target = state.theta + state.step
        residual, step, decrement, model = examine(target)
        better = jnp.all(jnp.isfinite(residual)) & (decrement >= 0)
        better = better & (decrement < thresholds.HALVED * state.decrement)
        fresh = Polish(
            target, residual, step, decrement, model, state.num_steps + 1, better
        )
        stay = state._replace(going=jnp.zeros_like(state.going))
        return jax.tree.map(lambda new, old: jnp.where(better, new, old), fresh, stay)

    none = jnp.asarray(0, jnp.int32)
    begin = Polish(theta, *examine(theta), none, ~skip)
    return jax.lax.while_loop(
        lambda state: state.going & (state.num_steps < thresholds.POLISHING),
        advance,
        begin,
    )


def inverse_product(f: FlatFunction, theta: Array, right: Array) -> Array:
    """H⁻¹ `right` by conjugate gradients; twice differentiable, forward and reverse."""

    def product(vector: Array) -> Array:
        return jax.jvp(jax.grad(f), (theta,), (vector,))[1]

    tol = 1e-12 if jnp.finfo(theta.dtype).bits == 64 else 1e-6
    scale = _scale(product, theta)

    def solve(operator, target: Array) -> Array:
        def scaled(vector: Array) -> Array:
            return operator(vector / scale) / scale

        steps = 4 * thresholds.CG_STEPS
        solution, _ = cg(scaled, target / scale, tol=tol, maxiter=steps)
        return solution / scale

    return jax.lax.custom_linear_solve(product, right, solve, symmetric=True)


def _scale(product: Callable[[Array], Array], theta: Array) -> Array:
    """Estimate of diag(H)^½ from H times random signs; right to a few per cent."""
    shape = (thresholds.PROBES, theta.size)
    signs = jax.random.rademacher(jax.random.key(0), shape, theta.dtype)
    estimate = jnp.mean(signs * jax.lax.map(product, signs), axis=0)
    positive = jnp.where(estimate > 0, estimate, jnp.inf)
    least = jnp.min(positive)
    square = jnp.where(estimate > 0, estimate, jnp.where(jnp.isinf(least), 1, least))
    return jax.lax.stop_gradient(jnp.sqrt(square))
