"""Whether two trees of the same points are the same, and where not."""

import numpy as np

import bregjax as bj


def clusters(tree: bj.Dendrogram) -> np.ndarray:
    """A number for the set of leaves of each merge, `[m − 1]`, uint64.

    The sum of random numbers of the leaves: equal for equal sets, and for others by
    an accident of 2^−64.
    """
    m = tree.num_leaves
    nodes = np.zeros(2 * m - 1, np.uint64)
    nodes[:m] = np.random.default_rng(0).integers(
        0, 2**64, m, np.uint64, endpoint=False
    )
    for step, pair in enumerate(np.asarray(tree.children)):
        nodes[m + step] = np.sum(nodes[pair])  # of arrays: wraps without a warning
    return nodes[m:]


def compare(tree: bj.Dendrogram, reference: bj.Dendrogram) -> str:
    """Costs, their sum and clusters of a tree against those of the reference."""
    costs, right = (np.asarray(t.merge_costs, np.float64) for t in (tree, reference))
    largest = np.max(np.abs(np.sort(costs) - np.sort(right))) / np.max(right)
    total = abs(costs.sum() - right.sum()) / right.sum()
    found, known = clusters(tree), clusters(reference)
    shared = np.isin(found, known)
    said = f"costs to {largest:.0e} of the largest, sum to {total:.0e}"
    if shared.all():
        return f"same clusters; {said}"
    first = int(np.flatnonzero(~shared)[0])
    return (
        f"{np.sum(~shared)} of {len(shared)} clusters differ, first at merge {first}: "
        f"cost {costs[first]:.9g}, there {right[first]:.9g}; {said}"
    )
