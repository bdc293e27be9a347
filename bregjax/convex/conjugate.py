"""The convex conjugate of a function given as code, by numerical maximisation."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from bregjax._typing import Array, PyTree
from bregjax.convex import _dense, _lbfgs, _newton, _scalar
from bregjax.convex._outcome import FlatFunction, Outcome

METHODS = ("auto", "newton", "lbfgs", "scalar")
DENSE_LIMIT = 2000  # largest n for which "auto" builds Hessians


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ConjugateSolution:
    """A conjugate's value at a point, with what the solver says of it.

    Attributes:
        value: f*(y), a scalar. NaN where the code is STEP_LIMIT, STALLED or INVALID;
            +inf where it is OUTSIDE. Where it is BOUNDARY: the limit where f* is finite
            there (to rounding, from below), +inf where f* is infinite there.
        maximiser: θ with ∇f(θ) = y, structure of `start`. Always finite: where the code
            is not CONVERGED it is the last iterate, and solves nothing.
        result: int32 `Result` code.
        num_steps: int32 number of steps taken.
        residual: Max-norm of y − ∇f(maximiser), less its component along directions in
            which f is affine.
    """

    value: Array
    maximiser: PyTree
    result: Array
    num_steps: Array
    residual: Array


class Options(NamedTuple):
    """What of a solve is static."""

    method: str
    max_steps: int


@dataclass(frozen=True)
class _Call:
    """f as a function of θ and one pytree of parameters; hashable, so that jit caches.

    `parameters` is (captured, params): `captured` are the array leaves of an f that is
    a pytree, of the object that a method is bound to, or the tracers f closes over.
    """

    function: Callable
    treedef: Any
    has_params: bool
    hoisted: bool

    def __call__(self, theta: PyTree, parameters: PyTree) -> Array:
        captured, params = parameters
        arguments = (theta, params) if self.has_params else (theta,)
        if self.hoisted:
            return self.function(*arguments, *captured)
        if self.treedef is None:
            return self.function(*arguments)
        owner = jax.tree.unflatten(self.treedef, captured)
        return self.function(owner, *arguments)


def _apply(owner: Callable, *arguments: PyTree) -> Array:
    return owner(*arguments)


def _call(f: Callable, start: PyTree, params: PyTree) -> tuple[_Call, PyTree]:
    """Split f into a static part and the arrays it depends on."""
    has_params = params is not None
    owner, function = (f.__self__, f.__func__) if inspect.ismethod(f) else (f, _apply)
    leaves, treedef = jax.tree.flatten(owner)
    if not jax.tree_util.treedef_is_leaf(treedef):
        return _Call(function, treedef, has_params, hoisted=False), (leaves, params)
    arguments = (start, params) if has_params else (start,)
    converted, captured = jax.closure_convert(f, *arguments)
    if captured:
        return _Call(converted, None, has_params, hoisted=True), (captured, params)
    # f itself and not the converted function, which is a new object each time.
    return _Call(f, None, has_params, hoisted=False), ((), params)


def _flat(call: _Call, start: PyTree, parameters: PyTree) -> FlatFunction:
    """F on raveled arrays."""
    _, unravel = ravel_pytree(start)

    def f(theta: Array) -> Array:
        value = jnp.asarray(call(unravel(theta), parameters))
        if value.shape != ():
            raise ValueError(
                f"`f` must return a scalar; got an array of shape {value.shape}. Sum "
                "over its axes."
            )
        return value.astype(theta.dtype)

    return f


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _solve(
    call: _Call,
    options: Options,
    start: PyTree,
    warm: Array,
    y: Array,
    parameters: PyTree,
) -> Outcome:
    f = _flat(call, start, parameters)
    if options.method == "scalar":
        return _scalar.minimise(f, warm, y, options.max_steps)
    if options.method == "lbfgs":
        return _lbfgs.minimise(f, warm, y, options.max_steps)
    anchor, _ = ravel_pytree(start)
    return _newton.minimise(f, anchor, warm, y, options.max_steps)


@_solve.defjvp
def _solve_jvp(call: _Call, options: Options, primals, tangents):
    """Implicit derivative of ∇f(θ; p) = y, and of f*(y; p) = <y, θ> − f(θ; p).

    θ' = (∇²f)⁺ (y' − ∂_p∇f p'),   value' = <θ, y'> − ∂_p f p'.

    θ on the right is the output of `_solve`, so a second derivative goes through this
    rule again. Start and warm start have no influence.
    """
    start, warm, y, parameters = primals
    _, _, y_dot, parameters_dot = tangents
    outcome = _solve(call, options, start, warm, y, parameters)
    theta = outcome.theta

    def value_and_slope(parameters: PyTree) -> tuple[Array, Array]:
        return jax.value_and_grad(_flat(call, start, parameters))(theta)

    _, (value_dot, slope_dot) = jax.jvp(
        value_and_slope, (parameters,), (parameters_dot,)
    )
    right = y_dot - slope_dot
    f = _flat(call, start, parameters)
    if options.method == "scalar":
        theta_dot = _scalar.inverse_product(f, theta, right)
    elif options.method == "lbfgs":
        theta_dot = _lbfgs.inverse_product(f, theta, right)
    else:
        theta_dot = _dense.inverse_product(f, theta, outcome.null, right)
    nothing = np.zeros((), jax.dtypes.float0)
    derivative = Outcome(
        theta=theta_dot,
        value=jnp.sum(theta * y_dot) - value_dot,
        result=nothing,  # pyright: ignore[reportArgumentType]
        num_steps=nothing,  # pyright: ignore[reportArgumentType]
        residual=jnp.zeros_like(outcome.residual),
        null=jnp.zeros_like(outcome.null),
    )
    return outcome, derivative


@partial(jax.jit, static_argnums=(0, 1))
def _solution(
    call: _Call,
    options: Options,
    start: PyTree,
    warm: PyTree,
    y: PyTree,
    parameters: PyTree,
) -> ConjugateSolution:
    _, unravel = ravel_pytree(start)
    flat_warm, flat_y = ravel_pytree(warm)[0], ravel_pytree(y)[0]
    outcome = _solve(call, options, start, flat_warm, flat_y, parameters)
    return ConjugateSolution(
        value=outcome.value,
        maximiser=unravel(outcome.theta),
        result=outcome.result,
        num_steps=outcome.num_steps,
        residual=outcome.residual,
    )


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Conjugate:
    """The conjugate f*(y) = sup over θ of <y, θ> − f(θ); made by `conjugate`."""

    call: _Call = jax.tree.static()
    options: Options = jax.tree.static()
    start: PyTree
    parameters: PyTree

    def __call__(self, y: PyTree, *, start: PyTree = None) -> ConjugateSolution:
        """Value and maximiser at one point; batch with `jax.vmap`.

        Args:
            y: The point, a pytree of the structure and shapes of the conjugate's
                `start`.
            start: θ to begin at, of the same structure; by default the conjugate's own.
                It must lie in the domain of f. A near one saves steps.

        Returns:
            The solution. In the same dtype as `start` and `y` together.

        Raises:
            ValueError: If the structure or a shape differs (while tracing).
        """
        warm = self.start if start is None else start
        _check_like(y, self.start, "y")
        _check_like(warm, self.start, "start")
        leaves = jax.tree.leaves((self.start, warm, y))
        dtype = jnp.result_type(*leaves)
        if not jnp.issubdtype(dtype, jnp.floating):
            dtype = jnp.result_type(float)

        def cast(tree: PyTree) -> PyTree:
            return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), tree)

        return _solution(
            self.call,
            self.options,
            cast(self.start),
            cast(warm),
            cast(y),
            self.parameters,
        )


def _check_like(tree: PyTree, start: PyTree, name: str) -> None:
    structure, expected = jax.tree.structure(tree), jax.tree.structure(start)
    if structure != expected:
        raise ValueError(
            f"`{name}` must have the structure of the conjugate's `start`, {expected}; "
            f"got {structure}."
        )
    for leaf, like in zip(jax.tree.leaves(tree), jax.tree.leaves(start), strict=True):
        if jnp.shape(leaf) != jnp.shape(like):
            raise ValueError(
                f"`{name}` must have the shapes of the conjugate's `start`; got "
                f"{jnp.shape(leaf)} for {jnp.shape(like)}. Batch with `jax.vmap`."
            )


def conjugate(
    f: Callable[..., Array],
    start: PyTree,
    *,
    params: PyTree = None,
    separable: bool = False,
    method: str = "auto",
    max_steps: int = 100,
) -> Conjugate:
    """The convex conjugate f*(y) = sup over θ of <y, θ> − f(θ), computed numerically.

    The supremum is attained where ∇f(θ) = y, and there ∇f*(y) = θ.

    Args:
        f: Convex, twice differentiable function of θ, or of θ and `params`, returning a
            scalar. Outside its domain it is +inf or NaN.
        start: A point in the domain of f, any pytree of arrays: where to begin, and
            the structure of θ and y.
        params: Passed to f as its second argument if given; differentiable.
        separable: Whether f is a sum over coordinates Σ f_i(θ_i).
        method: "scalar", "newton", "lbfgs", or "auto".
        max_steps: Bound on the steps of a solve.

    Returns:
        A callable pytree; see `Conjugate.__call__`.
    """
    if not callable(f):
        raise TypeError(f"`f` must be callable; got {type(f).__name__}.")
    if method not in METHODS:
        raise ValueError(f"`method` must be one of {METHODS}; got {method!r}.")
    if max_steps < 1:
        raise ValueError(f"`max_steps` must be at least 1; got {max_steps}.")
    size = sum(np.size(leaf) for leaf in jax.tree.leaves(start))
    if size == 0:
        raise ValueError("`start` must hold at least one number; got none.")
    if method == "auto":
        method = "newton" if size <= DENSE_LIMIT else "lbfgs"
        method = "scalar" if separable else method
    call, parameters = _call(f, start, params)
    return Conjugate(call, Options(method, max_steps), start, parameters)
