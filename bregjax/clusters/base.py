"""Clusters as a commutative monoid with a cost: all that an engine knows of them."""

import abc
import math

import jax
import jax.numpy as jnp

from bregjax._typing import Array, PyTree
from bregjax.clusters.host_model import HostModel
from bregjax.clusters.merges import Merges
from bregjax.clusters.screens import CostScreen, Screen

__all__ = ["ClusterModel"]


class ClusterModel(abc.ABC):
    """What a cluster is, how two unite, and what that costs.

    A state is a pytree of arrays with one leading cluster axis `[k, ...]`; only the
    model looks inside. All operations on two clusters broadcast over leading axes, so
    that `merge_cost(a[:, None], b[None, :])` gives all pairs.

    A model gives the additive part of a union (`pool`), what follows from it and is
    worth keeping (`settle`: a log-determinant, the solution of a conjugate), and the
    cost of a merge (`cost`). `union` and `merge_cost` are made of these; who has many
    unions at hand pools first and settles all at once.

    Contract, up to rounding: `union` is commutative and associative, `merge_cost` is
    symmetric, at least 0, and 0 between equal clusters (Proposition 3.8 with a
    relatively differentiable function).
    """

    @abc.abstractmethod
    def leaves(self, statistics: PyTree, weights: Array) -> PyTree:
        """States `[m]` of single points from statistics `[m, ...]`, weights `[m]`."""

    @abc.abstractmethod
    def pool(self, a: PyTree, b: PyTree) -> PyTree:
        """State of the union of disjoint clusters, to be settled."""

    def settle(self, state: PyTree) -> PyTree:
        """Fill in what follows from the additive part; nothing by default."""
        return state

    def pool_along(self, merges: Merges, leaves: PyTree) -> PyTree:
        """States of all nodes of a tree, to be settled: leaves first, then unions.

        Merge by merge, here: in reverse mode that keeps a copy of all states for each
        merge. A model whose state adds up or averages says so by `Merges.sum` and
        `Merges.average`, whose derivatives take memory for the nodes alone.

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

    def pair_size(self, state: PyTree) -> int:
        """Numbers that the cost of one pair works on; engines size tiles by it."""
        leaves = jax.tree.leaves(state)
        return sum(math.prod(leaf.shape[1:]) for leaf in leaves)

    @abc.abstractmethod
    def result(self, state: PyTree) -> Array:
        """A `Result` code a cluster `[k]`: CONVERGED where its cost is finite."""

    @property
    def solves(self) -> bool:
        """Whether `settle` solves for what it fills in, see `host`.

        Such a model is quick where values are known and the program of a solve is not
        made part of another: with pooling and costs under `jit`, and solves between.
        """
        return False

    @property
    def reducible(self) -> bool:
        """Whether Δ(a ∪ b, c) ≥ min(Δ(a, c), Δ(b, c)) where a, b are mutually nearest.

        Then merging mutually nearest pairs in any order is greedy. Of Bregman costs
        those of squared distances alone are known to be so; claim it with a proof.
        """
        return False

    @property
    def distributes(self) -> bool:
        """Whether several devices may compute costs at the same time."""
        return True

    @property
    def screened(self) -> bool:
        """Whether the bounds of `screen` take much less time than costs."""
        return True

    def screen(self, leaves: PyTree) -> Screen:
        """Lower bounds of the costs between these leaves and unions of them.

        The cost itself, where nothing cheaper is known; a matrix product, a marginal or
        a table make an engine fast. Works under `jit`.
        """
        del leaves
        return CostScreen(self)

    def host(self) -> HostModel | None:
        """The same from outside of compiled programs, where costs are solved for.

        None where compiled programs do. To be called in the precision of the work.
        """
        return None

    def cross_cost(self, a: PyTree, b: PyTree) -> Array:
        """Merge costs of all pairs, `[k, m]` from states `[k]` and `[m]`.

        A faster kernel than `merge_cost` may replace this; engines search with it,
        while the costs that are reported come from `merge_cost`.
        """
        rows = jax.tree.map(lambda leaf: leaf[:, None], a)
        columns = jax.tree.map(lambda leaf: leaf[None, :], b)
        return self.merge_cost(rows, columns)

    def cross_noise(self, state: PyTree) -> Array:
        """What rounding adds to `cross_cost` for each of its clusters, about, `[k]`.

        0 where that is `merge_cost`.
        """
        return jnp.zeros(jax.tree.leaves(state)[0].shape[0])


def _with_room(leaves: Array, merges: Merges) -> Array:
    """Rows for the unions, behind those of the leaves."""
    room = jnp.broadcast_to(leaves[:1], (len(merges.children), *leaves.shape[1:]))
    return jnp.concatenate([leaves, room])
