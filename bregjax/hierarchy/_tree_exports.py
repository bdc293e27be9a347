"""A tree or forest for other tools: SciPy, Newick, tables, networkx, a file."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from bregjax.hierarchy import _export
from bregjax.hierarchy._newick import newick
from bregjax.hierarchy._table import graph_of, node_table
from bregjax.hierarchy._tree_nodes import Heights, TreeNodes, finite_heights

__all__ = ["TreeExports"]


class TreeExports(TreeNodes):
    """What `Dendrogram` writes."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tree to an npz file under exactly this name, without pickle."""
        children, costs = self._concrete()
        fields = {"children": children, "merge_costs": costs, "weights": self.weights}
        if self.ward_scale is not None:
            fields["ward_scale"] = self.ward_scale
        if self.unit != "nats":
            fields["unit"] = self.unit
        _export.write_tree(path, {k: np.asarray(v) for k, v in fields.items()})

    def linkage(self, *, heights: Heights = "cost") -> np.ndarray:
        """SciPy's linkage matrix.

        For flat clusters call `cut`: SciPy's `fcluster` and `cut_tree` can give fewer
        than asked for where costs invert or tie.

        Args:
            heights: As in `heights`; raw merge costs unless asked otherwise.

        Returns:
            float64 of shape ``[m − 1, 4]``: two children, the height, the number of
            leaves (not their weight).

        Raises:
            ValueError: If it is a forest, which SciPy has no matrix for, or a height is
                not finite.

        Examples:
            >>> import bregjax as bj
            >>> tree = bj.Dendrogram.from_linkage([[0, 2, 7.4, 2], [1, 3, 6.9, 3]])
            >>> print(tree.linkage(heights="monotone"))
            [[0.   2.   7.4  2. ]
             [1.   3.   7.4  3. ]]
        """
        children, _ = self._concrete()
        if self.num_trees > 1:
            raise ValueError(
                f"`linkage` is of one tree, as SciPy has no matrix of forests; this is "
                f"one of {self.num_trees} trees over {self.num_leaves} leaves. Join "
                "their roots first: tree.joined(cost=…).linkage()."
            )
        tops = finite_heights(self, heights, "`linkage`")
        return _export.linkage_matrix(children, tops)

    def to_hclust(
        self, *, heights: Heights = "monotone"
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What R's `hclust` is made of: `merge`, `height` and `order`.

        In R, ``structure(list(merge = merge, height = height, order = order,
        labels = names), class = "hclust")``; the weights are what `hclust` takes as its
        `members`. R counts from 1, and so do these: −i is leaf i − 1, i is row i of
        `merge`. `Dendrogram.from_hclust(merge, height)` reads it back.

        Args:
            heights: As in `heights`. Rows of the default come by their heights, as R's
                `cutree` asks of them; where merges invert that is not the order of the
                merges, which all others keep.

        Returns:
            `merge`, int32 of shape ``[m − 1, 2]``; `height`, float64 of shape
            ``[m − 1]``; `order`, the leaves from left to right, int32 of shape ``[m]``.

        Raises:
            ValueError: If it is a forest, which R has no class for, or a height is not
                finite.

        Examples:
            >>> import bregjax as bj
            >>> tree = bj.Dendrogram.from_linkage([[0, 2, 1.5, 2], [1, 3, 4.0, 3]])
            >>> merge, height, order = tree.to_hclust()
            >>> print(merge.tolist(), height, order)
            [[-1, -3], [-2, 1]] [1.5 4. ] [2 1 3]
        """
        children, _ = self._concrete()
        if self.num_trees > 1:
            raise ValueError(
                f"`to_hclust` is of one tree, as R has no hclust of forests; this is "
                f"one of {self.num_trees} trees over {self.num_leaves} leaves. Join "
                "their roots first: tree.joined(cost=…).to_hclust()."
            )
        tops = finite_heights(self, heights, "`to_hclust`")
        merge, height = _export.hclust_merges(
            children, tops, ascending=heights == "monotone"
        )
        return merge, height, self.leaf_order() + 1

    def to_newick(
        self,
        names: Sequence[object] | np.ndarray | None = None,
        *,
        heights: Heights = "monotone",
    ) -> str:
        """The tree in Newick format, one line that ends in a semicolon.

        A branch is as long as its parent is higher than itself, leaves at height 0.
        The default is monotone, for many programs refuse negative branches; with
        ``heights="cost"`` an inversion gives one, as it is. A forest is a line for each
        tree, in the order of `roots`. ``Dendrogram.from_newick(text, names=names)``
        reads it back, with the same names, or ``names=range(m)`` where none were given;
        without them leaves are numbered in the order of the text.

        Args:
            names: Names of the leaves, length m; their numbers if None. Names with
                anything but letters, digits, ``.``, ``+`` and ``-`` are quoted. Line
                breaks become blanks, and where a name comes again it ends in ``.1``,
                ``.2``, …: readers of the format take equal names for an error.
            heights: As in `heights`.

        Raises:
            ValueError: If the number of names is not m, or a height is not finite.

        Examples:
            >>> import bregjax as bj
            >>> tree = bj.Dendrogram.from_linkage([[0, 2, 1.5, 2], [1, 3, 4.0, 3]])
            >>> names = ["a", "b", "it's c"]
            >>> text = tree.to_newick(names)
            >>> print(text)
            (b:4.0,(a:1.5,'it''s c':1.5):2.5);
            >>> back, _ = bj.Dendrogram.from_newick(text, names=names)
            >>> print(back.children.tolist())
            [[0, 2], [1, 3]]
        """
        children, _ = self._concrete()
        names = self._checked(names)
        tops = finite_heights(self, heights, "`to_newick`")
        return newick(children, tops, self.num_leaves, names)

    def to_table(
        self,
        names: Sequence[object] | np.ndarray | None = None,
        *,
        heights: Heights = "cost",
    ) -> dict[str, np.ndarray]:
        """The nodes as a table, a NumPy array for each column, leaves first.

        Make a data frame of it by ``pandas.DataFrame(tree.to_table())``, or by polars;
        and JSON by ``pandas.DataFrame(tree.to_table()).to_json()``, as arrays and NaN
        are no JSON.

        Args:
            names: Names of the leaves, length m, for a column of names.
            heights: As in `heights`, for the column of heights.

        Returns:
            Columns of length m + t: ``node``, its number; ``parent``, −1 of roots;
            ``left`` and ``right``, its children, −1 of leaves; ``cost`` in nats (or the
            height that a tree from elsewhere came with), NaN of leaves; ``height``, 0
            of leaves; ``size``, its leaves; ``weight``, what they weigh; ``depth``, how
            many merges are above it; ``smallest``, its smallest leaf; ``tree``, the
            number of its tree, 0 unless it is a forest; and with names ``name``, empty
            of merges.

        Raises:
            ValueError: If the number of names is not m.

        Examples:
            >>> import bregjax as bj
            >>> tree = bj.Dendrogram.from_linkage([[0, 2, 1.5, 2], [1, 3, 4.0, 3]])
            >>> table = tree.to_table()
            >>> print(table["parent"], table["size"], table["depth"])
            [ 3  4  3  4 -1] [1 1 1 2 3] [2 1 2 1 0]
        """
        children, costs = self._concrete()
        tops = np.asarray(self.heights(heights))
        weights = np.asarray(self.weights)
        return node_table(children, costs, tops, weights, self._checked(names))

    def to_networkx(
        self,
        names: Sequence[object] | np.ndarray | None = None,
        *,
        heights: Heights = "cost",
    ) -> Any:
        """The tree as a directed graph of networkx, from parents to children.

        Nodes have their numbers here, and ``height``, ``size`` (leaves) and ``weight``
        (what they weigh); merges ``cost`` in nats; leaves ``name``, if there are names.
        Edges have ``length``, by which the parent is higher. Children come in their
        order: the left one first.

        Args:
            names: Names of the leaves, length m.
            heights: As in `heights`.

        Returns:
            A `networkx.DiGraph`.

        Raises:
            ImportError: If networkx isn't installed.
            ValueError: If the number of names is not m, or a height is not finite.

        Examples:
            >>> import bregjax as bj
            >>> tree = bj.Dendrogram.from_linkage([[0, 2, 1.5, 2], [1, 3, 4.0, 3]])
            >>> graph = tree.to_networkx(["a", "b", "c"])
            >>> print(sorted(graph.edges), graph.nodes[4]["cost"])
            [(3, 0), (3, 2), (4, 1), (4, 3)] 4.0
        """
        finite_heights(self, heights, "`to_networkx`")
        return graph_of(self.to_table(names, heights=heights))

    def _checked(
        self, names: Sequence[object] | np.ndarray | None
    ) -> list[object] | None:
        """Names as a list.

        Raises:
            ValueError: If their number is not m.
        """
        if names is None:
            return None
        names = list(names)
        if len(names) != self.num_leaves:
            raise ValueError(
                f"`names` must name each of the {self.num_leaves} leaves; got "
                f"{len(names)} names."
            )
        return names
