"""Engines in float32 give the tree of float64 on real data, up to ties.

Not so with full covariances of mnist35, nearly singular: there float32 leaves costs,
and so the tree, two or three digits.
"""

from pathlib import Path

import jax
import numpy as np
import pytest
import scipy.sparse

from bregjax import Problem
from bregjax._evaluation import equal_rows, padded, working_copy
from bregjax.hierarchy import agglomerate, certify, replay
from bregjax.hierarchy._engine_windowed import windowed
from bregjax.hierarchy._searches import search_tree
from bregjax.hierarchy._tree_costs import leaves_and_codes
from bregjax.smoothing import blur

DATA = Path(__file__).parents[2] / "shared" / "data"
SPARSE = ("news_atheism_religion", "news_hockey_crypt", "bbcsport", "baron_mouse1")
QUICK = [("glass", 214, "diagonal_gaussian"), ("glass", 214, "gaussian")]
SLOW = [
    ("spambase", 600, "diagonal_gaussian"),
    ("mnist35", 600, "ward"),
    ("mnist35", 600, "diagonal_gaussian"),
    ("news_atheism_religion", 300, "multinomial"),
    ("news_hockey_crypt", 300, "multinomial"),
    ("bbcsport", 300, "multinomial"),
    ("baron_mouse1", 400, "poisson"),
]


def rows_of(name: str, count: int) -> np.ndarray:
    """Rows drawn at random; of counts the columns with the most."""
    path = DATA / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"{path.name} is not beside the project")
    if name not in SPARSE:
        with np.load(path) as file:
            x = np.asarray(file["X"], float)
    else:
        table = scipy.sparse.csr_matrix(scipy.sparse.load_npz(path))
        most = np.argsort(-np.asarray(table.sum(axis=0)).ravel(), kind="stable")[:300]
        x = table[:, np.sort(most)].toarray().astype(float)
        x = x[x.sum(axis=1) > 0]
    chosen = np.random.default_rng(0).permutation(len(x))[:count]
    return x[np.sort(chosen)]


@pytest.mark.filterwarnings("ignore:`smoothing` is one bandwidth:UserWarning")
@pytest.mark.parametrize(
    ("name", "count", "family", "engine"),
    [
        *((*case, engine) for case in QUICK for engine in ("windowed", "matrix")),
        *(pytest.param(*case, "windowed", marks=pytest.mark.slow) for case in SLOW),
    ],
)
def test_float32_gives_the_tree_of_float64(name, count, family, engine):
    x = rows_of(name, count)
    problem = Problem(x, family=family)
    m = problem.num_points
    with jax.enable_x64(False):
        model, leaves, _ = leaves_and_codes(padded(working_copy(problem)))
        assert {leaf.dtype for leaf in jax.tree.leaves(leaves)} == {
            np.dtype(np.float32)
        }
        if engine == "windowed":
            labels = equal_rows(problem)
            children, costs, _ = windowed(model, leaves, m, labels=labels)
        else:
            children, costs, _ = search_tree(
                model, leaves, np.int32(m), engine="matrix"
            )
        children, costs = np.asarray(children)[: m - 1], np.asarray(costs)[: m - 1]
    found = certify(problem, children)
    # Pairs of nearly equal rows cost nothing that float32 could tell apart.
    small = found.excess < 1e-6 * found.cost_of_all / m
    assert found.relative < 1e-4 or small, found
    expected = np.asarray(replay(problem, children))
    # Rows of glass, 1.52 ± 0.003 in one column, are good to 6e-5 of their spread.
    floor = 1e-6 * np.mean(expected)
    assert np.max(np.abs(costs - expected) / (expected + floor)) < 3e-4


@pytest.mark.parametrize("family", ["diagonal_gaussian", "gaussian"])
def test_bandwidths_far_above_the_spread(family, rng):
    # Costs of 1e-17 lie below the rounding of log-determinants.
    x = rng.normal(size=(12, 2))
    x[5], x[9] = x[3], x[3] + 1e-9
    tree = agglomerate(x, family=family, smoothing=blur(1e8), engine="matrix")
    # There a Gaussian's cost is that of Ward's method over the variance.
    ward = agglomerate(x, family="ward", smoothing=None)
    np.testing.assert_array_equal(tree.children, ward.children)
    np.testing.assert_allclose(1e16 * tree.merge_costs, ward.merge_costs, rtol=1e-9)
