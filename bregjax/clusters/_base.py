"""The protocol of cluster models: states, their unions, and what unions cost."""

import abc
import math

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._typing import Array, PyTree
from bregjax.clusters._host_model import HostModel
from bregjax.clusters._merges import Merges
from bregjax.clusters._screens import CostScreen, Screen

__all__ = ["ClusterModel"]

# What a point that is not in a cluster weighs there, as a share of the cluster. At half
# or double nothing changes: such a share of a number is below its rounding.
_NEARLY_NO_WEIGHT = 1e-30


class ClusterModel(abc.ABC):
    """A cluster model: states of clusters, their unions, and the costs of merges.

    A state is a pytree of arrays with one leading cluster axis `[k, ...]`; only the
    model looks inside. All operations on two clusters broadcast over leading axes, so
    that `merge_cost(a[:, None], b[None, :])` gives all pairs.

    A model gives the additive part of a union (`pool`), what follows from that part and
    is worth keeping (`settle`: a log-determinant, the solution of a conjugate), and the
    cost of a merge (`cost`). `union` and `merge_cost` are made of these three; code
    that has many unions at hand pools each and settles all of them at once.

    Contract, up to rounding: `union` is commutative and associative; `merge_cost` is
    symmetric, at least 0, and 0 between equal clusters (Proposition 3.8 with a
    relatively differentiable function).

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import bregjax as bj
        >>> model = bj.SphericalGaussian().cluster_model()
        >>> states = model.leaves(jnp.array([[0.0], [2.0], [3.0]]), jnp.ones(3))
        >>> print(jax.jit(model.cross_cost)(states, states))
        [[0.   1.   2.25]
         [1.   0.   0.25]
         [2.25 0.25 0.  ]]
    """

    @abc.abstractmethod
    def leaves(self, statistics: PyTree, weights: Array) -> PyTree:
        """States `[m]` of points, from statistics `[m, ...]` and weights `[m]`."""

    @abc.abstractmethod
    def pool(self, a: PyTree, b: PyTree) -> PyTree:
        """State of the union of disjoint clusters, still to be settled."""

    def settle(self, state: PyTree) -> PyTree:
        """Fill in what follows from the additive part of a state; default: nothing."""
        return state

    def pool_along(self, merges: Merges, leaves: PyTree) -> PyTree:
        """States of all nodes of a tree, still to be settled: leaves, then unions.

        This default pools merge by merge: in reverse mode it keeps a copy of all states
        for each merge. A model whose states are sums or averages overrides it with
        `Merges.sum` and `Merges.average`, whose derivatives take memory for the nodes
        alone.

        Args:
            merges: The tree.
            leaves: Settled states `[L, ...]`.

        Returns:
            States `[L + t, ...]`.
        """
        nodes = jax.tree.map(lambda leaf: _with_room(leaf, merges), leaves)

        def step(nodes, merge):
            union, pair = merge
            part = lambda node: jax.tree.map(lambda array: array[node], nodes)
            pooled = self.pool(part(pair[0]), part(pair[1]))
            put = lambda array, value: array.at[union].set(value)
            return jax.tree.map(put, nodes, pooled), None

        return jax.lax.scan(step, nodes, (merges.unions, merges.children))[0]

    @abc.abstractmethod
    def cost(self, a: PyTree, b: PyTree, union: PyTree) -> Array:
        """Merge cost Δ(a, b) ≥ 0 given the settled union, without cancellation."""

    def union(self, a: PyTree, b: PyTree) -> PyTree:
        """State of the union of disjoint clusters."""
        return self.settle(self.pool(a, b))

    def merge_cost(self, a: PyTree, b: PyTree) -> Array:
        """Merge cost Δ(a, b) ≥ 0 in a form that does not cancel."""
        return self.cost(a, b, self.union(a, b))

    def search_cost(self, a: PyTree, b: PyTree) -> Array:
        """What engines compare pairs by: the merge cost, unless a model breaks ties."""
        return self.merge_cost(a, b)

    def pair_size(self, state: PyTree) -> int:
        """How many numbers the cost of one pair works on, to size tiles by."""
        leaves = jax.tree.leaves(state)
        return sum(math.prod(leaf.shape[1:]) for leaf in leaves)

    @abc.abstractmethod
    def result(self, state: PyTree) -> Array:
        """Codes of `Result`, `[k]`: CONVERGED where the cost of a cluster is finite."""

    @property
    def solves(self) -> bool:
        """Whether `settle` runs an iterative solver; see `host`.

        Compiling a solver into a larger program is slow. Such a model is quick where
        `settle` is called with known values, between compiled pooling and costs.
        """
        return False

    @property
    def reducible(self) -> bool:
        """Whether Δ(a ∪ b, c) ≥ min(Δ(a, c), Δ(b, c)) where a, b are mutually nearest.

        Then merging mutually nearest pairs in any order gives the greedy tree. Of
        Bregman costs only squared distances are known to be reducible; return True only
        with a proof.
        """
        return False

    @property
    def telescopes(self) -> bool:
        """Whether the costs of any tree add up to that of joining all at once.

        True of Bregman costs; a model whose costs are scaled by pair says False.
        """
        return True

    @property
    def distributes(self) -> bool:
        """Whether several devices may compute costs at the same time."""
        return True

    @property
    def screened(self) -> bool:
        """Whether the bounds of `screen` are much cheaper than costs."""
        return True

    def screen(self, leaves: PyTree) -> Screen:
        """Lower bounds of the costs between these leaves and unions of them.

        The cost itself, unless a model knows cheaper bounds, such as a matrix product,
        a marginal or a table: these make an engine fast. Works under `jit`.
        """
        del leaves
        return CostScreen(self)

    def host(self) -> HostModel | None:
        """This model for calls from outside of compiled code, if costs need a solver.

        None where compiled programs do well. Call `host` in the precision of the work.
        """
        return None

    def cross_cost(self, a: PyTree, b: PyTree) -> Array:
        """Merge costs of all pairs, `[k, m]` from states `[k]` and `[m]`.

        Engines search with these; the costs that they report come from `merge_cost`. A
        model may override this with a kernel that is faster and less exact.
        """
        rows = jax.tree.map(lambda leaf: leaf[:, None], a)
        columns = jax.tree.map(lambda leaf: leaf[None, :], b)
        return self.merge_cost(rows, columns)

    def assignment_cost(self, points: PyTree, clusters: PyTree) -> Array:
        """Costs of points under clusters that stay as they are, `[r, k]` from `[k]`.

            lim Δ(i, n · C) = w_i B_f(τ_i, τ_C)  as n grows

        with n · C the union of n clusters like C: what point i loses if it takes the
        distribution of C in the place of its own; +inf where C rules i out. This
        default takes n = 1/√eps, and is good to √eps if `cost` does not cancel; in the
        place of +inf it has a number that is of the order of log n. A model with a
        formula overrides it.

        Args:
            points: Settled states `[r]`.
            clusters: Settled states `[k]`.
        """
        double = lambda _, state: self.pool(state, state)
        doublings = jnp.finfo(jnp.result_type(float)).nmant // 2
        many = self.settle(jax.lax.fori_loop(0, doublings, double, clusters))
        rows = jax.tree.map(lambda leaf: leaf[:, None], points)
        columns = jax.tree.map(lambda leaf: leaf[None, :], many)
        return self.merge_cost(rows, columns)

    def assignment_size(self, clusters: PyTree) -> int:
        """How many numbers `assignment_cost` works on for each point."""
        return jax.tree.leaves(clusters)[0].shape[0] * self.pair_size(clusters)

    def unions(self, statistics: PyTree, weights: Array) -> PyTree:
        """Settled states `[k]` of clusters that share points between them.

        This default pools m leaves for each cluster. A model that holds averages of
        statistics overrides it with `leaves_of_averages`.

        Args:
            statistics: Of the points, `[m, ...]`; see `leaves`.
            weights: Of the points in each cluster, `[k, m]`, at least 0; a positive one
                in each cluster.
        """

        def pooled(weights: Array) -> PyTree:
            # An average over a weight of 0 would be NaN.
            floor = _NEARLY_NO_WEIGHT * jnp.sum(weights)
            state = self.leaves(statistics, jnp.maximum(weights, floor))
            return jax.tree.map(lambda leaf: leaf[0], _pool_all(self, state))

        return self.settle(jax.lax.map(pooled, weights))

    def found_costs(
        self, costs: np.ndarray, children: np.ndarray, leaves: PyTree
    ) -> np.ndarray:
        """The costs of a tree, `[m − 1]`, from the `search_cost` of its merges.

        The same, unless a model breaks ties; NaN where the cost is lost in that.

        Args:
            costs: As an engine found them.
            children: The merges, `[m − 1, 2]`.
            leaves: States of the points.
        """
        del children, leaves
        return costs

    def cross_noise(self, state: PyTree) -> Array:
        """Rounding that each cluster adds to its `cross_cost`, about, in nats, `[k]`.

        0 where `cross_cost` is `merge_cost`.
        """
        return jnp.zeros(jax.tree.leaves(state)[0].shape[0])


def _pool_all(model: ClusterModel, state: PyTree) -> PyTree:
    """The union of all clusters `[m]`, `[1]`: each with the next, and again."""
    count = jax.tree.leaves(state)[0].shape[0]
    while count > 1:
        half = count // 2
        part = lambda where, state=state: jax.tree.map(lambda a: a[where], state)
        pooled = model.pool(part(slice(0, half)), part(slice(half, 2 * half)))
        rest = part(slice(2 * half, None))
        join = lambda a, b: jnp.concatenate([a, b])
        state = jax.tree.map(join, pooled, rest)
        count -= half
    return state


def _with_room(leaves: Array, merges: Merges) -> Array:
    """Append a row for each union to the rows of the leaves."""
    room = jnp.broadcast_to(leaves[:1], (len(merges.children), *leaves.shape[1:]))
    return jnp.concatenate([leaves, room])
