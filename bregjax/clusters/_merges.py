"""The merges of a binary tree: sums and averages from the leaves up to the root.

The values of all nodes solve a triangular linear system, one equation a node. Their
derivatives solve the same system (forward mode) or its transpose, from the root down
(reverse mode): memory for one value a node, not for one copy of all nodes a merge.

Example. Leaves 0, 1, 2 of weights 1, 1, 2 and values y = 0, 0, 4; the merges (0, 1) and
(2, 3) make nodes 3 and 4. Sums of weights are 1, 1, 2, 2, 4, and averages 0, 0, 4, 0,
2. Let a loss have the slopes log y in these averages, as entropies do: −∞, −∞, 1.39,
−∞, 0.69. By weight 0 the loss changes by −∞ · 0 along node 3, whose parts agree, and by
0.69 · (0 − 2) / 4 = −0.35 along node 4. Plain rules make −∞ · 0 a NaN. Where an entry
is declared rigid (`Merges.average`) that term is 0: an average of zeros is 0 whatever
the weights, and the derivatives by the three weights are −0.35, −0.35, 0.35.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._numerics import finite_cotangents
from bregjax._pytree import register_pytree
from bregjax._typing import Array, PyTree

__all__ = ["Merges"]


@register_pytree
@dataclass(frozen=True)
class Merges:
    """The merges of a tree, bottom up.

    An array over nodes has a row for each node: L leaves first, then t unions in the
    order of their merges. If only the first m rows of leaves belong to the tree, the
    others are padding, and unions are written from row m on.

    Attributes:
        children: The two nodes that each merge unites, leaves or earlier unions,
            `[t, 2]`.
        first: The number of the first union, which is the number m of leaves.

    Examples:
        >>> merges = Merges(jnp.array([[0, 1], [2, 3]]), 3)
        >>> weight = merges.sum(jnp.array([1.0, 1.0, 2.0]))
        >>> print(weight, merges.average(weight, jnp.array([0.0, 0.0, 4.0])))
        [1. 1. 2. 2. 4.] [0. 0. 4. 0. 2.]
    """

    children: Array | np.ndarray
    first: Array | int

    @property
    def unions(self) -> Array:
        """The numbers of the nodes that the merges make, `[t]`."""
        steps = jnp.arange(self.children.shape[0], dtype=jnp.int32)
        return jnp.asarray(self.first, jnp.int32) + steps

    def parts(self, nodes: PyTree) -> tuple[PyTree, PyTree]:
        """Both parts of each merge, `[t, ...]` each, from nodes `[L + t, ...]`."""
        left, right = self.children[:, 0], self.children[:, 1]
        return (
            jax.tree.map(lambda array: array[left], nodes),
            jax.tree.map(lambda array: array[right], nodes),
        )

    def sum(self, leaves: Array) -> Array:
        """Sums over the leaves of each node, `[L + t, ...]` from `[L, ...]`."""
        return _solve(self, _Sums(), self._placed(leaves, None))

    def average(
        self,
        weights: Array,
        leaves: Array,
        *,
        added: Array | None = None,
        rigid: Callable[[Array], Array] | None = None,
    ) -> Array:
        """Weighted averages over the leaves of each node, plus what merges add.

        With p, q the shares of the parts a, b in the weight of their union t,

            y_t = p y_a + q y_b + z_t

        computed from the heavier part, so that the average of equal parts is exactly
        their value, and a light part leaves little rounding of its large value behind.

        Args:
            weights: Weights of all nodes, `[L + t]`, as `sum` gives them; or with the
                first of the axes of y.
            leaves: y of the leaves, `[L, ...]`.
            added: z, `[t, ...]`; 0 if None.
            rigid: Maps y of all nodes to booleans of the same shape: whether the
                cotangent of an entry may be infinite. A rigid entry whose parts agree
                has derivative 0 by the weights, not ∞ · 0; see the module's example.

        Returns:
            y of all nodes, `[L + t, ...]`.
        """
        w_a, w_b = self.parts(weights)
        axes = leaves.ndim - weights.ndim
        p, q = (_expand(w / (w_a + w_b), axes) for w in (w_a, w_b))
        right = self._placed(leaves, added)
        still = None
        if rigid is not None and self.children.shape[0]:
            fixed = jax.lax.stop_gradient((p, q, right))
            nodes = _Averages(*fixed[:2]).upwards(self, fixed[2])
            (a, b), (stiff, _) = self.parts(nodes), self.parts(rigid(nodes))
            still = stiff & (a == b)
        return _solve(self, _Averages(p, q, still), right)

    def _placed(self, leaves: Array, added: Array | None) -> Array:
        """The right-hand side: values of leaves, what merges add, `[L + t, ...]`."""
        extra = self.children.shape[0]
        places = jnp.arange(leaves.shape[0], dtype=jnp.int32)
        is_leaf = places < jnp.asarray(self.first, jnp.int32)
        is_leaf = _expand(is_leaf, leaves.ndim - 1)
        room = jnp.zeros((extra, *leaves.shape[1:]), leaves.dtype)
        own = jnp.concatenate([jnp.where(is_leaf, leaves, 0), room])
        return own if added is None else own.at[self.unions].set(added)


class _Sums:
    """The rule that a union is the sum of its parts."""

    def of(self, a: Array, b: Array) -> Array:
        return a + b

    def upwards(self, merges: Merges, own: Array) -> Array:
        return _upwards(merges, own, lambda t, a, b: a + b)

    def downwards(self, merges: Merges, own: Array) -> Array:
        return _downwards(merges, own, lambda t, g: (g, g))


@dataclass(frozen=True)
class _Averages:
    """The rule that a union is the average of its parts, of shares p and q `[t, ...]`.

    Attributes:
        p: Shares of the first parts.
        q: Shares of the second parts.
        still: Whether an entry is rigid and its parts agree; q then has derivative 0.
    """

    p: Array
    q: Array
    still: Array | None = None

    def of(self, a: Array, b: Array) -> Array:
        # Without p, so that the derivative by q is b − a, in which nothing cancels.
        change = self.q * (b - a)
        if self.still is not None:
            change = finite_cotangents(change, self.still)
        return a + change

    def upwards(self, merges: Merges, own: Array) -> Array:
        def average(t, a, b):
            p, q = self.p[t], self.q[t]
            return jnp.where(p >= q, a + q * (b - a), b + p * (a - b))

        return _upwards(merges, own, average)

    def downwards(self, merges: Merges, own: Array) -> Array:
        return _downwards(merges, own, lambda t, g: (self.p[t] * g, self.q[t] * g))


def _solve(merges: Merges, rule: _Sums | _Averages, own: Array) -> Array:
    """Solve y_t = rule(y_a, y_b) + own_t at unions and y = own at leaves for y."""
    if merges.children.shape[0] == 0:
        return own

    def matvec(nodes):
        return nodes.at[merges.unions].add(-rule.of(*merges.parts(nodes)))

    return jax.lax.custom_linear_solve(
        matvec,
        own,
        solve=lambda _, right: rule.upwards(merges, right),
        transpose_solve=lambda _, right: rule.downwards(merges, right),
    )


def _upwards(merges: Merges, own: Array, combine: Callable) -> Array:
    def step(t, nodes):
        pair = merges.children[t]
        return nodes.at[merges.first + t].add(
            combine(t, nodes[pair[0]], nodes[pair[1]])
        )

    return jax.lax.fori_loop(0, merges.children.shape[0], step, own)


def _downwards(merges: Merges, own: Array, divide: Callable) -> Array:
    last = merges.children.shape[0] - 1

    def step(k, nodes):
        t = last - k
        pair = merges.children[t]
        shares = divide(t, nodes[merges.first + t])
        # Both rows in one update: XLA copies all nodes between two updates.
        return nodes.at[pair].add(jnp.stack(shares))

    return jax.lax.fori_loop(0, last + 1, step, own)


def _expand(x: Array, axes: int) -> Array:
    return x.reshape(x.shape + (1,) * axes)
