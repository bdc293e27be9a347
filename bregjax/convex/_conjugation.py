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

from bregjax._pytree import register_pytree
from bregjax._typing import Array, PyTree
from bregjax.convex._solvers import dense, lbfgs, newton, scalar
from bregjax.convex._solvers.outcome import FlatFunction, FlatSolution

METHODS = ("auto", "newton", "lbfgs", "scalar")
DENSE_LIMIT = 2000  # largest n for which "auto" builds Hessians


@register_pytree
@dataclass(frozen=True)
class ConjugateSolution:
    """A conjugate's value at a point, with the code of the solver.

    Attributes:
        value: f*(y), a scalar. NaN where the code is STEP_LIMIT, STALLED or INVALID;
            +inf where the code is OUTSIDE. Where it is BOUNDARY: the limit where f* is
            finite there (to rounding, from below), +inf where f* is infinite there. The
            code is BOUNDARY also for y beyond the gradients of an f whose domain ends
            with a finite gradient (θ²/2 on |θ| ≤ 1 at 1.5); there the maximiser lies on
            the edge of the domain, `maximiser` within rounding of it, and the value is
            that of f*.
        maximiser: θ with ∇f(θ) = y, structure of `start`. Always finite: where the code
            is not CONVERGED it is the last iterate, and solves nothing.
        result: int32 `Result` code.
        num_steps: int32 number of steps taken.
        residual: Max-norm of y − ∇f(maximiser), less its component along directions in
            which f is affine.

    Examples:
        Closed forms answer in the same form:

        >>> import jax.numpy as jnp
        >>> from bregjax import Poisson
        >>> from bregjax.convex import Result
        >>> solution = Poisson(1).conjugate(jnp.array([2.0]))
        >>> print(solution.value, solution.maximiser)
        -0.6137 [0.6931]
        >>> print(Result(int(solution.result)).name)
        CONVERGED
    """

    value: Array
    maximiser: PyTree
    result: Array
    num_steps: Array
    residual: Array


class Options(NamedTuple):
    """Options of a solve that are static under `jit`."""

    method: str
    max_steps: int


@dataclass(frozen=True)
class _Call:
    """f as a function of θ and one pytree of parameters; hashable, so that jit caches.

    The parameters are (captured, params): `captured` are the array leaves of an f that
    is a pytree, of the object that a method is bound to, or the tracers f closes over.
    `kinds` are the classes in all pytrees: structures of different classes may be equal
    (`jax.tree_util.register_dataclass`), and the cache would take one f for another.
    """

    function: Callable
    treedef: Any
    has_params: bool
    hoisted: bool
    kinds: Any

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


def _kinds(treedef: Any) -> tuple[Any, ...]:
    """The classes of a tree's nodes, nested as they are."""
    node = treedef.node_data()
    children = tuple(_kinds(child) for child in treedef.children())
    return (None if node is None else node[0], children)


def _call(f: Callable, start: PyTree, params: PyTree) -> tuple[_Call, PyTree]:
    """Split f into a static part and the arrays it depends on."""
    has_params = params is not None
    owner, function = (f.__self__, f.__func__) if inspect.ismethod(f) else (f, _apply)
    leaves, treedef = jax.tree.flatten(owner)
    kinds = _kinds(jax.tree.structure((owner, start, params)))
    make = partial(_Call, has_params=has_params, kinds=kinds)
    if not jax.tree_util.treedef_is_leaf(treedef):
        return make(function, treedef, hoisted=False), (leaves, params)
    arguments = (start, params) if has_params else (start,)
    converted, captured = jax.closure_convert(f, *arguments)
    if captured:
        return make(converted, None, hoisted=True), (captured, params)
    # Keep f itself: the converted function is a new object each time.
    return make(f, None, hoisted=False), ((), params)


def _flat(call: _Call, start: PyTree, parameters: PyTree) -> FlatFunction:
    """The function f on raveled arrays."""
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
) -> FlatSolution:
    f = _flat(call, start, parameters)
    if options.method == "scalar":
        return scalar.minimise(f, warm, y, options.max_steps)
    if options.method == "lbfgs":
        return lbfgs.minimise(f, warm, y, options.max_steps)
    anchor, _ = ravel_pytree(start)
    return newton.minimise(f, anchor, warm, y, options.max_steps)


