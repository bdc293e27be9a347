"""The base class of exponential families: ψ and T are given, the rest follows."""

import abc
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from typing_extensions import override

from bregjax._checks import is_concrete
from bregjax._geometry import Geometry
from bregjax._numerics import finite_cotangents, scale_tangent
from bregjax._result import Result
from bregjax._typing import Array, ArrayLike, DataLike, PyTree
from bregjax.clusters import BregmanModel, ClusterModel, NaturalModel
from bregjax.convex import ConjugateSolution, bregman_remainder, conjugate
from bregjax.families._cell_form import CellForm
from bregjax.families._check import CheckReport, check_family
from bregjax.families._densities import by_natural, naturals_of
from bregjax.families._dimension import minimal_dimension
from bregjax.smoothing import StatisticMap, mixing

__all__ = ["Family"]


class Family(Geometry):
    """An exponential family p(x; θ) = h(x) exp(⟨T(x), θ⟩ − ψ(θ)).

    A subclass gives ψ (`log_partition`), T (`sufficient_statistics`) and a natural
    parameter inside dom ψ (`natural_init`); the rest follows. A subclass may override
    more by closed forms, which give the same results.

    Natural parameters θ and mean parameters μ are pytrees of one structure. Methods act
    on one parameter; map over many with `jax.vmap`. Families are pytrees, too: their
    leaves are the parameters of the family itself (a variance, a dispersion), and costs
    differentiate by them.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import bregjax as bj
        >>> family = bj.Poisson(dim=1)
        >>> mean, theta = jnp.array([3.0]), jnp.array([1.0986])  # θ = log μ
        >>> print(family.natural_to_mean(theta))
        [3.000]
        >>> print(jax.jit(family.mean_to_natural)(mean))
        [1.0986]
        >>> print(jax.jit(family.conjugate)(mean).value)  # 3 log 3 − 3
        0.2958
        >>> print(jax.jit(family.log_prob)(jnp.array([2.0]), theta))
        -1.496
        >>> print(jax.jit(family.kl_divergence)(theta, jnp.zeros(1)))
        1.296
    """

    # --- What a subclass gives -----------------------------------------------------

    @property
    def separable(self) -> bool:
        """Whether ψ is a sum over the coordinates of θ."""
        return False

    @property
    @override
    def columnwise(self) -> bool:
        """Whether the columns of the data are independent."""
        return self.separable

    @property
    @abc.abstractmethod
    def natural_init(self) -> PyTree:
        """A natural parameter inside dom ψ, where solvers start."""

    @abc.abstractmethod
    def log_partition(self, natural: PyTree) -> Array:
        """ψ(θ), scalar; +inf or NaN outside its domain."""

    @abc.abstractmethod
    def sufficient_statistics(self, x: Array) -> PyTree:
        """T(x) of one observation, in the structure of θ."""

    def log_base_measure(self, x: Array) -> Array:
        """log h(x) of one observation, scalar; −inf off the support; 0 by default."""
        del x
        return jnp.zeros(())

    # --- What follows --------------------------------------------------------------

    def natural_to_mean(self, natural: PyTree) -> PyTree:
        """μ = ∇ψ(θ) = E T(x), of the structure of θ."""
        return jax.grad(self.log_partition)(natural)

    def conjugate(
        self, mean: PyTree, *, start: PyTree | None = None
    ) -> ConjugateSolution:
        """Solve ψ*(μ) = sup ⟨μ, θ⟩ − ψ(θ).

        Args:
            mean: Mean parameter μ.
            start: Natural parameter to start from, `natural_init` by default.

        Returns:
            The solution: the value ψ*(μ), the natural parameter `maximiser` of mean μ,
            and a code. On the boundary of the mean domain the value is the limit (+inf
            for a Gaussian of singular covariance) and the code `Result.BOUNDARY`;
            beyond the boundary the value is +inf and the code `Result.OUTSIDE`.
        """
        return self.numerical_conjugate(mean, start=start)

    def natural_guess(self, means: np.ndarray) -> np.ndarray | None:
        """Natural parameters to start solves for raveled means `[..., n]` from.

        A guess near θ saves steps; results do not depend on the guess. None, the
        default, leaves the start to the code that solves.
        """
        del means

    @property
    def num_parameters(self) -> int:
        """The number of free parameters of a distribution of the family.

        The rank of ∇²ψ: directions of θ that change nothing do not count, nor do the
        parameters of the family itself (a known variance). Built-in families state it;
        of others it is computed from second derivatives, which takes a second or two.

        Raises:
            ValueError: If the family is still to learn its dimension from data.

        Examples:
            >>> import bregjax as bj
            >>> bj.Gaussian(dim=3).num_parameters, bj.Multinomial(dim=3).num_parameters
            (9, 2)
        """
        return minimal_dimension(self)

    @property
    def solves(self) -> bool:
        """Whether `conjugate` runs the solver, because ψ* has no closed form."""
        return type(self).conjugate is Family.conjugate

    def numerical_conjugate(
        self, mean: PyTree, *, start: PyTree | None = None
    ) -> ConjugateSolution:
        """Solve for ψ*(μ) from ψ alone, even if the family has a closed form.

        Args:
            mean: Mean parameter μ.
            start: Natural parameter to start from, `natural_init` by default.

        Returns:
            The solution, as `conjugate` describes it.
        """
        solve = conjugate(
            _log_partition, self.natural_init, params=self, separable=self.separable
        )
        return solve(mean, start=start)

    def mean_to_natural(self, mean: PyTree) -> PyTree:
        """Natural parameter θ of mean μ: the maximiser of ⟨μ, θ⟩ − ψ(θ).

        On the boundary of the mean domain a family with a closed form gives the limit
        of θ, with infinite entries (a Poisson mean of 0 has θ = −inf), which `log_prob`
        accepts.

        Raises:
            ValueError: If there is no θ, or the solver found none. Under `jit` or
                `vmap` all entries are NaN instead.
        """
        solution = self.conjugate(mean)
        limit = jnp.stack(
            [jnp.any(jnp.isinf(t)) for t in jax.tree.leaves(solution.maximiser)]
        )
        found = solution.result == Result.CONVERGED
        found = found | ((solution.result == Result.BOUNDARY) & jnp.any(limit))
        if is_concrete(found) and not found:
            code = Result(int(solution.result))
            raise ValueError(
                f"`mean` has no natural parameter ({code.name}); got {mean}. "
                f"{code.sentence}"
            )
        return jax.tree.map(
            lambda theta: jnp.where(found, theta, jnp.nan), solution.maximiser
        )

    def log_prob(self, x: Array, natural: PyTree) -> Array:
        """log p(x; θ) of one observation, in nats, scalar; −inf off the support."""
        base = self.log_base_measure(x)
        statistics = self.sufficient_statistics(x)
        value = inner(statistics, natural) - self.log_partition(natural) + base
        return jnp.where(jnp.isneginf(base), -jnp.inf, value)

    def kl_divergence(self, natural_p: PyTree, natural_q: PyTree) -> Array:
        """KL(p, q) = B_ψ(θ_q, θ_p) in nats, scalar, without cancellation.

        Where natural parameters are infinite (a probability or a rate of 0) and ψ* has
        a closed form, the value comes from means, B_ψ*(μ_p, μ_q): +inf where p gives a
        positive probability to what q rules out. The derivatives are then the limits of
        ⟨μ_q − μ_p, dθ_q⟩ + ⟨∇²ψ(θ_p) (θ_p − θ_q), dθ_p⟩: 0 by an infinite entry of θ_p,
        ±inf by a finite entry of θ_p where that of θ_q is infinite.

        References:
            Telgarsky and Dasgupta (2012), Theorem 4.6.
        """
        flat_p, unravel = ravel_pytree(natural_p)
        flat_q, _ = ravel_pytree(natural_q)
        psi = lambda theta: self.log_partition(unravel(theta))
        inside = jnp.all(jnp.isfinite(flat_p)) & jnp.all(jnp.isfinite(flat_q))
        # ±1 in the place of ±inf lies in the domain, too.
        p, q = (jnp.where(jnp.isinf(t), jnp.sign(t), t) for t in (flat_p, flat_q))
        value = bregman_remainder(psi, p, q - p)
        model = self.cluster_model()
        if not isinstance(model, BregmanModel):
            return jnp.where(inside, value, jnp.nan)
        # Derivatives by θ come from slopes: through the means they would be 0 · inf.
        fixed_p, fixed_q = jax.lax.stop_gradient((flat_p, flat_q))
        mean_p, mean_q = (self.natural_to_mean(unravel(t)) for t in (fixed_p, fixed_q))
        # ψ* may have an infinite slope at a mean whose slope by a dispersion is 0.
        mean_p = finite_cotangents(mean_p, jnp.ones_like(mean_p, bool))
        by_means = model.function.remainder(mean_q, mean_p - mean_q, x=mean_p)
        by_means = jnp.where(jnp.all(flat_p == flat_q), 0, by_means)
        mean_of = lambda theta: ravel_pytree(self.natural_to_mean(unravel(theta)))[0]
        slope_p = _slope_by_first(mean_of, fixed_p, fixed_q)
        slope_q = ravel_pytree(mean_q)[0] - ravel_pytree(mean_p)[0]
        slopes = jax.lax.stop_gradient((slope_p, slope_q))
        return jnp.where(inside, value, _sloped(by_means, (flat_p, flat_q), slopes))

    def check(self, x: DataLike, *, key: ArrayLike = 0) -> CheckReport:
        """Examine the family and its fit to data: diagnostics for a ψ of your own.

        Tests whether ψ is finite, smooth and convex around its start, and a sum over
        coordinates if it claims to be; which directions of θ are overcomplete; whether
        T fits θ; whether the rows lie inside the mean domain or need smoothing; whether
        the conjugate is found and inverts ∇ψ; and whether ψ keeps its digits in
        float32. The tests take a few hundred random points and some seconds, mostly to
        compile. A report without failures is evidence, not proof.

        Args:
            x: Data, a row a point.
            key: A JAX key, or an integer, for the random points.

        Returns:
            The report: `print` it, or ask `.ok` and `.findings`.

        Raises:
            TypeError: Under `jit` or another transformation.

        Examples:
            >>> import bregjax as bj
            >>> report = bj.Poisson().check([[0.0], [3.0], [7.0]])
            >>> print(report.ok, report.rows_by_code)
            True {'CONVERGED': 2, 'BOUNDARY': 1}
        """
        return check_family(self, x, key=key)

    # --- Clusters ------------------------------------------------------------------

    @override
    def leaf_statistics(self, x: Array) -> PyTree:
        """Statistics of rows as the family's cluster model holds them, `[m, ...]`.

        The sufficient statistics, or a form of them that loses fewer digits (Gaussians:
        mean and centered covariance).
        """
        return jax.vmap(self.sufficient_statistics)(x)

    @override
    def cluster_model(self) -> ClusterModel:
        """Clusters of cost Σ w B_ψ*(τ, mean of τ): the log-likelihood lost, in nats."""
        return NaturalModel(self)

    def cells(self) -> CellForm | None:
        """The form in which each cell has a weight; None if rows must be whole."""
        return None

    @override
    def density_parameters(self, clusters: PyTree) -> PyTree:
        """Natural parameters θ_k and ψ(θ_k), `[k, ...]` and `[k]`."""
        return naturals_of(self, clusters)

    @override
    def log_densities(self, row: Array, parameters: PyTree) -> Array:
        """⟨T(x), θ_k⟩ − ψ(θ_k) + log h(x), `[k]`, in nats."""
        return by_natural(self, row, parameters)

    @override
    def smoothing_of(self, amount: float) -> StatisticMap:
        """Mixing with the mean of `natural_init`, of share `amount` below 1."""
        if not amount < 1:
            raise ValueError(
                f"`amount` for {type(self).__name__} is a share, below 1; got "
                f"{amount:g}. Take 0.01, say."
            )
        with jax.enable_x64(True):
            center = jax.tree.map(np.asarray, self.mean_inside())
        return mixing(center, amount)

    @override
    def result_of_mean(self, mean: PyTree) -> int:
        if jax.tree.structure(mean) != jax.tree.structure(self.natural_init):
            return int(Result.CONVERGED)
        model = self.cluster_model()
        if not model.solves:
            return int(_conjugate(self, mean).result)
        one = jax.tree.map(lambda leaf: leaf[None], mean)
        state: Any = model.leaves(one, jnp.ones(1))
        codes = np.ravel(state.result).tolist()
        worst = [code for code in (Result.OUTSIDE, Result.BOUNDARY) if code in codes]
        return int(worst[0] if worst else max(codes))

    @override
    def mean_inside(self) -> PyTree:
        return self.natural_to_mean(self.natural_init)

    @override
    def steepness(self, mean: PyTree) -> PyTree:
        """The natural parameter, infinite or large where it runs off."""
        return _conjugate(self, mean).maximiser

    @property
    @override
    def smoothing_hint(self) -> str:
        return (
            "Pass smoothing=mixing(center, amount) with a mean parameter `center` "
            "inside the mean domain, such as family.natural_to_mean(natural_init); or "
            "adding(direction, amount) where means may grow without end that way, such "
            "as adding((0.0, 1.0), h**2) of bandwidth h for T(x) = (x, x²)"
        )


