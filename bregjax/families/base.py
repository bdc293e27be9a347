"""Exponential families: what is given, and all that follows from it."""

import abc
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from typing_extensions import override

from bregjax._checks import is_concrete
from bregjax._data_model import DataModel
from bregjax._numerics import finite_cotangents, scale_tangent
from bregjax._result import Result
from bregjax._typing import Array, ArrayLike, DataLike, PyTree
from bregjax.clusters.base import ClusterModel
from bregjax.clusters.bregman_model import BregmanModel
from bregjax.clusters.natural_model import NaturalModel
from bregjax.convex import ConjugateSolution, bregman_remainder, conjugate
from bregjax.families._densities import by_natural, naturals_of
from bregjax.families.check import CheckReport, check_family

__all__ = ["Family"]


class Family(DataModel):
    """An exponential family p(x; θ) = h(x) exp(⟨T(x), θ⟩ − ψ(θ)).

    A subclass gives ψ (`log_partition`), T (`sufficient_statistics`) and a natural
    parameter inside dom ψ (`natural_init`); the rest follows. What it overrides beyond
    these is a closed form of the same thing, never another path to it.

    Natural parameters θ and mean parameters μ are pytrees of one structure. Methods act
    on one parameter; batches go through `jax.vmap`. Families are pytrees: the leaves
    are their own parameters (a variance, a dispersion) and differentiate.
    """

    # --- What a family gives -------------------------------------------------------

    @property
    def separable(self) -> bool:
        """Whether ψ is a sum over the coordinates of θ."""
        return False

    @property
    @override
    def columnwise(self) -> bool:
        """Whether coordinates are independent, and each is of a column of its own."""
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
        """log h(x) of one observation, scalar; −inf off the support.

        0 unless the family says otherwise.
        """
        del x
        return jnp.zeros(())

    # --- What follows --------------------------------------------------------------

    def natural_to_mean(self, natural: PyTree) -> PyTree:
        """μ = ∇ψ(θ) = E T(x), of the structure of θ."""
        return jax.grad(self.log_partition)(natural)

    def conjugate(
        self, mean: PyTree, *, start: PyTree | None = None
    ) -> ConjugateSolution:
        """ψ*(μ) = sup ⟨μ, θ⟩ − ψ(θ): the value, the natural parameter, a code.

        Args:
            mean: Mean parameter μ.
            start: Natural parameter to start from, `natural_init` by default.

        Returns:
            The solution. `maximiser` is the natural parameter of mean μ. On the
            boundary of the mean domain the value is the limit (+inf for a Gaussian of
            singular covariance) and the code `Result.BOUNDARY`; beyond it the value
            is +inf and the code `Result.OUTSIDE`.
        """
        return self.numerical_conjugate(mean, start=start)

    def natural_guess(self, means: np.ndarray) -> np.ndarray | None:
        """Natural parameters where solves for flat means `[..., n]` may start.

        Anything near θ saves steps, and nothing else depends on it. None, as here, if
        the family knows no better than `natural_init` and the clusters at hand.
        """
        del means

    @property
    def solves(self) -> bool:
        """Whether `conjugate` is the solver, for want of a closed form."""
        return type(self).conjugate is Family.conjugate

    def numerical_conjugate(
        self, mean: PyTree, *, start: PyTree | None = None
    ) -> ConjugateSolution:
        """ψ*(μ) from ψ alone, by the solver, whatever closed form the family has."""
        solve = conjugate(
            _log_partition, self.natural_init, params=self, separable=self.separable
        )
        return solve(mean, start=start)

    def mean_to_natural(self, mean: PyTree) -> PyTree:
        """Natural parameter θ of mean μ: the maximiser of ⟨μ, θ⟩ − ψ(θ).

        On the boundary of the mean domain a family with a closed form gives the limit,
        with infinite entries (a Poisson mean of 0: θ = −inf), and `log_prob` takes it.

        Raises:
            ValueError: If there is no θ, or the solver found none. Under `jit` or
                `vmap` the entries are NaN instead.
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

        By means, B_ψ*(μ_p, μ_q), where one has infinite natural parameters (a
        probability of 0, a rate of 0) and ψ* has a closed form: +inf where p is
        possible and q is not. There the derivatives are the limits of
        ⟨μ_q − μ_p, dθ_q⟩ + ⟨∇²ψ(θ_p) (θ_p − θ_q), dθ_p⟩: 0 by an infinite θ_p, ±inf by
        the finite θ_p that an infinite θ_q contradicts.

        References:
            Telgarsky and Dasgupta (2012), Theorem 4.6.
        """
        flat_p, unravel = ravel_pytree(natural_p)
        flat_q, _ = ravel_pytree(natural_q)
        psi = lambda theta: self.log_partition(unravel(theta))
        inside = jnp.all(jnp.isfinite(flat_p)) & jnp.all(jnp.isfinite(flat_q))
        # What stands for an infinite number lies in the domain as that does.
        p, q = (jnp.where(jnp.isinf(t), jnp.sign(t), t) for t in (flat_p, flat_q))
        value = bregman_remainder(psi, p, q - p)
        model = self.cluster_model()
        if not isinstance(model, BregmanModel):
            return jnp.where(inside, value, jnp.nan)
        # By θ from the slopes: through means it would be 0 · inf.
        fixed_p, fixed_q = jax.lax.stop_gradient((flat_p, flat_q))
        mean_p, mean_q = (self.natural_to_mean(unravel(t)) for t in (fixed_p, fixed_q))
        # The slope of ψ* may be infinite, that of such a mean in a dispersion is 0.
        mean_p = finite_cotangents(mean_p, jnp.ones_like(mean_p, bool))
        by_means = model.function.remainder(mean_q, mean_p - mean_q, x=mean_p)
        by_means = jnp.where(jnp.all(flat_p == flat_q), 0, by_means)
        mean_of = lambda theta: ravel_pytree(self.natural_to_mean(unravel(theta)))[0]
        slope_p = _slope_by_first(mean_of, fixed_p, fixed_q)
        slope_q = ravel_pytree(mean_q)[0] - ravel_pytree(mean_p)[0]
        slopes = jax.lax.stop_gradient((slope_p, slope_q))
        return jnp.where(inside, value, _sloped(by_means, (flat_p, flat_q), slopes))

    def check(self, x: DataLike, *, key_or_seed: ArrayLike = 0) -> CheckReport:
        """Examine the family, and how it fits data: a doctor for a ψ of your own.

        Looks whether ψ is finite, smooth and convex around its start and a sum over
        coordinates if it claims to be, which directions of θ are overcomplete, whether
        T fits θ, whether the rows lie inside the mean domain or need smoothing, whether
        the conjugate is found and inverts ∇ψ, and whether ψ keeps its digits in
        float32. Random points, a few hundred; seconds, most of them compilation. A
        sound report is evidence, not proof.

        Args:
            x: Data, a row a point.
            key_or_seed: An integer or a JAX key for the random points.

        Returns:
            The report: `print` it, or ask `.ok` and `.findings`.

        Raises:
            TypeError: Under `jit` or another transformation.
        """
        return check_family(self, x, key_or_seed=key_or_seed)

    # --- Clusters ------------------------------------------------------------------

    @override
    def leaf_statistics(self, x: Array) -> PyTree:
        """Statistics of rows as the family's cluster model holds them, `[m, ...]`.

        The sufficient statistics, unless the family has a representation that loses
        fewer digits (Gaussians: mean and centred covariance).
        """
        return jax.vmap(self.sufficient_statistics)(x)

    @override
    def cluster_model(self) -> ClusterModel:
        """Clusters with cost Σ w B_ψ*(τ, mean of τ): the log-likelihood lost."""
        return NaturalModel(self)

    @override
    def density_parameters(self, clusters: PyTree) -> PyTree:
        """Natural parameters and ψ of them."""
        return naturals_of(self, clusters)

    @override
    def log_densities(self, row: Array, parameters: PyTree) -> Array:
        """⟨T(x), θ_k⟩ − ψ(θ_k) + log h(x), `[k]`, in nats."""
        return by_natural(self, row, parameters)

    @property
    @override
    def smoothing_hint(self) -> str:
        """A mean parameter to mix with."""
        return (
            "Pass smoothing=mixing(center, amount) with a mean parameter `center` "
            "inside the mean domain, such as family.natural_to_mean(natural_init)"
        )


