"""The nodes of a tree or forest: counts, members, heights, joins."""

import operator
from typing import Any, Literal, SupportsIndex, get_args

import jax.numpy as jnp
import numpy as np

from bregjax._checks import check_count, is_concrete
from bregjax._typing import Array
from bregjax.hierarchy import _walk

__all__ = ["Heights", "TreeNodes", "Unit", "finite_heights"]

Heights = Literal["cost", "monotone", "ward", "merge_index"]
"""What a drawing or an export shows as the height of a merge."""

Unit = Literal["nats", "height"]
"""What merge costs are: log-likelihoods lost, or heights of a tree from elsewhere."""


class TreeNodes:
    """What `Dendrogram` says of its nodes; see there for the attributes."""

    children: Array | np.ndarray
    merge_costs: Array | np.ndarray
    weights: Array | np.ndarray
    ward_scale: Array | np.ndarray | float | None
    unit: Unit

    @property
    def num_leaves(self) -> int:
        """The number m of leaves, that of the weights."""
        return self.weights.shape[-1]

    @property
    def num_merges(self) -> int:
        """The number t of merges: m − 1 in a tree, fewer in a forest."""
        return self.children.shape[-2]

    @property
    def num_trees(self) -> int:
        """The number m − t of trees: 1 unless it is a forest."""
        return self.num_leaves - self.num_merges

    @property
    def roots(self) -> Array | np.ndarray:
        """The nodes without a parent, int32 of shape ``[m − t]``.

        In the order of `cut(num_trees)`: by the smallest leaf of each tree. The root of
        a single leaf is that leaf.
        """
        children, _ = self._arrays()
        return _walk.roots(children, self.num_leaves)

    def top_nodes(self, num_nodes: SupportsIndex) -> np.ndarray:
        """The clusters made last, last first: the root, then what it was made from, ….

        They are nested, unlike those of a cut. Leaves come after all merges.

        Args:
            num_nodes: From 1 to m + t, which is 2m − 1 for one tree.

        Returns:
            Node numbers m + t − 1, m + t − 2, …, int32 of shape ``[num_nodes]``.
        """
        total = self.num_leaves + self.num_merges
        count = check_count("num_nodes", num_nodes, total, "the tree's nodes")
        return np.arange(total - 1, total - 1 - count, -1, dtype=np.int32)

    def members(self, node: SupportsIndex) -> np.ndarray:
        """The leaves under a node, ascending, int32; O(their number)."""
        children, _ = self._concrete()
        last = self.num_leaves + self.num_merges - 1
        if not 0 <= operator.index(node) <= last:
            raise ValueError(f"`node` must be from 0 to {last}; got {node}.")
        return _walk.members(children, operator.index(node), self.num_leaves)

    def heights(self, kind: Heights = "cost") -> Array | np.ndarray:
        """The height of each merge, shape ``[t]``.

        Args:
            kind: ``"cost"``: the merge cost Δ in nats, or the height that a tree from
                elsewhere came with, as it is. ``"monotone"``: the
                largest cost in the merge's subtree, so no merge is lower than one
                below it (one elsewhere in the tree may be lower than an earlier one).
                ``"ward"``: 2√(σ²Δ), SciPy's Ward height in the units of the data, for
                the spherical Gaussian alone. ``"merge_index"``: 1, 2, …, t, for
                drawing the order.

        Raises:
            ValueError: If `kind` is unknown, or is ``"ward"`` for another family, for a
                tree from elsewhere or where a cost is negative.
        """
        children, costs = self._arrays()
        xp = _walk.namespace(costs)
        if kind == "cost":
            return costs
        if kind == "monotone":
            m = self.num_leaves
            return _walk.subtree_max(children, costs, m)[m:]
        if kind == "merge_index":
            return xp.arange(1, self.num_merges + 1, dtype=costs.dtype)
        if kind != "ward":
            raise ValueError(
                f"`heights` must be one of {list(get_args(Heights))}; got {kind!r}."
            )
        if self.ward_scale is None:
            raise ValueError(self._no_ward_heights())
        if is_concrete(costs) and np.any(costs < 0):
            merge = int(np.argmax(np.asarray(costs) < 0))
            raise ValueError(
                "`heights` 'ward' needs merge costs of 0 and more, as it takes square "
                f"roots; merge {merge} has {costs[merge]:g}. Take 'cost', which shows "
                "costs as they are, or compute them again: bregjax.replay."
            )
        scale = self.ward_scale
        scaled = (float(scale) if is_concrete(scale) else scale) * costs
        return 2 * _walk.namespace(scaled).sqrt(scaled)

    def _no_ward_heights(self) -> str:
        if self.unit == "nats":
            return (
                "`heights` 'ward' is for trees of SphericalGaussian; this tree is of "
                "another family, which has no Ward height. Take 'cost' or 'monotone'."
            )
        return (
            "`heights` 'ward' is for trees that `agglomerate` made under "
            "SphericalGaussian; this tree is from elsewhere, and the heights it came "
            "with, Ward's or others, are its 'cost'. Leave `heights` out, as in "
            "tree.cut(max_height=5)."
        )

    def num_inversions(self, *, rtol: float = 0.0) -> int:
        """How many merges cost less than a merge that made one of their children.

        Args:
            rtol: Count only merges cheaper by more than this fraction of their cost,
                such as 1e-6 to pass over ties that rounding broke.
        """
        children, costs = self._concrete()
        leaves = np.full(self.num_leaves, -np.inf)
        below = np.concatenate([leaves, costs])[children].max(axis=1)
        with np.errstate(invalid="ignore"):  # inf − inf of trees that were joined
            return int(np.sum(costs + rtol * np.abs(costs) < below))

    def leaf_order(self) -> np.ndarray:
        """The leaves from left to right in a drawing without crossings, int32 ``[m]``.

        The first child of every merge is on the left, as in SciPy. The trees of a
        forest stand side by side, by their smallest leaves. Under
        ``connectivity="chain"`` that is the order of the rows.
        """
        children, _ = self._concrete()
        return _walk.layout(children, self.num_leaves)[0]

    def cophenetic(
        self, *, heights: Heights = "cost", max_gib: float = 4.0
    ) -> np.ndarray:
        """The height of the merge at which each pair of leaves first joins.

        O(m²) time and memory; equal to SciPy's `cophenet(linkage(…))`, and inf for
        leaves that never join, which are in different trees of a forest.
        `bregjax.metrics.cophenetic_correlation` needs no such array.

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
        m = self.num_leaves
        num_pairs = m * (m - 1) // 2
        gib = num_pairs * 8 / 2**30
        if gib > max_gib:
            raise ValueError(
                f"`cophenetic` of {m} leaves has {num_pairs} pairs and "
                f"takes {gib:.3g} GiB, over `max_gib` = {max_gib:g}. Raise the limit "
                f"where there is memory, or take the tree of a sample."
            )
        return _walk.joining_heights(children, np.asarray(self.heights(heights)), m)

    def _arrays(self) -> tuple[Any, Any]:
        """The children and costs of one tree, as NumPy's unless traced; costs float."""
        if self.children.ndim != 2:
            raise ValueError(
                f"`children` must have shape [m − 1, 2]; got "
                f"{list(self.children.shape)}. Take one tree at a time, or `jax.vmap`."
            )
        costs = _walk.numpy_unless_traced(self.merge_costs)
        if not jnp.issubdtype(costs.dtype, jnp.floating):
            costs = costs.astype(float)
        return _walk.numpy_unless_traced(self.children), costs

    def _concrete(self) -> tuple[np.ndarray, np.ndarray]:
        children, costs = self._arrays()
        return np.asarray(children), np.asarray(costs)


def finite_heights(tree: TreeNodes, kind: Heights, what: str) -> np.ndarray:
    """Heights of merges for what knows no infinite ones, float64 `[t]`.

    Args:
        tree: A tree or forest.
        kind: As in `TreeNodes.heights`.
        what: What needs them, the beginning of the message.

    Raises:
        ValueError: At the first that is not finite, as `Dendrogram.joined` makes them.
    """
    heights = np.asarray(tree.heights(kind), np.float64)
    bad = np.flatnonzero(~np.isfinite(heights))
    if len(bad) and np.isnan(heights[bad[0]]):
        raise ValueError(
            f"{what} needs finite heights; merge {bad[0]} has nan. Compute its cost: "
            "bregjax.replay(problem, tree)."
        )
    if len(bad):
        raise ValueError(
            f"{what} needs finite heights; merge {bad[0]} has {heights[bad[0]]}. Join "
            "the trees of the forest at a finite cost: forest.joined(cost=…)."
        )
    return heights
