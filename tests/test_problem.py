"""What a problem is: checked once, filled in, differentiable by all that it holds."""

import re

import chex
import family_cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_replay import difference

import bregjax as bj
from bregjax import _problem as module
from bregjax import sequence_log_prob
from bregjax.convex import SquaredNorm
from bregjax.objectives import held_out_log_likelihood

X = [[0.0], [1.0], [5.0], [6.5]]
WEIGHTS = [1.0, 2.0, 3.0, 1.0]


def same(one, other):
    chex.assert_trees_all_equal(one, other)


# What is filled in


def test_auto_shows_what_it_came_to():
    problem = bj.Problem(X, family="gaussian")
    assert problem.family == bj.Gaussian(dim=1)
    same(problem.smoothing, bj.normal_reference(X))
    np.testing.assert_array_equal(problem.weights, np.ones(4))
    np.testing.assert_array_equal(problem.x, X)
    assert problem.num_points == 4
    assert bj.Problem(X, family="poisson").smoothing is None
    assert bj.Problem(X, family="ward").smoothing is None


def test_a_convex_function_is_the_geometry_of_it():
    problem = bj.Problem(X, family=SquaredNorm())
    ward = bj.Problem(X, family="ward")
    np.testing.assert_allclose(
        bj.agglomerate(problem).merge_costs, bj.agglomerate(ward).merge_costs
    )


def test_levels_are_those_of_the_data():
    problem = bj.Problem([["red", 1], ["blue", 1]], family="categorical")
    assert problem.family.levels == (("blue", "red"), (1,))  # pyright: ignore[reportAttributeAccessIssue]
    np.testing.assert_array_equal(problem.x, [[1, 0], [0, 0]])


# Checked once


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"x": [[1.0], [np.inf]]}, ValueError, "`x` must be finite; got inf at row 1"),
        ({"x": [[1.0], [np.nan]]}, ValueError, "an observed cell .* got none in row 1"),
        ({"x": [[1.0], [-2.0]]}, ValueError, "`x` must be non-negative.* row 1"),
        ({"weights": [1, 2]}, ValueError, "`weights` must"),
        ({"weights": [1, 2, 0, 1]}, ValueError, "`weights` must be positive.* row 2"),
        ({"family": "norml"}, ValueError, "`family` must be one of"),
        ({"family": bj.Poisson}, TypeError, r"an instance, such as Poisson\(\)"),
        ({"family": 3}, TypeError, "a family, its name, or a convex function; got int"),
        (
            {"smoothing": "none"},
            TypeError,
            "must be \"auto\", None, a number or a .*; got 'none'",
        ),
        ({"smoothing": bj.blur(1.0)}, TypeError, "Poisson has none"),
    ],
)
def test_what_is_unfit_is_refused(changes, error, message):
    with pytest.raises(error, match=message):
        bj.Problem(**({"x": X, "family": "poisson"} | changes))


def test_functions_check_nothing_again(monkeypatch):
    """Not the functions of a tree, nor jit, grad and vmap, which rebuild problems."""
    problem = bj.Problem(X, family="poisson", weights=WEIGHTS)

    def refuse(*_, **__):
        raise AssertionError("checked again")

    for name in ("check_table", "check_weights", "smoothing_for"):
        monkeypatch.setattr(module, name, refuse)
    tree = bj.agglomerate(problem)
    bj.replay(problem, tree)
    bj.certify(problem, tree)
    bj.dendrogram_features(problem, tree, num_features=2)
    jax.jit(jax.grad(bj.cluster_cost))(problem)
    jax.vmap(bj.cluster_cost)(jax.tree.map(lambda leaf: leaf[None], problem))


# A pytree


def test_leaves_are_floats_whatever_the_data_were():
    problem = bj.Problem([[1], [2], [5]], family="poisson", weights=[1, 2, 3])
    leaves = jax.tree.leaves(problem)
    assert len(leaves) == 2
    assert all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves)
    leaves = jax.tree.leaves(bj.Problem(X, family="gaussian"))
    assert len(leaves) == 3  # with the bandwidth


def test_there_and_back_without_checks():
    problem = bj.Problem(X, family="gaussian", weights=WEIGHTS)
    leaves, structure = jax.tree.flatten(problem)
    back = jax.tree.unflatten(structure, leaves)
    assert isinstance(back, bj.Problem)
    same(back, problem)
    assert jax.tree.structure(back) == structure
    empty = jax.tree.unflatten(structure, [None] * len(leaves))
    assert isinstance(empty, bj.Problem)
    negative = jax.tree.map(lambda leaf: -leaf, problem)
    np.testing.assert_array_equal(negative.weights, -problem.weights)


