"""Small trees for the tests, and the leaves under their nodes."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from bregjax import Problem, merge_cost
from bregjax._checks import is_concrete
from bregjax.hierarchy import Dendrogram
from bregjax.smoothing._maps import Blur


def tree_of(children, costs=None, *, num_leaves=None, **fields):
    """Unit weights; costs 0 unless given; a forest if there are more leaves."""
    children = np.asarray(children, dtype=np.int32).reshape(-1, 2)
    costs = np.zeros(len(children)) if costs is None else np.asarray(costs, dtype=float)
    weights = np.ones(len(children) + 1 if num_leaves is None else num_leaves)
    return Dendrogram(children, costs, weights, **fields)


def stopped(tree, num_trees):
    """The forest that a tree is before its last merges."""
    count = tree.num_leaves - num_trees
    return dataclasses.replace(
        tree, children=tree.children[:count], merge_costs=tree.merge_costs[:count]
    )


def chain(num_leaves):
    """Leaf t + 1 joins everything before it."""
    merge = np.arange(num_leaves - 1)
    children = np.stack([merge + 1, num_leaves + merge - 1], axis=1)
    children[0] = [0, 1]
    return tree_of(children, merge + 1.0)


def balanced(num_leaves):
    """Neighbours merge, then neighbouring pairs, …; a power of 2 leaves."""
    children = np.arange(2 * num_leaves - 2).reshape(-1, 2)
    return tree_of(children, np.arange(num_leaves - 1) + 1.0)


def random_tree(rng, num_leaves):
    """Any shape; whole costs, so there are ties and inversions."""
    alive, children = list(range(num_leaves)), []
    for merge in range(num_leaves - 1):
        pair = [alive.pop(rng.integers(len(alive))) for _ in range(2)]
        children.append(sorted(pair))
        alive.append(num_leaves + merge)
    return tree_of(children, rng.integers(0, num_leaves, num_leaves - 1))


def leaf_sets(tree):
    sets = [frozenset([leaf]) for leaf in range(tree.num_leaves)]
    for left, right in tree.children:
        sets.append(sets[left] | sets[right])
    return sets


INVERTED = tree_of([[0, 2], [1, 3]], [7.39129752, 6.86188641])  # of Poisson


def bandwidth_of(found):
    """The bandwidth of what `tune_smoothing` found."""
    smoothing = found.problem.smoothing
    assert isinstance(smoothing, Blur)
    return smoothing.bandwidth


def merge_cost_of(
    x_a, x_b, *, weights_a=None, weights_b=None, direct=False, smoothing=None, **options
):
    """The cost of merging two tables, as the rows of one problem."""
    xp = np if is_concrete((x_a, x_b, weights_a, weights_b)) else jnp
    sizes = [np.shape(x)[0] for x in (x_a, x_b)]
    given = zip((weights_a, weights_b), sizes, strict=True)
    weights = [np.ones(size) if w is None else xp.asarray(w) for w, size in given]
    x = xp.concatenate([xp.asarray(x_a), xp.asarray(x_b)])
    options |= {"smoothing": smoothing, "weights": xp.concatenate(weights)}
    a, b = np.split(np.arange(sum(sizes)), sizes[:1])
    return merge_cost(Problem(x, **options), a, b, direct=direct)
