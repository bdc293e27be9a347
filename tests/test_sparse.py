"""Trees of sparse rows, with their costs, certificates and derivatives, as of dense."""

import tracemalloc
from pathlib import Path
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from sparse_cases import PROBLEMS, M, at_entries, counts, reals, rows_for, twins
from trees import random_tree

from bregjax import Problem, dendrogram_purity
from bregjax.families import NegativeBinomial
from bregjax.hierarchy import agglomerate, certify, cluster_cost, replay
from bregjax.hierarchy._sparse.postings import Postings
from bregjax.hierarchy._sparse.sweep import interpolated
from bregjax.smoothing import bernstein, mixing, pseudo_count

DATA = Path(__file__).parents[2] / "shared" / "data"
ONE_OF_EACH = [
    ("multinomial", "mixing_uneven", "whole"),
    ("poisson", "pseudo_count_uneven", "real"),
    ("bernoulli", "mixing", "real"),
    ("negative_binomial", "adding_uneven", "whole"),
    ("dispersions", "none", "real"),
    ("ward", "pseudo_count", "ones"),
    ("squared_norm", "mixing", "whole"),
]


def pairs_of(tree) -> list[list[int]]:
    return np.sort(tree.children, axis=1).tolist()


@pytest.mark.parametrize(("family", "smoothing", "weights"), PROBLEMS)
def test_trees_are_those_of_dense_rows(family, smoothing, weights):
    problem, dense = twins(reals(), family, smoothing, weights)
    tree, expected = agglomerate(problem), agglomerate(dense)
    assert pairs_of(tree) == pairs_of(expected)
    np.testing.assert_allclose(tree.merge_costs, expected.merge_costs, rtol=1e-12)
    np.testing.assert_array_equal(tree.merge_costs, replay(problem, tree))
    np.testing.assert_array_equal(tree.weights, expected.weights)


@pytest.mark.parametrize(("family", "smoothing", "weights"), PROBLEMS)
def test_trees_of_ties_are_certified(family, smoothing, weights):
    """By the sparse certificate and by the dense one; equal rows come first."""
    problem, dense = twins(counts(), family, smoothing, weights)
    tree = agglomerate(problem)
    costs = replay(dense, tree)
    np.testing.assert_allclose(costs, tree.merge_costs, rtol=1e-11, atol=1e-28)
    for found in (certify(problem, tree), certify(dense, tree)):
        assert found.num_pairs == (M - 1) ** 2
        assert found.holds(1e-12)
    if weights == "ones":
        np.testing.assert_allclose(tree.merge_costs[:2], 0, atol=1e-28)


@pytest.mark.parametrize(("family", "smoothing", "weights"), ONE_OF_EACH)
def test_certificates_are_those_of_dense_rows(family, smoothing, weights, rng):
    problem, dense = twins(reals(), family, smoothing, weights)
    children = random_tree(rng, M).children
    for sample in (None, 5):
        found = certify(problem, children, sample=sample)
        expected = certify(dense, children, sample=sample)
        np.testing.assert_allclose(found.excess, expected.excess, rtol=1e-10)
        np.testing.assert_allclose(found.relative, expected.relative, rtol=1e-10)
        assert found.excess > 0
        assert found.pair == expected.pair
        assert found.num_pairs == expected.num_pairs
        np.testing.assert_allclose(found.cost_of_all, expected.cost_of_all, rtol=1e-12)
        assert found.sum_error < 1e-12