def test_problems_cannot_be_changed():
    problem = bj.Problem(X, family="ward")
    with pytest.raises(AttributeError):
        problem.weights = np.ones(4)  # pyright: ignore[reportAttributeAccessIssue]


def test_a_second_problem_of_the_kind_is_no_second_trace():
    @jax.jit
    @chex.assert_max_traces(n=1)
    def cost(problem):
        return bj.cluster_cost(problem)

    for shift in (0.0, 1.0):
        cost(bj.Problem(np.asarray(X) + shift, family="gaussian"))


# Replaced


def test_what_is_not_given_stays():
    problem = bj.Problem(X, family="gaussian", weights=WEIGHTS)
    other = np.asarray(X) * 10
    moved = problem.replace(x=other)
    same(moved.smoothing, problem.smoothing)
    same(moved.weights, problem.weights)
    np.testing.assert_array_equal(moved.x, other)
    again = problem.replace(x=other, smoothing="auto")
    same(again, bj.Problem(other, family="gaussian", weights=WEIGHTS))
    wide = problem.replace(smoothing=bj.blur(3.0))
    wanted = bj.Problem(X, family="gaussian", smoothing=bj.blur(3.0), weights=WEIGHTS)
    same(wide, wanted)
    same(problem.replace(weights=None).weights, np.ones(4))
    assert problem.replace(smoothing=None).smoothing is None
    diagonal = problem.replace(family="diagonal_gaussian")
    assert diagonal.family == bj.DiagonalGaussian(dim=1)
    same(problem, bj.Problem(X, family="gaussian", weights=WEIGHTS))  # unchanged


def test_names_of_columns_stay_with_other_smoothing():
    table = {"a": [0.0, 1.0, 5.0], "b": [1.0, 0.0, 2.0]}
    problem = bj.Problem(table, family="gaussian").replace(smoothing=bj.blur(2.0))
    assert problem.columns == ("a", "b")
    assert problem.replace(x=[[0.0, 1.0], [2.0, 5.0]]).columns == (0, 1)


def test_replacements_are_checked():
    problem = bj.Problem(X, family="poisson")
    with pytest.raises(ValueError, match="`weights` must be positive"):
        problem.replace(weights=[1, 1, 1, -1])
    with pytest.raises(ValueError, match="`x` must be non-negative"):
        problem.replace(x=[[-1.0], [2.0]], weights=None)
    with pytest.raises(TypeError, match="Poisson has none"):
        problem.replace(smoothing=bj.blur(1.0))
    with pytest.raises(ValueError, match="`x` must .* got 5"):
        problem.replace(family="bernoulli")
    levels = bj.Problem([["a"], ["b"]], family="categorical")
    with pytest.raises(ValueError, match="Categorical reads them.* Pass both"):
        levels.replace(family="poisson")


# Shown


def test_a_few_lines_say_what_a_problem_is():
    problem = bj.Problem(np.ones((1500, 9)) + np.eye(1500, 9), family="gaussian")
    lines = repr(problem).splitlines()
    assert lines[0] == "Problem of 1,500 rows and 9 columns"
    names = [line.split()[0] for line in lines[1:]]
    assert names == ["family", "smoothing", "weights"]
    assert "Gaussian(dim=9)" in lines[1]
    assert "blur(bandwidth=" in lines[2]
    assert max(map(len, lines)) < 80
    function = bj.Problem([[1.0]], family=SquaredNorm())
    assert repr(function).startswith("Problem of 1 row and 1 column\n")


def test_traced_problems_are_shown_too():
    shown = []

    @jax.jit
    def cost(problem):
        shown.append(repr(problem))
        return bj.cluster_cost(problem)

    jax.grad(cost)(bj.Problem(X, family="gaussian"))
    jax.vmap(cost)(
        jax.tree.map(lambda leaf: leaf[None], bj.Problem(X, family="gaussian"))
    )
    assert all("4 rows and 1 column" in text for text in shown)
    assert all(len(text.splitlines()) == 4 for text in shown)


# Differentiated by all it holds


