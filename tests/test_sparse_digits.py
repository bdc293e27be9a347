"""Sparse rows whose costs are small beside their entries: right trees, or a refusal."""

import numpy as np
import pytest
import scipy.sparse

from bregjax import Problem, dendrogram_features
from bregjax.convex import BinaryEntropy, NegativeEntropy
from bregjax.hierarchy import agglomerate, certify, cluster_cost, replay
from bregjax.hierarchy._sparse import agglomeration, engine
from bregjax.smoothing import adding, mixing, pseudo_count

M, D = 24, 30


def base(rng):
    """Counts with zeros and ties, no row without an entry."""
    x = rng.poisson(3.0, (M, D)) * (rng.random((M, D)) < 0.3)
    return x + np.eye(M, D)


def near(rng):
    """Rows that differ from one of eight by 1e-8 of themselves."""
    return np.repeat(base(rng)[:8] + 1, 3, 0) * (1 + 1e-8 * rng.normal(size=(M, D)))


HOSTILE = {
    "ward far from 0": lambda rng: (1e8 + rng.normal(size=(M, D)), {"family": "ward"}),
    "huge counts": lambda rng: (
        1e12 + 1e6 * rng.normal(size=(M, D)),
        {"family": "poisson"},
    ),
    "near, multinomial": lambda rng: (near(rng), {"family": "multinomial"}),
    "near, poisson": lambda rng: (near(rng), {"family": "poisson"}),
    "near, ward": lambda rng: (near(rng), {"family": "ward"}),
    "all but all mixed": lambda rng: (
        base(rng),
        {"family": "multinomial", "smoothing": mixing(np.full(D, 1 / D), 0.9999999)},
    ),
    "all but all mixed, binary": lambda rng: (
        (base(rng) > 0) * 1.0,
        {"family": "bernoulli", "smoothing": mixing(np.full(D, 0.5), 0.999999)},
    ),
    "weights of any size": lambda rng: (
        base(rng),
        {"family": "poisson", "weights": 10 ** rng.uniform(-8, 8, M)},
    ),
    "a high floor": lambda rng: (
        base(rng),
        {"family": "poisson", "smoothing": adding(np.ones(D), 1e6)},
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_costs_of_few_digits_are_compared_exactly(name, rng):
    """The dense certificate holds for the sparse tree, and the sparse one for both."""
    x, options = HOSTILE[name](rng)
    dense = Problem(x, **options)
    problem = Problem(scipy.sparse.csr_array(x), **options)
    tree = agglomerate(problem)
    assert certify(dense, tree.children).holds()
    assert certify(problem, tree).holds()
    other = agglomerate(dense, engine="matrix")
    assert certify(problem, other.children).holds()


def test_too_many_doubtful_costs_are_refused_or_left_to_other_engines(rng, monkeypatch):
    monkeypatch.setattr(engine, "_EXACT_PER_CLUSTER", 0)
    monkeypatch.setattr(engine, "_EXACT_AT_LEAST", 3)
    x = np.concatenate([near(rng)] * 4, axis=1)
    table = scipy.sparse.csr_array(x)
    for rows in (table, x):
        with pytest.raises(ValueError, match="mostly rounding"):
            agglomerate(rows, family="poisson", engine="sparse")
        problem = Problem(rows, family="poisson")
        tree, info = agglomerate(problem, return_info=True)
        assert info.engine == "numpy"
        assert certify(problem, tree).holds()
    monkeypatch.setattr(agglomeration, "available_memory", lambda: 2000)
    monkeypatch.setattr(agglomeration, "bytes_needed", lambda _: 0)
    with pytest.raises(ValueError, match=r"mostly rounding .* x\.toarray\(\)"):
        agglomerate(table, family="poisson")


def test_equal_rows_cost_nothing_under_any_weights(rng):
    """Sums over weights may differ by rounding where the rows are equal."""
    x = np.repeat(base(rng)[:8], 3, 0)
    options = {
        "family": "multinomial",
        "weights": np.repeat(rng.random(8), 3),
        "smoothing": mixing(np.full(D, 1 / D), 0.3),
    }
    tree = agglomerate(scipy.sparse.csr_array(x), **options)
    np.testing.assert_array_equal(tree.merge_costs[:16], 0)
    assert np.all(tree.merge_costs[16:] > 0)


@pytest.mark.parametrize(
    ("x", "options"),
    [
        (-np.eye(3), {"family": NegativeEntropy()}),
        (3 * np.eye(3), {"family": BinaryEntropy()}),
        (
            np.eye(3),
            {"family": "poisson", "smoothing": adding(np.array([1.0, -2.0, 1.0]), 0.5)},
        ),
    ],
)
def test_rows_outside_the_domain_are_refused_as_dense_ones_are(x, options):
    problems = []
    for rows in (scipy.sparse.csr_array(x), x):
        try:
            problems.append(Problem(rows, **options))
        except ValueError as error:
            problems.append(str(error))
    if isinstance(problems[0], str):
        assert problems[0] == problems[1]
        return
    for problem in problems:
        for function in (agglomerate, cluster_cost):
            with pytest.raises(ValueError, match=r"row 0, .*\(OUTSIDE\)"):
                function(problem)
        with pytest.raises(ValueError, match=r"row 0, .*\(OUTSIDE\)"):
            replay(problem, np.array([[0, 1], [2, 3]]))


def test_numbers_of_any_size_where_no_squares_are_taken():
    x = scipy.sparse.csr_array(1e200 * np.array([[1.0, 0.0], [3.0, 0.0], [0.0, 1.0]]))
    costs = agglomerate(x, family="poisson").merge_costs
    dense = agglomerate(x.toarray(), family="poisson").merge_costs
    np.testing.assert_allclose(costs, dense, rtol=1e-12)


@pytest.mark.parametrize("family", ["multinomial", "ward"])
def test_costs_kept_in_float32_give_the_same_tree(family, rng, monkeypatch):
    """As of many rows: of near ties in float32 exact costs decide."""
    x = scipy.sparse.csr_array(base(rng) * rng.uniform(0.5, 1.5, (M, D)))
    expected = agglomerate(x, family=family, engine="sparse")
    monkeypatch.setattr(engine, "_IN_DOUBLE", 0)
    tree = agglomerate(x, family=family)
    np.testing.assert_array_equal(tree.children, expected.children)
    # Whole numbers: ties, and costs that only float32 confuses.
    problem = Problem(scipy.sparse.csr_array(1e4 + base(rng)), family=family)
    assert certify(problem, agglomerate(problem)).holds()


@pytest.mark.parametrize("family", ["bernoulli", "geometric", "ward", "poisson"])
@pytest.mark.parametrize("weight", [1.0, 2.0])
def test_features_where_pseudo_counts_leave_rows_another_floor(family, weight, rng):
    """Rows weigh 1: beside clusters of rows of weight 2 idle columns cost, too."""
    x = (base(rng) > 0) * 1.0
    x[:, -5:] = 0
    smoothing = pseudo_count(np.full(D, 0.3), 0.5)
    options = {"family": family, "smoothing": smoothing, "weights": np.full(M, weight)}
    problem = Problem(scipy.sparse.csr_array(x), **options)
    dense = Problem(x, **options)
    tree = agglomerate(dense)
    found = dendrogram_features(problem, tree, num_features=4)
    expected = dendrogram_features(dense, tree, num_features=4)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