@pytest.mark.parametrize(("family", "smoothing", "weights"), PROBLEMS)
def test_gradients_are_those_of_dense_rows(family, smoothing, weights, rng, x64):
    """By entries, weights, amount, center and dispersion, in both modes."""
    del x64
    problem, dense = twins(counts(), family, smoothing, weights)
    children = agglomerate(dense).children
    r = rng.normal(size=M - 1)
    loss = lambda problem: jnp.vdot(r, replay(problem, children))
    (value, slopes), (expected_value, expected) = (
        jax.jit(jax.value_and_grad(loss))(one) for one in (problem, dense)
    )
    np.testing.assert_allclose(value, expected_value, rtol=1e-11)
    np.testing.assert_allclose(
        slopes.x.values, at_entries(problem, expected.x), rtol=1e-9, atol=1e-11
    )
    for leaf, other in zip(
        jax.tree.leaves((slopes.weights, slopes.smoothing, slopes.family)),
        jax.tree.leaves((expected.weights, expected.smoothing, expected.family)),
        strict=True,
    ):
        np.testing.assert_allclose(leaf, other, rtol=1e-8, atol=1e-9)
    if np.all(np.isfinite(slopes.x.values)):
        leaves, structure = jax.tree.flatten(problem)
        leaves = [jnp.asarray(leaf) for leaf in leaves]
        moves = [jnp.asarray(rng.normal(size=leaf.shape)) for leaf in leaves]
        along = lambda *leaves: loss(jax.tree.unflatten(structure, leaves))
        _, change = jax.jvp(along, leaves, moves)
        by_hand = sum(
            np.vdot(slope, move)
            for slope, move in zip(jax.tree.leaves(slopes), moves, strict=True)
        )
        np.testing.assert_allclose(change, by_hand, rtol=1e-8)


def test_eager_gradients_of_numbers_in_the_caller_s_precision(dtype):
    problem, dense = twins(reals(), "poisson", "adding", "real")
    children = agglomerate(dense).children
    slopes, expected = (
        jax.grad(lambda problem: jnp.max(replay(problem, children)))(one)
        for one in (problem, dense)
    )
    rtol = 1e-10 if dtype == np.float64 else 1e-4
    assert slopes.x.values.dtype == dtype
    np.testing.assert_allclose(
        slopes.x.values, at_entries(problem, expected.x), rtol=rtol, atol=rtol
    )
    np.testing.assert_allclose(slopes.weights, expected.weights, rtol=rtol, atol=rtol)


def test_eager_trees_are_those_of_float64_in_any_mode():
    problem, _ = twins(reals(), "multinomial", "mixing", "real")
    trees = []
    for mode in (False, True):
        with jax.enable_x64(mode):
            trees.append(agglomerate(problem))
            costs = replay(problem, trees[-1])
            assert trees[-1].merge_costs.dtype == costs.dtype == np.float64
    np.testing.assert_array_equal(trees[0].children, trees[1].children)
    np.testing.assert_array_equal(trees[0].merge_costs, trees[1].merge_costs)


def test_equal_patterns_share_what_compiles(x64):
    """Under `jit`; a tree itself compiles nothing that goes with its rows."""
    del x64
    problem, _ = twins(reals(), "poisson", "adding", "ones")
    children = agglomerate(problem).children

    @jax.jit
    @chex.assert_max_traces(n=1)
    def costs(problem):
        return replay(problem, children)

    for factor in (1.0, 2.0):
        other = problem.replace(x=scipy.sparse.csr_array(factor * reals()))
        expected = replay(other, children)
        np.testing.assert_allclose(costs(other), expected, rtol=1e-12)


def test_trees_of_other_sizes_compile_nothing(caplog, rng):
    agglomerate(scipy.sparse.csr_array(reals()), family="poisson")
    x = scipy.sparse.random_array((23, 57), density=0.2, rng=rng)
    caplog.clear()
    with jax.log_compiles(True), caplog.at_level("WARNING", logger="jax"):
        agglomerate(x, family="poisson")
    messages = [record.getMessage() for record in caplog.records]
    assert not [message for message in messages if "XLA compilation" in message]


@pytest.mark.parametrize("family", ["poisson", "ward", "dispersions", "multinomial"])
def test_dense_rows_may_go_this_way(family):
    _, dense = twins(reals(), family, "mixing", "real")
    tree, info = agglomerate(dense, engine="sparse", return_info=True)
    expected = agglomerate(dense)
    assert info.engine == "sparse"
    assert pairs_of(tree) == pairs_of(expected)
    np.testing.assert_allclose(tree.merge_costs, expected.merge_costs, rtol=1e-12)