@pytest.mark.parametrize("name", sorted(family_cases.FAMILIES))
def test_one_gradient_is_that_by_each_argument(name, rng, x64):
    """Of a combination of merge costs, with the tree held fixed."""
    del x64
    case = family_cases.FAMILIES[name]
    x, weights = case.data(rng, 6), rng.uniform(1, 2, 6)
    # Levels that have names are none of rows whose values are unknown.
    family = bj.Categorical() if name == "categories" else case.make()
    problem = bj.Problem(x, family=family, weights=weights)
    tree = bj.agglomerate(problem)
    loads = rng.normal(size=5)
    loss = lambda problem: jnp.vdot(loads, bj.replay(problem, tree))
    found = jax.grad(loss)(problem)

    def of_arguments(x, family, smoothing, weights):
        made = bj.Problem(x, family=family, smoothing=smoothing, weights=weights)
        return loss(made)

    arguments = (problem.x, problem.family, problem.smoothing, problem.weights)
    arguments = jax.tree.map(jnp.asarray, arguments)
    expected = jax.grad(of_arguments, (0, 1, 2, 3))(*arguments)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12),
        (found.x, found.family, found.smoothing, found.weights),
        expected,
    )
    assert np.all(np.isfinite(found.weights))
    assert np.any(found.weights != 0)


def test_integer_counts_have_gradients(x64):
    """Of counts given as integers, against differences."""
    del x64
    problem = bj.Problem(np.array([[1, 4], [2, 3], [7, 1]]), family="poisson")
    tree = bj.agglomerate(problem)
    loss = lambda problem: jnp.vdot(jnp.array([1.0, -2.0]), bj.replay(problem, tree))
    found = jax.grad(loss)(problem)
    by_x = difference(lambda x: loss(problem.replace(x=x)), problem.x)
    by_weights = difference(lambda w: loss(problem.replace(weights=w)), np.ones(3))
    np.testing.assert_allclose(found.x, by_x, rtol=1e-6)
    np.testing.assert_allclose(found.weights, by_weights, rtol=1e-6, atol=1e-9)


# A tree meets the problem of another


WARD = np.array([[0.0], [1.0], [5.0]])
HEAVY = np.array([1.0, 4.0, 9.0])


@pytest.fixture
def weighted():
    return bj.Problem(WARD, family="ward", weights=HEAVY)


ASKING = {
    "certify": bj.certify,
    "dendrogram_features": lambda p, t: bj.dendrogram_features(p, t, num_features=1),
    "soft_assignments": lambda p, t: bj.soft_assignments(p, t, num_clusters=2),
}


@pytest.mark.parametrize("name", ASKING)
def test_forgotten_weights_are_told(name, weighted):
    tree = bj.agglomerate(weighted)
    plain = weighted.replace(weights=None)
    last = bj.replay(weighted, tree)[-1], bj.replay(plain, tree)[-1]
    ASKING[name](weighted, tree)
    shown = f"{last[0]:.6g} in the tree and {last[1]:.6g} under `problem`"
    with pytest.raises(ValueError, match=re.escape(shown)) as error:
        ASKING[name](plain, tree)
    assert "merge 1" in str(error.value)
    assert "tree.children" in str(error.value)
    ASKING[name](plain, tree.children)


@pytest.mark.parametrize("name", ASKING)
def test_a_forgotten_bandwidth_is_told(name, rng):
    x = rng.normal(size=(8, 2))
    problem = bj.Problem(x, family="gaussian", smoothing=bj.blur(0.1))
    tree = bj.agglomerate(problem)
    ASKING[name](problem, tree)
    with pytest.raises(ValueError, match="`tree` has merge costs of another problem"):
        ASKING[name](problem.replace(smoothing="auto"), tree)


def test_an_equal_problem_is_the_same(weighted):
    tree = bj.agglomerate(weighted)
    equal = bj.Problem(WARD, family="ward", weights=HEAVY)
    assert bj.certify(equal, tree).holds()
    # Known once, it costs no second replay.
    assert bj.certify(equal, tree) == bj.certify(weighted, tree)


def test_another_precision_is_the_same_problem(rng):
    problem = bj.Problem(rng.normal(size=(12, 3)), family="gaussian")
    tree = bj.agglomerate(problem)
    with jax.enable_x64(False):
        single = jax.tree.map(lambda leaf: np.asarray(jnp.asarray(leaf)), tree)
        features = bj.dendrogram_features(problem, single, num_features=2)
    wanted = bj.dendrogram_features(problem, tree, num_features=2)
    np.testing.assert_allclose(features, wanted)


# Calls of before


@pytest.mark.parametrize(
    "call",
    [
        lambda tree: bj.replay(tree, X),
        lambda tree: bj.certify(tree, X),
        lambda tree: bj.cluster_cost(X),  # pyright: ignore[reportArgumentType]
        lambda tree: bj.merge_cost(X, 0, 1),  # pyright: ignore[reportArgumentType]
        lambda tree: bj.sample_tree(X, key=0),  # pyright: ignore[reportArgumentType]
        lambda tree: sequence_log_prob(tree, X),
        lambda tree: bj.dendrogram_features(tree, X, num_features=1),
        lambda tree: bj.soft_assignments(tree, X, num_clusters=2),
        lambda tree: bj.support_values(tree, X, resampled="points"),
        lambda tree: bj.tune_smoothing(X, num_clusters=2),  # pyright: ignore[reportArgumentType]
        lambda tree: held_out_log_likelihood(tree, X, X, num_clusters=2),
    ],
)
def test_old_calls_are_told_what_to_do(call):
    tree = bj.agglomerate(X, family="ward")
    with pytest.raises(TypeError, match=r"problem = bregjax\.Problem\(x, family=…\)"):
        call(tree)


