"""A family that a user writes, from ψ and T."""

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from bregjax._checks import check_in_jax, float_array, is_concrete
from bregjax._typing import Array, DataLike, PyTree
from bregjax.families._base import Family
from bregjax.families._params import in_words, joined, name_of, split

__all__ = ["ExponentialFamily"]


@jax.tree_util.register_pytree_with_keys_class
class ExponentialFamily(Family):
    """The exponential family of a log-partition function ψ and a statistic T.

    Everything else follows: the mean map ∇ψ, the conjugate ψ* by a convex solver, the
    log-density, the Kullback–Leibler divergence, the merge cost, and their gradients.

    Args:
        log_partition: ψ, a plain JAX function: `log_partition(theta)`, or
            `log_partition(theta, params)` where `params` is given. Convex; inf or NaN
            outside its domain. Write it so that it neither overflows nor cancels.
        sufficient_statistics: T, which maps one row of the data to a pytree of the
            structure and shapes of θ.
        natural_init: A θ inside dom ψ, where the solver starts: an array or a pytree.
        log_base_measure: log h, which maps one row to a scalar; 0 if None. `log_prob`
            and likelihoods need it, clustering does not.
        params: Parameters of ψ itself (a dispersion, a matrix, a module), any pytree.
            Costs differentiate by its arrays and numbers, and new values of these do
            not recompile. Other leaves (functions, names, Python bools) are part of the
            structure: new values of these recompile, and unhashable leaves are compared
            by identity. T and log h are passed the parameters, too, if they have a
            second argument without a default.
        separable: Whether ψ(θ) = Σ ψ_i(θ_i): the solver then works coordinate by
            coordinate, without matrices. A wrong claim gives wrong costs; `check` tests
            the claim.

    Raises:
        TypeError: If a function is not callable, ψ calls NumPy, or `natural_init` is
            not of floats.
        ValueError: If ψ is not a finite scalar at `natural_init`.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import bregjax as bj
        >>> family = bj.ExponentialFamily(  # Poisson counts, without their log h
        ...     lambda theta: jnp.sum(jnp.exp(theta)), lambda x: x, jnp.zeros(1)
        ... )
        >>> theta = jnp.array([0.693])
        >>> print(family.natural_to_mean(theta))
        [2.000]
        >>> print(jax.jit(family.kl_divergence)(theta, jnp.zeros(1)))  # 2 log 2 − 1
        0.386
    """

    def __init__(
        self,
        log_partition: Callable[..., Array],
        sufficient_statistics: Callable[..., PyTree],
        natural_init: PyTree,
        log_base_measure: Callable[..., Array] | None = None,
        *,
        params: PyTree = None,
        separable: bool = False,
    ):
        functions = {
            "log_partition": log_partition,
            "sufficient_statistics": sufficient_statistics,
        }
        if log_base_measure is not None:
            functions["log_base_measure"] = log_base_measure
        for name, function in functions.items():
            if not callable(function):
                raise TypeError(f"`{name}` must be a function; got {function!r}.")
        self._functions = (log_partition, sufficient_statistics, log_base_measure)
        self._natural_init = jax.tree.map(float_array, natural_init)
        self._arrays, self._rest = split(params)
        self._separable = bool(separable)
        self._check_start()

    def _check_start(self) -> None:
        # In JAX's default precision, so that ψ does not warn of truncated float64.
        start = jax.tree.map(jnp.asarray, self._natural_init)
        check_in_jax("log_partition", self.log_partition, start)
        value = self.log_partition(start)
        if jnp.shape(value) != ():
            raise ValueError(
                "`log_partition` must return a scalar; got shape "
                f"{jnp.shape(value)} at `natural_init`. Sum over coordinates."
            )
        if is_concrete(value) and not np.isfinite(value):
            raise ValueError(
                "`natural_init` must lie inside the domain of `log_partition`; got ψ = "
                f"{float(value)} there. Choose a θ where ψ is finite."
            )

    def tree_flatten(self):
        """Leaves: the start, and the arrays among the parameters of ψ."""
        aux = (self._functions, self._separable, self._rest)
        return (self._natural_init, self._arrays), aux

    def tree_flatten_with_keys(self):
        """Leaves with names, `.natural_init` and `.params`."""
        children, aux = self.tree_flatten()
        names = ("natural_init", "params")
        return tuple(
            zip(map(jax.tree_util.GetAttrKey, names), children, strict=True)
        ), aux

    @classmethod
    def tree_unflatten(cls, aux: Any, children: Any) -> "ExponentialFamily":
        """Rebuild without checks."""
        family = object.__new__(cls)
        family._functions, family._separable, family._rest = aux
        family._natural_init, family._arrays = children
        return family

    def with_params(self, params: PyTree) -> "ExponentialFamily":
        """The family with other arrays among its parameters; unchecked.

        Args:
            params: A pytree of the structure of the family's `params`. Leaves that are
                not numbers keep their values in this family, and may be None here.
        """
        (init, _), aux = self.tree_flatten()
        return self.tree_unflatten(aux, (init, split(params)[0]))

    def __repr__(self) -> str:
        """Name the functions, and give types and shapes of the numbers."""
        names = ("log_partition", "sufficient_statistics", "log_base_measure")
        parts = [
            f"{name}={name_of(function)}"
            for name, function in zip(names, self._functions, strict=True)
            if function is not None
        ]
        parts.insert(2, f"natural_init={in_words(self._natural_init)}")
        if self.params is not None:
            parts.append(f"params={in_words(self.params)}")
        if self._separable:
            parts.append("separable=True")
        return f"{type(self).__name__}({', '.join(parts)})"

    @property
    def params(self) -> PyTree:
        """The parameters of ψ, with arrays of floats in float64."""
        return joined(self._arrays, self._rest)

    @property
    @override
    def separable(self) -> bool:
        return self._separable

    @property
    @override
    def natural_init(self) -> PyTree:
        return self._natural_init

    @override
    def log_partition(self, natural: PyTree) -> Array:
        function = self._functions[0]
        if self.params is None:
            return function(natural)
        return function(natural, self.params)

    @override
    def sufficient_statistics(self, x: Array) -> PyTree:
        """T(x) in floats."""
        statistics = self._of_row(self._functions[1], x)
        return jax.tree.map(lambda t: jnp.asarray(t, dtype=float), statistics)

    @override
    def log_base_measure(self, x: Array) -> Array:
        function = self._functions[2]
        if function is None:
            return super().log_base_measure(x)
        return self._of_row(function, x)

    def _of_row(self, function: Callable[..., Any], x: Array) -> Any:
        """Call a function on a row, and on the parameters if it needs two arguments."""
        if self.params is None or _num_required(function) < 2:
            return function(x)
        return function(x, self.params)

    @override
    def for_data(self, x: DataLike) -> "ExponentialFamily":
        """Return the family after a test that T of a row fits θ.

        Raises:
            ValueError: If T(x) has another structure or other shapes than θ.
        """
        shape = np.shape(x)
        if len(shape) == 0:
            raise ValueError(f"`x` must have a row a point; got {x!r}.")
        row = jax.ShapeDtypeStruct(shape[1:], jnp.result_type(float))
        check_in_jax("sufficient_statistics", self.sufficient_statistics, row)
        row = jax.eval_shape(self.sufficient_statistics, row)
        wanted = jax.tree.map(jnp.shape, self._natural_init)
        got = jax.tree.map(lambda leaf: leaf.shape, row)
        same = jax.tree.structure(row) == jax.tree.structure(self._natural_init)
        if not same or wanted != got:
            raise ValueError(
                "`sufficient_statistics` of a row must have the structure and shapes "
                f"of `natural_init`, {wanted}; got {got} for a row of shape "
                f"{shape[1:]}. Check `natural_init` against the number of columns."
            )
        return self


def _num_required(function: Callable[..., Any]) -> int:
    """How many positional arguments have no default; 1 if a signature is unknown."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    positional = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    )
    return sum(p.kind in positional and p.default is p.empty for p in parameters)