@pytest.mark.parametrize(
    ("family", "smoothing"),
    [
        ("multinomial", mixing(np.full(40, 1 / 40), 0.2)),
        ("multinomial", bernstein(40, 500.0)),
        ("poisson", pseudo_count(np.full(40, 0.025), 2.0)),
        ("bernoulli", mixing(np.full(40, 0.5), 0.1)),
        (NegativeBinomial(2.0), None),
        ("ward", None),
    ],
)
def test_many_different_weights(family, smoothing, rng):
    """Over six powers of ten: what clusters bring is interpolated between weights."""
    x = rng.gamma(0.5, size=(90, 40)) * (rng.random((90, 40)) < 0.2)
    x[np.arange(90), np.arange(90) % 40] += 0.3
    x = rows_for(family, x) if isinstance(family, str) else x
    weights = 10.0 ** rng.uniform(-3, 3, 90)
    options: Any = {"family": family, "smoothing": smoothing, "weights": weights}
    tree = agglomerate(scipy.sparse.csr_array(x), **options)
    dense = Problem(x, **options)
    np.testing.assert_allclose(replay(dense, tree), tree.merge_costs, rtol=1e-11)
    assert certify(dense, tree).holds()
    problem = Problem(scipy.sparse.csr_array(x), **options)
    wrong = random_tree(rng, 90).children
    found, expected = certify(problem, wrong), certify(dense, wrong)
    np.testing.assert_allclose(found.excess, expected.excess, rtol=1e-10)


def test_interpolation_keeps_its_digits(rng):
    """A term s log s with a floor, over twelve powers of ten, from few values."""
    amounts = np.unique(10.0 ** rng.uniform(-6, 6, 3000))
    calls = []

    def value(amount):
        calls.append(amount)
        return 3 * np.log(3 + amount) + amount * np.log1p(3 / amount)

    found = interpolated(value, amounts)
    assert len(calls) < 300
    exact = np.array([value(amount) for amount in amounts])
    np.testing.assert_allclose(found, exact, rtol=1e-12)


def test_few_points():
    for x in ([[0.0, 2.0]], [[0.0, 2.0], [1.0, 0.0]], [[3.0], [0.0], [1.0]]):
        problem = Problem(scipy.sparse.csr_array(x), family="poisson")
        dense = Problem(x, family="poisson")
        tree, expected = agglomerate(problem), agglomerate(dense)
        assert pairs_of(tree) == pairs_of(expected)
        np.testing.assert_allclose(tree.merge_costs, expected.merge_costs, rtol=1e-14)
        found = certify(problem, tree)
        assert found.holds()
        assert found.num_pairs == (len(x) - 1) ** 2


@pytest.mark.parametrize("family", ["poisson", "geometric"])
@pytest.mark.parametrize("zeros", [[3], [0], [1, 3], [2, 3], [0, 1, 2, 3]])
def test_empty_rows_leave_their_neighbours_their_entries(family, zeros):
    """A sum over the entries of a cluster ended one too early before an empty one."""
    x = np.array([[1.0, 0], [0, 3], [2, 2], [4, 1], [0, 0]])
    x[zeros] = 0
    problem, dense = (
        Problem(scipy.sparse.csr_array(x), family=family),
        Problem(x, family=family),
    )
    tree = agglomerate(problem)
    np.testing.assert_allclose(
        tree.merge_costs, agglomerate(dense).merge_costs, rtol=1e-12, atol=1e-15
    )
    assert certify(dense, tree).holds(1e-12)


@pytest.mark.parametrize("family", ["poisson", "ward", "bernoulli", "geometric"])
def test_rows_of_zeros(family):
    """All of them, then all but one; they merge first, at no cost."""
    for x in (np.zeros((4, 3)), np.eye(4, 3)[[0, 3, 3, 3]]):
        problem = Problem(scipy.sparse.csr_array(x), family=family)
        tree = agglomerate(problem)
        expected = agglomerate(x, family=family).merge_costs
        assert tree.merge_costs.dtype == np.float64
        np.testing.assert_allclose(tree.merge_costs, expected, rtol=1e-14)
        assert certify(problem, tree).holds()


def test_signs_of_ward_rows(rng):
    """Entries and centers below 0: only functions with a domain ask for signs."""
    x = rng.normal(size=(M, 12)) * (rng.random((M, 12)) < 0.4)
    smoothing = mixing(-np.arange(12.0), 0.2)
    tree = agglomerate(scipy.sparse.csr_array(x), family="ward", smoothing=smoothing)
    expected = agglomerate(x, family="ward", smoothing=smoothing)
    assert pairs_of(tree) == pairs_of(expected)
    np.testing.assert_allclose(tree.merge_costs, expected.merge_costs, rtol=1e-12)