@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        ({"family": "ward"}, r"problem\.replace\(family=…\)"),
        ({"smoothing": None}, r"problem\.replace\(smoothing=…\)"),
        ({"weights": WEIGHTS}, r"problem\.replace\(weights=…\)"),
    ],
)
def test_a_problem_has_its_own(given, remedy):
    problem = bj.Problem(X, family="gaussian")
    with pytest.raises(TypeError, match=remedy):
        bj.agglomerate(problem, **given)


def test_data_alone_have_no_family():
    with pytest.raises(TypeError, match="`family` must be given with data"):
        bj.agglomerate(X)


# Costs of some of the rows


def test_costs_by_numbers_of_rows():
    """Ward's method by hand: Δ = ab/(a + b) · d²/2, φ = half the scatter."""
    problem = bj.Problem(WARD, family="ward", weights=HEAVY)
    assert bj.merge_cost(problem, 0, 1) == pytest.approx(4 / 5 / 2)
    assert bj.merge_cost(problem, 2, [1]) == pytest.approx(36 / 13 * 16 / 2)
    union = bj.merge_cost(problem, [0, 1], 2)
    assert union == pytest.approx(45 / 14 * 4.2**2 / 2)
    assert union == pytest.approx(bj.merge_cost(problem, [1, 0], [2], direct=True))
    assert bj.cluster_cost(problem, [0, 1]) == pytest.approx(4 / 5 / 2)
    assert bj.cluster_cost(problem) == pytest.approx(4 / 5 / 2 + union)
    assert bj.cluster_cost(problem, 1) == 0


def test_costs_by_booleans():
    problem = bj.Problem(WARD, family="ward", weights=HEAVY)
    first = np.array([True, True, False])
    wanted = bj.merge_cost(problem, [0, 1], 2)
    assert bj.merge_cost(problem, first, ~first) == wanted
    assert bj.cluster_cost(problem, first) == bj.cluster_cost(problem, [0, 1])


def test_costs_of_parts_keep_the_bandwidth_of_the_whole(rng):
    problem = bj.Problem(rng.normal(size=(9, 2)), family="gaussian")
    tree = bj.agglomerate(problem)
    for node, cost in enumerate(tree.merge_costs, start=9):
        a, b = (tree.members(child) for child in tree.children[node - 9])
        assert bj.merge_cost(problem, a, b) == pytest.approx(cost)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (0, 3, "`b` must be row numbers from 0 to 2; got 3"),
        (-1, 0, "`a` must be row numbers from 0 to 2; got -1"),
        ([0, 1], [1, 2], "`a` and `b` must have no row in common; got row 1 in both"),
        ([0, 0], 1, "`a` must name each row once; got row 0 twice. Say so by its weig"),
        ([], 1, "`a` must be numbers of rows, one or several, or 3 booleans"),
        (0.5, 1, "`a` must be numbers of rows"),
        ([True, False], 1, "`a` must be numbers of rows"),
        ([False] * 3, 1, "`a` must be numbers of rows"),
    ],
)
def test_what_names_no_rows_is_refused(a, b, message, weighted):
    with pytest.raises(ValueError, match=message):
        bj.merge_cost(weighted, a, b)


def test_row_numbers_are_static(weighted):
    with pytest.raises(TypeError, match="`a` must be known row numbers, static under"):
        jax.jit(lambda a: bj.merge_cost(weighted, a, 1))(0)
    with pytest.raises(ValueError, match="`members` must be row numbers from 0 to 2"):
        bj.cluster_cost(weighted, [7])


# Problems that a transformation or jax.tree.map has rebuilt