def inner(statistics: PyTree, natural: PyTree) -> Array:
    """⟨T, θ⟩ over a pytree, with 0 · ±inf = 0."""

    def product(t, theta):
        # Of finite θ nothing is masked: T = 0 still has the derivative θ.
        idle = (t == 0) & jnp.isinf(theta)
        return jnp.sum(t * jnp.where(idle, 0, theta))

    products = jax.tree.map(product, statistics, natural)
    return sum(jax.tree.leaves(products), start=jnp.zeros(()))


def _slope_by_first(
    mean_of: Callable[[Array], Array], theta: Array, other: Array
) -> Array:
    """∇²ψ(θ) (θ − θ′) with its limits: 0 in the infinite coordinates of θ."""
    gone = jnp.isinf(theta)
    way = jnp.where(gone, 0, theta - other)
    infinite = jnp.isinf(way)
    along = lambda v: jax.jvp(mean_of, (theta,), (v,))[1]
    steep = along(jnp.where(infinite, jnp.sign(way), 0))
    slope = along(jnp.where(infinite, 0, way))
    limit = jnp.where(steep > 0, jnp.inf, -jnp.inf)
    slope = jnp.where(steep == 0, slope, limit)
    return jnp.where(gone, 0, slope)


@jax.custom_jvp
def _sloped(value: Array, at: PyTree, slopes: PyTree) -> Array:
    """The value, with these derivatives in `at` besides its own."""
    del at, slopes
    return value


@_sloped.defjvp
def _sloped_jvp(primals, tangents):
    value, _, slopes = primals
    d_value, d_at, _ = tangents
    change = jax.tree.map(lambda s, d: jnp.sum(scale_tangent(s, d)), slopes, d_at)
    return value, jax.tree.reduce(jnp.add, change, d_value)


def _log_partition(natural: PyTree, family: Family) -> Array:
    """ψ with the family as its parameters: one function for every solve."""
    return family.log_partition(natural)