@jax.jit
def _conjugate(family: "Family", mean: PyTree) -> ConjugateSolution:
    return family.conjugate(mean)


def inner(statistics: PyTree, natural: PyTree) -> Array:
    """⟨T, θ⟩ over a pytree, with 0 · ±inf = 0."""

    def product(t, theta):
        # Only infinite θ are masked: a finite θ is the derivative by T, also at T = 0.
        idle = (t == 0) & jnp.isinf(theta)
        return jnp.sum(t * jnp.where(idle, 0, theta))

    products = jax.tree.map(product, statistics, natural)
    return jax.tree.reduce(jnp.add, products)


def _slope_by_first(
    mean_of: Callable[[Array], Array], theta: Array, other: Array
) -> Array:
    """∇²ψ(θ) (θ − θ′), with 0 in the infinite coordinates of θ, and other limits."""
    fixed = jnp.isinf(theta)
    way = jnp.where(fixed, 0, theta - other)
    infinite = jnp.isinf(way)
    along = lambda v: jax.jvp(mean_of, (theta,), (v,))[1]
    steep = along(jnp.where(infinite, jnp.sign(way), 0))
    slope = along(jnp.where(infinite, 0, way))
    limit = jnp.where(steep > 0, jnp.inf, -jnp.inf)
    slope = jnp.where(steep == 0, slope, limit)
    return jnp.where(fixed, 0, slope)


@jax.custom_jvp
def _sloped(value: Array, at: PyTree, slopes: PyTree) -> Array:
    """Return the value, with the derivatives `slopes` by `at` added to its own."""
    del at, slopes
    return value


@_sloped.defjvp
def _sloped_jvp(primals, tangents):
    value, _, slopes = primals
    d_value, d_at, _ = tangents
    change = jax.tree.map(lambda s, d: jnp.sum(scale_tangent(s, d)), slopes, d_at)
    return value, jax.tree.reduce(jnp.add, change, d_value)


def _log_partition(natural: PyTree, family: Family) -> Array:
    """ψ(θ) with the family as parameters, so that all solves share one function."""
    return family.log_partition(natural)
