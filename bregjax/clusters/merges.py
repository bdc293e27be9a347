"""A binary tree as its merges: what is summed and averaged from its leaves to its root.

Both are linear in the leaves, by the triangular system that the tree is. Derivatives
are solutions of the same system (forward) or of its transpose, which goes from the root
down (reverse): they take memory for the nodes, and not for each step of the way.
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

    Arrays over nodes have a row each, leaves first and then unions in their order. Of L
    rows of leaves the first m may be the tree's and the rest padding; unions follow
    from row m on.

    Attributes:
        children: The two nodes of each merge, `[t, 2]`, made before it.
        first: The number of the first union: the number m of leaves.
    """

    children: Array | np.ndarray
    first: Array | int

    @property
    def unions(self) -> Array:
        """The numbers of the nodes that the merges make, `[t]`."""
        steps = jnp.arange(self.children.shape[0], dtype=jnp.int32)
        return jnp.asarray(self.first, jnp.int32) + steps

    def parts(self, nodes: PyTree) -> tuple[PyTree, PyTree]:
        """The two parts of each merge, `[t, ...]` each, from nodes `[L + t, ...]`."""
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
        """Weighted averages over the leaves of each node, and of what merges add.

        With p, q the shares of the parts in the weight of their union,

            y_t = p y_a + q y_b + z_t

        computed from the heavier part, so that equal parts have exactly their own
        value, and a light one leaves no rounding of its large value behind.

        Args:
            weights: Of all nodes, `[L + t]`, see `sum`.
            leaves: y of the leaves, `[L, ...]`.
            added: z, `[t, ...]`; 0 if None.
            rigid: From y of all nodes to where its cotangents may be infinite,
                booleans of its shape. The weights have no part in the derivative of a
                rigid entry whose parts agree: infinity times a difference of 0 is 0.

        Returns:
            y of all nodes, `[L + t, ...]`.
        """
        w_a, w_b = self.parts(weights)
        axes = leaves.ndim - 1
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
        """What each node has of its own, `[L + t, ...]`."""
        extra = self.children.shape[0]
        places = jnp.arange(leaves.shape[0], dtype=jnp.int32)
        is_leaf = places < jnp.asarray(self.first, jnp.int32)
        is_leaf = _expand(is_leaf, leaves.ndim - 1)
        room = jnp.zeros((extra, *leaves.shape[1:]), leaves.dtype)
        own = jnp.concatenate([jnp.where(is_leaf, leaves, 0), room])
        return own if added is None else own.at[self.unions].set(added)


class _Sums:
    """Unions are the sums of their parts."""

    def of(self, a: Array, b: Array) -> Array:
        return a + b

    def upwards(self, merges: Merges, own: Array) -> Array:
        return _upwards(merges, own, lambda t, a, b: a + b)

    def downwards(self, merges: Merges, own: Array) -> Array:
        return _downwards(merges, own, lambda t, g: (g, g))


@dataclass(frozen=True)
class _Averages:
    """Unions are averages of their parts, of shares p and q `[t, ...]`.

    Where `still`, parts agree and cotangents may be infinite: q has no part in these.
    """

    p: Array
    q: Array
    still: Array | None = None

    def of(self, a: Array, b: Array) -> Array:
        # By q alone, so that its derivative is b − a and has no part that cancels.
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
    """y with y_t = rule(y_a, y_b) + own_t at unions, y = own at leaves."""
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
        # Both rows at once: between two updates XLA copies all nodes, at every step.
        return nodes.at[pair].add(jnp.stack(shares))

    return jax.lax.fori_loop(0, last + 1, step, own)


def _expand(x: Array, axes: int) -> Array:
    return x.reshape(x.shape + (1,) * axes)
