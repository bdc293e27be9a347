"""The tree of an agglomeration: cuts, heights and exports."""

import importlib
import operator
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, SupportsIndex, get_args

import numpy as np

from bregjax._checks import check_count, is_concrete
from bregjax._pytree import in_words, register_pytree
from bregjax._typing import Array
from bregjax.hierarchy import _export, _walk
from bregjax.hierarchy._cuts import (
    labels_of,
    limit_or_count,
    node_of_leaf,
    nodes_of,
)

Heights = Literal["cost", "monotone", "ward", "merge_index"]
"""What a drawing or an export shows as the height of a merge."""


@register_pytree
@dataclass(frozen=True, eq=False, repr=False)
class Dendrogram:
    """A binary tree over m leaves, merge by merge.

    Leaves are nodes 0 … m − 1 and merge t makes node m + t, as in SciPy. A pytree: it
    passes through `jit` and `vmap`. `cut`, `cluster_nodes(num_clusters=…)` and
    `heights` work on traced trees too and then give JAX arrays; everything else needs
    concrete arrays and gives NumPy's. No method recurses: a chain of 100,000 leaves is
    no special case.

    Merge costs are kept as they are. A Bregman tree may invert (a merge may cost less
    than one below it), and no method hides that unless it says "monotone".

    Attributes:
        children: The two nodes of each merge, int32 of shape ``[m − 1, 2]``; the
            engines put the smaller number first.
        merge_costs: The cost Δ of each merge in nats, shape ``[m − 1]``.
        weights: The weights of the leaves, shape ``[m]``.
        ward_scale: The variance σ² of a spherical Gaussian family, whose Ward height
            is 2σ√Δ; None for every other family.

    Examples:
        >>> import bregjax as bj
        >>> bj.agglomerate([[0.0], [1.0], [5.0], [7.0]], family="ward")
        Dendrogram of 4 leaves, weights 1 each
          merge costs  0.25 to 15.12 nats, 16.38 in all, none inverted
    """

    children: Array | np.ndarray
    merge_costs: Array | np.ndarray
    weights: Array | np.ndarray
    ward_scale: Array | np.ndarray | float | None = None

    def __repr__(self) -> str:
        """Sizes and costs in two lines."""
        try:
            weights = np.asarray(self.weights)
            children, costs = self._concrete()
        except (TypeError, ValueError):
            return f"Dendrogram(children={in_words(self.children)})"
        of = f"Dendrogram of {len(children) + 1:,} leaves, weights {in_words(weights)}"
        if not len(children):
            return of
        count = self.num_inversions(rtol=1e-9)
        return (
            f"{of}\n  merge costs  {np.min(costs):.4g} to {np.max(costs):.4g} nats, "
            f"{np.sum(costs):.4g} in all, {count or 'none'} inverted"
        )

    @property
    def num_leaves(self) -> int:
        """The number m of leaves."""
        return self.num_merges + 1

    @property
    def num_merges(self) -> int:
        """The number m − 1 of merges."""
        return self.children.shape[-2]

    @classmethod
    def from_linkage(cls, z: Any) -> Self:
        """Take over a SciPy linkage matrix, its heights as merge costs.

        Weights are 1. Children keep their order, so `leaf_order` follows a matrix that
        SciPy ordered optimally.

        Args:
            z: Linkage matrix, shape ``[m − 1, 4]``; shape ``[0, 4]`` is one leaf.

        Raises:
            ValueError: If `z` isn't a linkage matrix; the message names the row.
        """
        children, heights = _export.parse_linkage(z)
        return cls(children, heights, np.ones(len(children) + 1))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a tree that `save` wrote, bit for bit.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If the file is not a saved tree, is damaged, or is of a later
                format.
        """
        return cls(**_export.read_tree(path))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tree to an npz file under exactly this name, without pickle."""
        children, costs = self._concrete()
        fields = {"children": children, "merge_costs": costs, "weights": self.weights}
        if self.ward_scale is not None:
            fields["ward_scale"] = self.ward_scale
        _export.write_tree(path, {k: np.asarray(v) for k, v in fields.items()})

    def cut(
        self,
        num_clusters: SupportsIndex | Sequence[SupportsIndex] | None = None,
        *,
        max_cost: Any = None,
        max_height: Any = None,
        heights: Heights = "cost",
    ) -> Array | np.ndarray:
        """Cut the tree into flat clusters: the labels of the leaves.

        Exactly one of the first three is given. `num_clusters` undoes the last merges,
        so it gives exactly that many clusters whatever the costs. `max_cost` and
        `max_height` give the largest clusters inside which no merge is higher than
        that: a cheap merge above an expensive one doesn't count.

        Args:
            num_clusters: From 1 to m; static under `jit`. Several give a column each.
            max_cost: In nats, compared with the raw merge costs. Several give a column
                each.
            max_height: The same by other heights, those of `heights`.
            heights: Which heights `max_height` is one of: see `Dendrogram.heights`.

        Returns:
            Labels, int32 of shape ``[m]``, numbered from 0 by each cluster's smallest
            leaf; of k numbers ``[m, k]``.

        Raises:
            ValueError: If not exactly one argument is given, or it is out of range.

        Examples:
            >>> tree = Dendrogram.from_linkage([[0, 2, 7.4, 2], [1, 3, 6.9, 3]])
            >>> print(tree.cut(2), tree.cut(max_cost=7.0))
            [0 1 0] [0 1 2]
            >>> print(tree.cut(max_height=1, heights="merge_index"))
            [0 1 0]
        """
        name, value = limit_or_count(
            num_clusters=num_clusters, max_cost=max_cost, max_height=max_height
        )
        if np.ndim(value) == 1:
            return self._cuts(name, value, heights)
        children, costs = self._arrays()
        tops = self.heights(heights) if name == "max_height" else costs
        return labels_of(node_of_leaf(children, tops, name, value))

    def _cuts(self, name: str, values: Any, heights: Heights) -> Array | np.ndarray:
        """A column of labels for each number of clusters, cost or height."""
        if not len(values):
            raise ValueError(f"`{name}` must have at least one number; got none.")
        columns = [self.cut(**{name: value}, heights=heights) for value in values]
        return _walk.namespace(columns[0]).stack(columns, axis=1)

    def cluster_nodes(
        self, *, num_clusters: SupportsIndex | None = None, max_cost: Any = None
    ) -> Array | np.ndarray:
        """The nodes of the clusters of a cut, in the order of its labels.

        `cluster_nodes(…)[cut(…)]` is the node that holds each leaf.

        Args:
            num_clusters: As in `cut`.
            max_cost: As in `cut`; needs concrete arrays, since it decides the shape.

        Returns:
            Node numbers, int32 of shape ``[k]``.
        """
        name, value = limit_or_count(num_clusters=num_clusters, max_cost=max_cost)
        node = node_of_leaf(*self._arrays(), name, value)
        count = None if num_clusters is None else operator.index(num_clusters)
        return nodes_of(node, count)

    def top_nodes(self, num_nodes: SupportsIndex) -> np.ndarray:
        """The clusters made last, last first: the root, then what it was made from, ….

        They are nested, unlike those of a cut. Leaves come after all merges.

        Args:
            num_nodes: From 1 to 2m − 1.

        Returns:
            Node numbers 2m − 2, 2m − 3, …, int32 of shape ``[num_nodes]``.
        """
        total = self.num_leaves + self.num_merges
        count = check_count("num_nodes", num_nodes, total, "the tree's nodes")
        return np.arange(total - 1, total - 1 - count, -1, dtype=np.int32)

    def members(self, node: SupportsIndex) -> np.ndarray:
        """The leaves under a node, ascending, int32; O(their number)."""
        children, _ = self._concrete()
        last = 2 * self.num_merges
        if not 0 <= operator.index(node) <= last:
            raise ValueError(f"`node` must be from 0 to {last}; got {node}.")
        return _walk.members(children, operator.index(node))

    def heights(self, kind: Heights = "cost") -> Array | np.ndarray:
        """The height of each merge, shape ``[m − 1]``.

        Args:
            kind: ``"cost"``: the merge cost Δ in nats, as it is. ``"monotone"``: the
                largest cost in the merge's subtree, so no merge is lower than one
                below it (one elsewhere in the tree may be lower than an earlier one).
                ``"ward"``: 2√(σ²Δ), SciPy's Ward height in the units of the data, for
                the spherical Gaussian alone. ``"merge_index"``: 1, 2, …, m − 1, for
                drawing the order.

        Raises:
            ValueError: If `kind` is unknown, or is ``"ward"`` for another family.
        """
        children, costs = self._arrays()
        xp = _walk.namespace(costs)
        if kind == "cost":
            return costs
        if kind == "monotone":
            return _walk.subtree_max(children, costs)[self.num_leaves :]
        if kind == "merge_index":
            return xp.arange(1, self.num_leaves, dtype=costs.dtype)
        if kind != "ward":
            raise ValueError(
                f"`heights` must be one of {list(get_args(Heights))}; got {kind!r}."
            )
        if self.ward_scale is None:
            raise ValueError(
                "`heights` 'ward' is for trees of SphericalGaussian; this tree is of "
                "another family, which has no Ward height. Take 'cost' or 'monotone'."
            )
        scale = self.ward_scale
        scaled = (float(scale) if is_concrete(scale) else scale) * costs
        return 2 * _walk.namespace(scaled).sqrt(scaled)

    def num_inversions(self, *, rtol: float = 0.0) -> int:
        """How many merges cost less than a merge that made one of their children.

        Args:
            rtol: Count only merges cheaper by more than this fraction of their cost,
                such as 1e-6 to pass over ties that rounding broke.
        """
        children, costs = self._concrete()
        leaves = np.full(self.num_leaves, -np.inf)
        below = np.concatenate([leaves, costs])[children].max(axis=1)
        return int(np.sum(costs + rtol * np.abs(costs) < below))

    def linkage(self, *, heights: Heights = "cost") -> np.ndarray:
        """SciPy's linkage matrix.

        For flat clusters call `cut`: SciPy's `fcluster` and `cut_tree` can give fewer
        than asked for where costs invert or tie.

        Args:
            heights: As in `heights`; raw merge costs unless asked otherwise.

        Returns:
            float64 of shape ``[m − 1, 4]``: two children, the height, the number of
            leaves (not their weight).

        Examples:
            >>> tree = Dendrogram.from_linkage([[0, 2, 7.4, 2], [1, 3, 6.9, 3]])
            >>> print(tree.linkage(heights="monotone"))
            [[0.   2.   7.4  2. ]
             [1.   3.   7.4  3. ]]
        """
        children, _ = self._concrete()
        return _export.linkage_matrix(children, np.asarray(self.heights(heights)))

    def leaf_order(self) -> np.ndarray:
        """The leaves from left to right in a drawing without crossings, int32 ``[m]``.

        The first child of every merge is on the left, as in SciPy.
        """
        children, _ = self._concrete()
        return _walk.layout(children)[0]

    def cophenetic(
        self, *, heights: Heights = "cost", max_gib: float = 4.0
    ) -> np.ndarray:
        """The height of the merge at which each pair of leaves first joins.

        O(m²) time and memory; equal to SciPy's `cophenet(linkage(…))`.

        Args:
            heights: As in `heights`.
            max_gib: The largest result allowed, in GiB.

        Returns:
            float64 of shape ``[m (m − 1)/2]``, condensed: pairs (0, 1), (0, 2), …, as
            `scipy.spatial.distance.squareform` reads them.

        Raises:
            ValueError: If the result would be larger than `max_gib`.
        """
        children, _ = self._concrete()
        num_pairs = self.num_leaves * self.num_merges // 2
        gib = num_pairs * 8 / 2**30
        if gib > max_gib:
            raise ValueError(
                f"`cophenetic` of {self.num_leaves} leaves has {num_pairs} pairs and "
                f"takes {gib:.3g} GiB, over `max_gib` = {max_gib:g}. Raise the limit "
                f"where there is memory, or take the tree of a sample."
            )
        return _walk.joining_heights(children, np.asarray(self.heights(heights)))

    def to_newick(
        self,
        names: Sequence[object] | np.ndarray | None = None,
        *,
        heights: Heights = "monotone",
    ) -> str:
        """The tree in Newick format, one line that ends in a semicolon.

        A branch is as long as its parent is higher than itself, leaves at height 0.
        The default is monotone, for many programs refuse negative branches; with
        ``heights="cost"`` an inversion gives one, as it is.

        Args:
            names: Names of the leaves, length m; their numbers if None. Names with
                anything but letters, digits, ``.``, ``+`` and ``-`` are quoted. Line
                breaks become blanks, and where a name comes again it ends in ``.1``,
                ``.2``, …: readers of the format take equal names for an error.
            heights: As in `heights`.

        Raises:
            ValueError: If the number of names is not m.

        Examples:
            >>> tree = Dendrogram.from_linkage([[0, 2, 1.5, 2], [1, 3, 4.0, 3]])
            >>> print(tree.to_newick(["a", "b", "it's c"]))
            (b:4.0,(a:1.5,'it''s c':1.5):2.5);
        """
        children, _ = self._concrete()
        names = None if names is None else list(names)
        if names is not None and len(names) != self.num_leaves:
            raise ValueError(
                f"`names` must name each of the {self.num_leaves} leaves; got "
                f"{len(names)} names."
            )
        return _export.newick(children, np.asarray(self.heights(heights)), names)

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw the tree: `bregjax.plotting.plot_dendrogram` with the same options.

        Args:
            ax: matplotlib's axes to draw on; the current ones if None.
            **options: As `num_clusters`, `max_leaves`, `classes`, `orientation`.

        Returns:
            The axes.

        Raises:
            ImportError: If matplotlib isn't installed.

        Examples:
            >>> tree = Dendrogram.from_linkage([[0, 2, 1.5, 2], [1, 3, 4.0, 3]])
            >>> print(tree.plot(num_clusters=2).get_ylabel())
            merge cost (nats)
        """
        try:
            plotting = importlib.import_module("bregjax.plotting")
        except ImportError as error:
            raise ImportError(
                "`plot` needs matplotlib: pip install 'bregjax[plot]'."
            ) from error
        return plotting.plot_dendrogram(self, ax, **options)

    def _arrays(self) -> tuple[Any, Any]:
        """The children and costs of one tree, as NumPy's unless traced."""
        if self.children.ndim != 2:
            raise ValueError(
                f"`children` must have shape [m − 1, 2]; got "
                f"{list(self.children.shape)}. Take one tree at a time, or `jax.vmap`."
            )
        return (
            _walk.numpy_unless_traced(self.children),
            _walk.numpy_unless_traced(self.merge_costs),
        )

    def _concrete(self) -> tuple[np.ndarray, np.ndarray]:
        children, costs = self._arrays()
        return np.asarray(children), np.asarray(costs)