@_solve.defjvp
def _solve_jvp(call: _Call, options: Options, primals, tangents):
    """Implicit derivative of ∇f(θ; p) = y, and of f*(y; p) = <y, θ> − f(θ; p).

    θ' = (∇²f)⁺ (y' − ∂_p∇f p'),   value' = <θ, y'> − ∂_p f p'.

    θ on the right is the output of `_solve`, so a second derivative goes through this
    rule again. Start and warm start have no influence. For f = p e^θ at y = 2 and
    p = 1, where θ = log 2: by y the derivatives θ' = ½ and value' = log 2, by p −1 and
    −2, as of f* = y log(y / p) − y.
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
        theta_dot = scalar.inverse_product(f, theta, right)
    elif options.method == "lbfgs":
        theta_dot = lbfgs.inverse_product(f, theta, right)
    else:
        theta_dot = dense.inverse_product(f, theta, outcome.null, right)
    # The tangent of an integer is of the type float0.
    nothing: Any = np.zeros((), jax.dtypes.float0)
    derivative = FlatSolution(
        theta=theta_dot,
        value=jnp.sum(theta * y_dot) - value_dot,
        result=nothing,
        num_steps=nothing,
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


@register_pytree
@dataclass(frozen=True)
class Conjugate:
    """The conjugate f*(y) = sup over θ of <y, θ> − f(θ), as `conjugate` makes it.

    Attributes:
        start: Where solves begin, and the structure of θ and y.
        parameters: The arrays that f depends on.
        call: The static part of f.
        options: The method and the bound on its steps.

    Examples:
        >>> import jax.numpy as jnp
        >>> dual = conjugate(jnp.exp, jnp.array(0.0), separable=True)
        >>> print(dual(jnp.array(1.0), start=jnp.array(0.5)).maximiser.round(4) + 0.0)
        0.0
    """

    start: PyTree
    parameters: PyTree
    call: _Call = jax.tree.static()
    options: Options = jax.tree.static()

    def __call__(self, y: PyTree, *, start: PyTree = None) -> ConjugateSolution:
        """Value and maximiser at one point; batch with `jax.vmap`.

        Args:
            y: The point, a pytree of the structure and shapes of the conjugate's
                `start`.
            start: θ to begin at, of the same structure and in the domain of f; by
                default the conjugate's `start`. One near the maximiser saves steps.

        Returns:
            The solution, in the dtype of `start` and `y` together.

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

    The supremum is attained where ∇f(θ) = y, and there ∇f*(y) = θ. f may be affine
    along some directions (an overcomplete family): f* is then finite only on an affine
    hull. The part of y off that hull is ignored up to 100 roundings of y, and the
    maximiser keeps the start's component along these directions.

    The code is CONVERGED where the value is right to 1e-10 (float64) or 1e-5 (float32)
    of |<y, θ>| + |f(θ)|, for y as rounded; the solver estimates what roundings do to
    ill-conditioned problems and gives STALLED, not a number, where it cannot tell. "On
    the boundary" means to rounding: where f* grows like a logarithm (a covariance that
    becomes singular) the Newton solver gives BOUNDARY and +inf from some dozens of
    roundings of y away on.

    Derivatives of the value and the maximiser, of any order, forward and reverse, in y,
    `params`, the array leaves of f and the tracers it closes over, are implicit:
    nothing is differentiated through the iterations. With respect to y they are right
    along the affine hull; derivatives of the maximiser are projected on it. Where there
    is no maximiser the derivative of the value is <θ, y'> at the last iterate θ, and
    that of `maximiser` means nothing. Starts have no derivative.

    Under `jit` one compiled solve serves each f (by identity; by structure where f is a
    pytree), shape and dtype: prefer a module-level function with `params`, or a
    registered dataclass, to a fresh lambda, which compiles again.

    Args:
        f: Convex, twice differentiable function of θ, or of θ and `params`, returning a
            scalar; +inf or NaN outside its domain. A plain function, a callable pytree
            or a method of a pytree (array leaves are parameters), or a closure.
        start: A point in the domain of f, any pytree of arrays: where to begin, and
            the structure of θ and y. The directions in which f is affine are found
            there as well, so it should not lie at the edge of the domain.
        params: Passed to f as its second argument if given; any pytree of arrays.
        separable: Whether f is a sum over coordinates, Σ f_i(θ_i). Not checked.
        method: "scalar" (needs `separable`; O(n) a step), "newton" (dense Hessian,
            O(n³) a step, O(n²) memory), "lbfgs" (no matrix; slower to converge and a
            weaker check of its answer), or "auto": scalar if separable, Newton to
            n = 2,000, L-BFGS above.
        max_steps: Bound on the steps of a solve.

    Returns:
        A callable pytree; see `Conjugate.__call__`.

    Raises:
        TypeError: If f is not callable.
        ValueError: If `method` is unknown, `max_steps` < 1 or `start` is empty; when
            called, if f does not return a scalar.

    Examples:
        >>> import jax.numpy as jnp
        >>> from bregjax.convex import conjugate
        >>> dual = conjugate(jnp.exp, jnp.array(0.0), separable=True)
        >>> solution = dual(jnp.array(2.0))
        >>> print(solution.value, solution.maximiser, int(solution.result))
        -0.6137 0.6931 0

    References:
        BOYD & VANDENBERGHE (2004), Convex Optimization, Sections 3.3 and 9.5. The
        stopping rule and the verdict on boundaries are the package's own.
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
    return Conjugate(start, parameters, call, Options(method, max_steps))