def rebuilt(problem, **fields):
    """As `jax.tree.map` leaves it: nothing has looked at it."""
    names = ("x", "family", "smoothing", "weights")
    return bj.Problem._from_fields(
        **{name: getattr(problem, name) for name in names} | fields
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"weights": np.array([1.0, 1.0, -2.0])},
            "must be positive; got -2.0 at row 2",
        ),
        ({"x": np.array([[0.0], [np.nan], [1.0]])}, "must be finite; got nan at row 1"),
        ({"smoothing": -1.0}, "`smoothing` must have `bandwidth` positive"),
    ],
)
def test_what_was_rebuilt_is_checked_again(fields, message):
    problem = bj.Problem([[0.0], [1.0], [5.0]], family="isotropic_gaussian")
    if "smoothing" in fields:
        fields = {"smoothing": jax.tree.map(lambda h: -h, problem.smoothing)}
    wrong = rebuilt(problem, **fields)
    for call in (bj.agglomerate, lambda p: bj.replay(p, [[0, 1], [2, 3]])):
        with pytest.raises(ValueError, match=message):
            call(wrong)


def test_codes_of_levels_are_checked_again():
    problem = bj.Problem([["a", "x"], ["b", "y"], ["a", "y"]], family="categorical")
    same = bj.agglomerate(jax.tree.map(lambda leaf: leaf, problem))
    np.testing.assert_allclose(same.merge_costs, bj.agglomerate(problem).merge_costs)
    with pytest.raises(ValueError, match="must hold codes of levels; got 0.5"):
        bj.agglomerate(jax.tree.map(lambda leaf: leaf + 0.5, problem))


def test_a_batch_of_problems_is_no_problem():
    problem = bj.Problem([[0.0], [1.0], [5.0]], family="ward")
    batch = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), problem)
    with pytest.raises(ValueError, match="must be one problem, with a weight a row"):
        bj.cluster_cost(batch)
    costs = jax.vmap(bj.cluster_cost)(batch)
    np.testing.assert_allclose(costs, bj.cluster_cost(problem), rtol=1e-6)


def test_a_problem_is_nobody_else_s():
    x, weights, bandwidth = np.array([[0.0], [1.0], [5.0]]), np.ones(3), np.ones(1)
    problem = bj.Problem(
        x, family="diagonal_gaussian", smoothing=bj.blur(bandwidth), weights=weights
    )
    tree = bj.agglomerate(problem)
    for array in (x, weights, bandwidth):
        array *= 10
    np.testing.assert_array_equal(bj.replay(problem, tree), tree.merge_costs)
    with pytest.raises(ValueError, match="read-only"):
        problem.x[0] = 1


def test_a_gradient_by_the_problem_chooses_its_arithmetic(rng):
    # In float32 log-determinants would lose 2 % of the last cost.
    problem = bj.Problem(
        rng.normal(size=(20, 3)), family="gaussian", smoothing=bj.blur(1e-3)
    )
    children = bj.agglomerate(problem).children
    last = lambda problem: bj.replay(problem, children)[-1]
    slope = jax.grad(last)(problem).smoothing.bandwidth
    at = lambda h: last(problem.replace(smoothing=bj.blur(h)))
    with jax.enable_x64(True):
        exact = jax.grad(at)(1e-3)
    np.testing.assert_allclose(slope, exact, rtol=1e-4)


@pytest.mark.parametrize(
    "family", [bj.NegativeBinomial(2), bj.Laplace(0), bj.SphericalGaussian(2)]
)
def test_whole_parameters_differentiate(family):
    problem = bj.Problem([[1, 2], [3, 7], [2, 4]], family=family)
    children = bj.agglomerate(problem).children
    (slope,) = jax.tree.leaves(
        jax.grad(lambda p: bj.replay(p, children)[-1])(problem).family
    )
    assert np.isfinite(slope)
    assert slope != 0


def test_other_numbers_of_rows_and_columns():
    problem = bj.Problem(X, family="diagonal_gaussian", smoothing=bj.blur(0.5))
    assert problem.replace(x=X[:3]).num_points == 3
    with pytest.raises(ValueError, match="pass `family` again to `replace`"):
        problem.replace(x=np.ones((4, 9)))
    with pytest.raises(ValueError, match="must have one bandwidth"):
        problem.replace(smoothing=bj.blur(np.ones(11)))


def test_a_mapped_problem_is_shown():
    problem = bj.Problem(X, family="ward")
    assert "dtype" in repr(jax.tree.map(lambda leaf: leaf.dtype, problem))


def test_nodes_are_whole_numbers():
    problem = bj.Problem([[0.0], [1.0], [5.0]], family="ward")
    with pytest.raises(ValueError, match="whole numbers of nodes"):
        bj.replay(problem, [[0.4, 1.0], [2.0, 3.0]])


def test_auto_is_said_or_not():
    problem = bj.Problem(X, family="gaussian", smoothing=bj.blur(0.5))
    with pytest.raises(TypeError, match="`smoothing` must not be given beside"):
        bj.agglomerate(problem, smoothing="auto")
