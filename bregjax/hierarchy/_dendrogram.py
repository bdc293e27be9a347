"""The tree or forest of an agglomeration, and where it comes from."""

import dataclasses
import importlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import jax
import numpy as np

from bregjax._pytree import in_words, register_pytree
from bregjax._typing import Array, DataLike
from bregjax.hierarchy import _export, _walk
from bregjax.hierarchy._newick import parse_newick
from bregjax.hierarchy._tree_cuts import TreeCuts
from bregjax.hierarchy._tree_exports import TreeExports
from bregjax.hierarchy._tree_nodes import Heights as Heights
from bregjax.hierarchy._tree_nodes import Unit

__all__ = ["Dendrogram", "Heights"]


@register_pytree
@dataclass(frozen=True, eq=False, repr=False)
class Dendrogram(TreeCuts, TreeExports):
    """A binary tree over m leaves, merge by merge, or a forest of some.

    Leaves are nodes 0 … m − 1 and merge t makes node m + t, as in SciPy. A pytree: it
    passes through `jit` and `vmap`. `cut`, `cluster_nodes(num_clusters=…)`, `roots`,
    `joined` and `heights` work on traced trees too and then give JAX arrays; everything
    else needs concrete arrays and gives NumPy's. No method recurses: a chain of 100,000
    leaves is no special case.

    Merge costs are kept as they are. A Bregman tree may invert (a merge may cost less
    than one below it), and no method hides that unless it says "monotone".

    A forest has fewer than m − 1 merges: some leaves never join. The weights say how
    many leaves there are.

    Attributes:
        children: The two nodes of each merge, int32 of shape ``[t, 2]``, t = m − 1 of
            one tree and fewer of a forest; the engines put the smaller number first,
            and under connectivity="chain" the cluster of the earlier rows.
        merge_costs: The cost Δ of each merge in nats, shape ``[t]``.
        weights: The weights of the leaves, shape ``[m]``.
        ward_scale: The variance σ² of a spherical Gaussian family, whose Ward height
            is 2σ√Δ; None for every other family.
        unit: What merge costs are: "nats", or "height" of a tree from elsewhere, whose
            heights are distances, say. Said by `print` and in pictures.

    Examples:
        >>> import bregjax as bj
        >>> bj.agglomerate([[0.0], [1.0], [5.0], [7.0]], family="ward")
        Dendrogram of 4 leaves, weights 1 each
          merge costs  0.25 to 15.12 nats, 16.38 in all, none inverted
        >>> forest = Dendrogram(np.array([[0, 2]]), np.array([1.5]), np.ones(4))
        >>> print(forest.num_trees, forest.roots, forest.cut(3))
        3 [4 1 3] [0 1 0 2]
    """

    children: Array | np.ndarray
    merge_costs: Array | np.ndarray
    weights: Array | np.ndarray
    ward_scale: Array | np.ndarray | float | None = None
    unit: Unit = jax.tree.static(default="nats")

    def __repr__(self) -> str:
        """Sizes and costs in two lines."""
        try:
            weights = np.asarray(self.weights)
            children, costs = self._concrete()
        except (TypeError, ValueError):
            return f"Dendrogram(children={in_words(self.children)})"
        of = f"Dendrogram of {self.num_leaves:,} leaves"
        if self.num_trees > 1:
            of += f" in {self.num_trees:,} trees"
        of += f", weights {in_words(weights)}"
        if not len(children):
            return of
        count = self.num_inversions(rtol=1e-9)
        words = f"{np.min(costs):.4g} to {np.max(costs):.4g}"
        if self.unit == "nats":
            words = f"merge costs  {words} nats, {np.sum(costs):.4g} in all"
        else:  # a sum of heights says nothing
            words = f"heights  {words}"
        return f"{of}\n  {words}, {count or 'none'} inverted"

    @classmethod
    def from_linkage(
        cls, z: Any, *, weights: DataLike | None = None, unit: Unit = "height"
    ) -> Self:
        """Take over a SciPy linkage matrix, its heights as merge costs.

        Children keep their order, so `leaf_order` follows a matrix that SciPy ordered
        optimally.

        Args:
            z: Linkage matrix, shape ``[m − 1, 4]``; shape ``[0, 4]`` is one leaf.
            weights: The weights of the leaves, ``[m]``; 1 each if None.
            unit: "nats" where its heights are merge costs, as those of
                ``tree.linkage()``.

        Raises:
            ValueError: If `z` isn't a linkage matrix; the message names the row. Or if
                there are not m positive weights, or `unit` is unknown.

        Examples:
            >>> Dendrogram.from_linkage([[0, 2, 1.5, 2], [1, 3, 4.0, 3]])
            Dendrogram of 3 leaves, weights 1 each
              heights  1.5 to 4, none inverted
        """
        children, heights = _export.parse_linkage(z)
        weights = _export.leaf_weights(weights, len(children) + 1)
        return cls(children, heights, weights, unit=_export.known_unit(unit))

    @classmethod
    def from_hclust(
        cls,
        merge: Any,
        height: Any,
        *,
        weights: DataLike | None = None,
        unit: Unit = "height",
    ) -> Self:
        """Take over what R's `hclust` returns, its heights as merge costs.

        Children keep their order, so `leaf_order` is R's `order`, less 1, where that is
        the order of the merges, as `hclust` makes it.

        Args:
            merge: R's `merge`, shape ``[m − 1, 2]``: −i is the i-th point, i that of
                row i, both counted from 1.
            height: R's `height`, shape ``[m − 1]``.
            weights: The weights of the leaves, R's `members`, ``[m]``; 1 each if None.
            unit: "nats" where the heights are merge costs.

        Raises:
            ValueError: If these are no merges of points, or a height is negative; the
                message names the row. Or if there are not m positive weights, or
                `unit` is unknown.

        Examples:
            >>> tree = Dendrogram.from_hclust([[-1, -3], [-2, 1]], [1.5, 4.0])
            >>> print(tree.children.tolist(), tree.leaf_order())
            [[0, 2], [1, 3]] [1 0 2]
        """
        children, heights = _export.parse_hclust(merge, height)
        weights = _export.leaf_weights(weights, len(children) + 1)
        return cls(children, heights, weights, unit=_export.known_unit(unit))

    @classmethod
    def from_newick(
        cls,
        text: str,
        names: Iterable[object] | None = None,
        *,
        unit: Unit = "height",
    ) -> tuple[Self, list[str]]:
        """Read binary trees in Newick format, such as `to_newick` writes.

        The text has names of leaves, not their numbers. To read back a tree of the rows
        of a table, or to compare the trees of two texts, pass `names`: without, leaves
        are numbered as they stand in the text, which is another order.

        Merge costs are the heights of nodes: the greatest distance to a leaf below.
        Merges come in the order of heights, none before those that it unites, equal
        ones as in the text. Several trees are a forest.

        Lost are: where distances to leaves differ, all but the greatest, as in trees
        that no clock rules; names and support values of inner nodes; comments in
        brackets; the branch above a root; weights, which are 1. Heights are sums of
        branches, with their rounding.

        Args:
            text: The trees, each ending in a semicolon, no file. A name without quotes
                has blanks for underscores, as the format says. Where no branch has a
                length, each is 1 long.
            names: The names in the order that leaves are to be numbered in, such as
                those that `to_newick` was given, or ``range(m)`` if it was given none;
                the order of the text if None.
            unit: "nats" where the heights are merge costs, as `to_newick` writes.

        Returns:
            The tree, and the names of its leaves.

        Raises:
            TypeError: If `text` is no string.
            ValueError: If the text is damaged, a node has one child or more than two,
                some branches have lengths and some have none, or `names` are others
                than those of the text; the message says where. Or if `unit` is
                unknown.

        Examples:
            >>> tree, names = Dendrogram.from_newick("(b:4,(a:1.5,c:1.5):2.5);")
            >>> print(names, tree.children.tolist(), tree.merge_costs)
            ['b', 'a', 'c'] [[1, 2], [0, 3]] [1.5 4. ]
            >>> text = "((1,3),(0,2));"
            >>> tree, _ = Dendrogram.from_newick(text, names=range(4))
            >>> print(tree.children.tolist(), tree.merge_costs)
            [[1, 3], [0, 2], [4, 5]] [1. 1. 2.]
            >>> print(Dendrogram.from_newick(text)[0].children.tolist())
            [[0, 1], [2, 3], [4, 5]]
        """
        children, heights, found = parse_newick(text, names)
        unit = _export.known_unit(unit)
        return cls(children, heights, np.ones(len(found)), unit=unit), found

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a tree that `save` wrote, bit for bit.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If the file is not a saved tree, is damaged, or is of a later
                format.
        """
        return cls(**_export.read_tree(path))

    def joined(self, *, cost: Any = np.inf) -> Self:
        """Join the trees of a forest into one.

        The first two roots in the order of `roots`, by their smallest leaves, are
        merged first, then each other one with what has been joined: the data say
        nothing about that order. `leaf_order` stays. One tree comes back as it is.

        Args:
            cost: The cost of each of these merges, as `unit` says. The infinite one
                says that it is not known: functions of a problem and a tree take such
                trees.
                Pictures, linkage matrices, Newick and networkx need a finite one, a
                little over the largest, say; a problem then has other costs.

        Returns:
            A tree of m − 1 merges.

        Examples:
            >>> forest = Dendrogram(np.array([[0, 2]]), np.array([1.5]), np.ones(4))
            >>> tree = forest.joined()
            >>> print(tree.children.tolist(), tree.merge_costs)
            [[0, 2], [4, 1], [5, 3]] [1.5 inf inf]
        """
        children, costs = self._arrays()
        if self.num_trees == 1:
            return self
        roots, m = self.roots, self.num_leaves
        xp = _walk.namespace(children, costs, roots)
        unions = xp.arange(m + self.num_merges, 2 * m - 2, dtype=np.int32)
        before = xp.concatenate([xp.asarray(roots)[:1], unions])
        # What has been joined is on the left, so that leaves keep their order.
        pairs = xp.stack([before, xp.asarray(roots)[1:]], axis=1)
        added = xp.full(len(roots) - 1, cost, dtype=costs.dtype)
        return dataclasses.replace(
            self,
            children=xp.concatenate([children, pairs.astype(np.int32)]),
            merge_costs=xp.concatenate([costs, added]),
        )

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw the tree: `bregjax.plotting.plot_dendrogram` with the same options.

        Args:
            ax: matplotlib's axes to draw on; a new figure if None.
            **options: As `num_clusters`, `max_leaves`, `classes`, `orientation`.

        Returns:
            The axes.

        Raises:
            ImportError: If matplotlib isn't installed.

        Examples:
            >>> tree = Dendrogram.from_linkage([[0, 2, 1.5, 2], [1, 3, 4.0, 3]])
            >>> print(tree.plot(num_clusters=2).get_ylabel())
            height
        """
        try:
            plotting = importlib.import_module("bregjax.plotting")
        except ImportError as error:
            raise ImportError(
                "`plot` needs matplotlib: pip install 'bregjax[plot]'."
            ) from error
        return plotting.plot_dendrogram(self, ax, **options)