@pytest.mark.parametrize("amount", [1e-300, 1e-12, 0.999])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e9])
def test_amounts_and_sizes(amount, scale):
    """Tiny and nearly whole amounts; tiny and huge counts."""
    x = scale * reals()
    smoothing = mixing(np.full(x.shape[1], scale), amount)
    problem = Problem(scipy.sparse.csr_array(x), family="poisson", smoothing=smoothing)
    dense = problem.replace(x=x)
    tree = agglomerate(problem)
    np.testing.assert_allclose(replay(dense, tree), tree.merge_costs, rtol=1e-11)
    assert certify(dense, tree).holds(1e-8)


@pytest.mark.parametrize("dispersion", [1e-8, 1e8, 1e14])
def test_negative_binomials_of_any_dispersion(dispersion):
    """Of large dispersions Poisson counts, whose digits r log r does not swallow."""
    problem = Problem(
        scipy.sparse.csr_array(reals()), family=NegativeBinomial(dispersion)
    )
    tree = agglomerate(problem)
    assert certify(problem, tree).holds()
    assert certify(problem.replace(x=reals()), tree).holds()


def test_memory_goes_with_entries(rng):
    """300 rows of 2,000,000 columns, of which 4.5 GiB would be dense."""
    rows = np.repeat(np.arange(300), 10)
    columns = rng.integers(0, 2_000_000, 3000)
    shape = (300, 2_000_000)
    x = scipy.sparse.coo_array((rng.gamma(2.0, size=3000), (rows, columns)), shape)
    tracemalloc.start()
    smoothing = bernstein(shape[1], 300.0)
    problem = Problem(x, family="multinomial", smoothing=smoothing)
    tree = agglomerate(problem)
    value = cluster_cost(problem)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**28
    np.testing.assert_allclose(tree.merge_costs.sum(), value, rtol=1e-11)


def test_purity_on_texts():
    path = DATA / "news_hockey_crypt.npz"
    if not path.exists():
        pytest.skip(f"{path.name} is not beside the project")
    with np.load(path) as file:
        y = file["y"]
    x: Any = scipy.sparse.csr_matrix(scipy.sparse.load_npz(path))
    chosen = np.random.default_rng(0).permutation(len(y))[:250]
    smoothing = bernstein(x.shape[1], float(len(chosen)))
    problem = Problem(x[chosen], family="multinomial", smoothing=smoothing)
    tree = agglomerate(problem)
    assert certify(problem, tree).holds()
    assert dendrogram_purity(tree, y[chosen]) > 0.75


def test_small_clusters_read_shared_columns_alone(rng, monkeypatch):
    """Sums by postings are those of a sweep, for leaves and for unions."""
    few = rng.random((60, 300)) < 0.03
    x = scipy.sparse.csr_array(few * rng.integers(1, 6, few.shape) + np.eye(60, 300))
    smoothing = mixing(np.full(300, 1 / 300), 0.4)
    for weights in (None, rng.integers(1, 4, 60)):
        problem = Problem(x, family="multinomial", smoothing=smoothing, weights=weights)
        trees = []
        for pays in (lambda *_: True, lambda *_: False):
            monkeypatch.setattr(Postings, "pays", pays)
            trees.append(agglomerate(problem))
            assert certify(problem, trees[-1]).holds(1e-12)
        np.testing.assert_allclose(
            trees[0].merge_costs, trees[1].merge_costs, rtol=1e-9, atol=1e-15
        )


@pytest.mark.parametrize(
    ("family", "share", "engine"),
    [
        ("poisson", 0.1, "sparse"),
        ("poisson", 0.2, "windowed"),
        ("multinomial", 0.1, "sparse"),
        ("multinomial", 0.2, "windowed"),
        # Whose windows would compile.
        ("negative_binomial", 0.2, "sparse"),
    ],
)
def test_dense_rows_of_few_zeros_go_by_windows(family, share, engine, rng):
    x = (rng.random((110, 110)) < share) * (1.0 + rng.poisson(1.0, (110, 110)))
    _, info = agglomerate(x, family=family, return_info=True)
    assert info.engine == engine
