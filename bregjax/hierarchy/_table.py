"""The nodes of a tree as a table of columns, and as a graph of networkx."""

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from bregjax.hierarchy import _walk

__all__ = ["graph_of", "node_table"]


def node_table(
    children: np.ndarray,
    costs: np.ndarray,
    heights: np.ndarray,
    weights: np.ndarray,
    names: Sequence[object] | None,
) -> dict[str, np.ndarray]:
    """A column for each property of nodes; see `Dendrogram.to_table`."""
    m, num_merges = len(weights), len(children)
    none = np.full(m, -1)
    parent = _walk.parents(children, m)
    nodes = np.arange(m + num_merges)
    parent = np.where(parent == nodes, -1, parent)
    smallest, weight = list(range(m)), np.asarray(weights, np.float64).tolist()
    for left, right in children.tolist():
        smallest.append(min(smallest[left], smallest[right]))
        weight.append(weight[left] + weight[right])
    depth = [0] * (m + num_merges)
    tree = [0] * (m + num_merges)
    for number, root in enumerate(_walk.roots(children, m).tolist()):
        tree[root] = number
    for merge, pair in reversed(list(enumerate(children.tolist()))):
        for part in pair:
            depth[part], tree[part] = depth[m + merge] + 1, tree[m + merge]
    table = {
        "node": nodes,
        "parent": parent,
        "left": np.concatenate([none, children[:, 0]]),
        "right": np.concatenate([none, children[:, 1]]),
        "cost": np.concatenate([np.full(m, np.nan), costs]),
        "height": np.concatenate([np.zeros(m), heights]),
        "size": np.asarray(_walk.sizes(children, m)),
        "weight": np.asarray(weight),
        "depth": np.asarray(depth),
        "smallest": np.asarray(smallest),
        "tree": np.asarray(tree),
    }
    whole = {"cost", "height", "weight"}
    table = {
        key: column.astype(np.float64 if key in whole else np.int64)
        for key, column in table.items()
    }
    if names is not None:
        shown = [str(name) for name in names] + [""] * num_merges
        table["name"] = np.asarray(shown, dtype=object)
    return table


def graph_of(table: dict[str, np.ndarray]) -> Any:
    """A directed graph of networkx, from parents to children.

    Raises:
        ImportError: If networkx isn't installed.
    """
    try:
        networkx = importlib.import_module("networkx")
    except ImportError as error:
        raise ImportError(
            "`to_networkx` needs networkx: pip install 'bregjax[export]'."
        ) from error
    graph = networkx.DiGraph()
    rows = zip(*(table[key].tolist() for key in table), strict=True)
    columns = [dict(zip(table, row, strict=True)) for row in rows]
    for row in columns:
        kept = ["height", "size", "weight"]
        kept += ["name"] if row["left"] < 0 and "name" in row else []
        kept += ["cost"] if row["left"] >= 0 else []
        graph.add_node(row["node"], **{key: row[key] for key in kept})
    for row in columns:
        for part in (row["left"], row["right"]):
            if part >= 0:
                length = row["height"] - columns[part]["height"]
                graph.add_edge(row["node"], part, length=length)
    return graph
