"""Products of families: held against the sums of their parts."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bregjax as bj
from bregjax.objectives import held_out_log_likelihood

NAN = np.nan
ENGINES = ("matrix", "recompute", "windowed")


def mixed(m=20, seed=0):
    """Two numbers, a count and a category."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, m)
    return {
        "u": rng.normal(4 * group, 1.0),
        "v": rng.normal(-2 * group, 1.0),
        "visits": rng.poisson(2 + 6 * group).astype(float),
        "town": rng.choice(["Bonn", "Kiel", "Ulm"], m).tolist(),
    }


FAMILIES = {("u", "v"): "gaussian", "visits": "poisson", "town": "categorical"}


def parts_of(data, smoothing=None):
    """The problem of each block alone."""
    numbers = np.stack([data["u"], data["v"]], axis=1)
    smoothing = bj.normal_reference(numbers) if smoothing is None else smoothing
    return [
        bj.Problem(numbers, family="gaussian", smoothing=smoothing),
        bj.Problem(np.asarray(data["visits"])[:, None], family="poisson"),
        bj.Problem([[town] for town in data["town"]], family="categorical"),
    ]


def test_several_columns_of_categories():
    """Case 114."""
    rows = [list(row) for row in ("112", "200", "220", "021")]
    expected = [1.38629436, 4.15888308, 6.93147181]
    families = [
        "categorical",
        bj.Product({(0, 1, 2): "categorical"}),
        bj.Product({0: "categorical", (2, 1): "categorical"}),
        bj.Product({(0, 1, 2): "categorical"}, missing="observed"),
    ]
    for family in families:
        costs = bj.agglomerate(rows, family=family).merge_costs
        np.testing.assert_allclose(costs, expected, rtol=1e-8)


def test_mixed_data_as_one_log_partition_function():
    """Case 113: ½g² + e^p + logsumexp(c, 0), as a ψ of one's own and as a product."""
    rng = np.random.default_rng(2)
    g, p, c = rng.normal(size=6), rng.poisson(3.0, 6), rng.integers(0, 2, 6)

    def psi(theta):
        counts, yes = jnp.exp(theta["p"]), jnp.logaddexp(theta["c"], 0)
        return theta["g"] ** 2 / 2 + counts + yes

    own = bj.ExponentialFamily(
        psi,
        lambda row: {"g": row[0], "p": row[1], "c": row[2]},
        {"g": 0.0, "p": 0.0, "c": 0.0},
    )
    x = np.stack([g, p, c], axis=1)
    family = bj.Product({0: "ward", 1: "poisson", 2: "categorical"})
    smoothing = bj.pseudo_count({"g": 0.0, "p": 3.0, "c": 0.5}, 1e-9)
    problem = bj.Problem(x, family=family)
    tree = bj.agglomerate(problem)
    np.testing.assert_allclose(
        bj.replay(bj.Problem(x, family=own, smoothing=smoothing), tree),
        tree.merge_costs,
        rtol=1e-5,
        atol=1e-6,
    )


def test_costs_are_the_sums_of_the_parts():
    data = mixed()
    problem = bj.Problem(data, family=bj.Product(FAMILIES))
    trees = [bj.agglomerate(problem, engine=engine) for engine in ENGINES]
    for tree, engine in zip(trees, ENGINES, strict=True):
        np.testing.assert_array_equal(tree.children, trees[0].children, engine)
        by_part = [bj.replay(part, tree) for part in parts_of(data)]
        np.testing.assert_allclose(
            tree.merge_costs, sum(by_part), rtol=1e-10, err_msg=engine
        )
    certificate = bj.certify(problem, trees[0])
    assert certificate.excess == 0
    assert certificate.holds(1e-10)
    step = np.arange(19)
    wrong = np.stack([np.where(step == 0, 0, 19 + step), step + 1], axis=1)
    assert bj.certify(problem, wrong).excess > 0


def test_densities_are_the_sums_of_the_parts():
    data, new = mixed(), mixed(7, seed=1)
    problem = bj.Problem(data, family=bj.Product(FAMILIES))
    tree = bj.agglomerate(problem)
    parts = parts_of(data)
    numbers = np.stack([new["u"], new["v"]], axis=1)
    rows = [numbers, new["visits"][:, None], [[town] for town in new["town"]]]
    alone = sum(
        held_out_log_likelihood(part, tree, row, num_clusters=1)
        for part, row in zip(parts, rows, strict=True)
    )
    together = held_out_log_likelihood(problem, tree, new, num_clusters=1)
    np.testing.assert_allclose(together, alone, rtol=1e-10)
    shares = [
        bj.soft_assignments(part, tree.children, row, num_clusters=2)
        for part, row in zip(parts, rows, strict=True)
    ]
    prior = np.bincount(tree.cut(2)) / 20
    odds = [
        np.log(share[:, 1] / share[:, 0]) - np.log(prior[1] / prior[0])
        for share in shares
    ]
    found = bj.soft_assignments(problem, tree, new, num_clusters=2)
    expected = sum(odds) + np.log(prior[1] / prior[0])
    np.testing.assert_allclose(
        np.log(found[:, 1] / found[:, 0]), expected, rtol=1e-7, atol=1e-7
    )


@pytest.mark.parametrize("missing", ["auto", "observed"])
def test_a_weight_of_two_is_the_column_twice(missing):
    data = mixed()
    families = {"u": "ward", "visits": "poisson", "town": "categorical"}
    heavy = bj.Product(families, weights={"visits": 2.0, "town": 2}, missing=missing)
    twice = {**data, "visits2": data["visits"], "town2": data["town"]}
    families |= {"visits2": "poisson", "town2": "categorical"}
    double = bj.Product(families, missing=missing)
    costs = [
        bj.agglomerate(table, family=family).merge_costs
        for table, family in ((data, heavy), (twice, double))
    ]
    np.testing.assert_allclose(costs[0], costs[1], rtol=1e-10, atol=1e-14)
    problems = [bj.Problem(data, family=heavy), bj.Problem(twice, family=double)]
    tree = bj.agglomerate(problems[0])
    shares = [bj.soft_assignments(one, tree, num_clusters=3) for one in problems]
    np.testing.assert_allclose(shares[0], shares[1], rtol=1e-8)


def test_a_weight_of_two_in_a_block_of_several():
    data = mixed()
    family = bj.Product({("u", "v"): "ward"}, weights={"v": 2.0})
    scaled = {"u": data["u"], "v": np.sqrt(2) * np.asarray(data["v"])}
    costs = bj.agglomerate(data, family=family).merge_costs
    same = bj.agglomerate(scaled, family=bj.Product({("u", "v"): "ward"})).merge_costs
    np.testing.assert_allclose(costs, same, rtol=1e-10)


def test_it_is_a_family(x64):
    del x64
    data = mixed()
    problem = bj.Problem(data, family=bj.Product(FAMILIES))
    family: Any = problem.family
    mean = (
        (jnp.array([0.5, -0.2]), jnp.array([[1.5, 0.1], [0.1, 2.0]])),
        jnp.array([3.0]),
        family.families[2].natural_to_mean(
            family.families[2].natural_init + jnp.array([0.1, -0.3, 0.2])
        ),
    )
    natural = jax.jit(family.mean_to_natural)(mean)
    back = jax.jit(family.natural_to_mean)(natural)
    for got, want in zip(jax.tree.leaves(back), jax.tree.leaves(mean), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-9)
    parts = [f.log_partition(n) for f, n in zip(family.families, natural, strict=True)]
    np.testing.assert_allclose(family.log_partition(natural), sum(parts), rtol=1e-12)
    row = problem.x[3]
    cells = (row[:2], row[2:3], row[3:])
    expected = sum(
        f.log_prob(x, n)
        for f, x, n in zip(family.families, cells, natural, strict=True)
    )
    np.testing.assert_allclose(family.log_prob(row, natural), expected, rtol=1e-10)
    init = family.natural_init
    assert jax.tree.structure(natural) == jax.tree.structure(init)
    kl = [
        f.kl_divergence(p, q)
        for f, p, q in zip(family.families, natural, init, strict=True)
    ]
    np.testing.assert_allclose(family.kl_divergence(natural, init), sum(kl))


@pytest.mark.parametrize("missing", ["auto", "scaled"])
def test_repr_makes_the_family_again(missing):
    data = mixed()
    data["visits"][3] = NAN
    family = bj.Product(FAMILIES, weights={"visits": 0.5, "u": 1.0}, missing=missing)
    problem = bj.Problem(data, family=family)
    again = eval(repr(problem.family), dict(vars(bj)))
    assert repr(again) == repr(bj.Problem(data, family=again).family)
    tree, same = (bj.agglomerate(data, family=one) for one in (family, again))
    np.testing.assert_array_equal(tree.children, same.children)
    np.testing.assert_array_equal(tree.merge_costs, same.merge_costs)


def test_smoothing_by_column():
    data = mixed()
    center = np.array([4.0])
    smoothing = {"visits": bj.pseudo_count(center, 0.5), "u": bj.blur(0.7)}
    problem = bj.Problem(data, family=bj.Product(FAMILIES), smoothing=smoothing)
    tree = bj.agglomerate(problem)
    parts = parts_of(data, bj.blur(0.7))
    parts[1] = parts[1].replace(smoothing=bj.pseudo_count(center, 0.5))
    by_part = [bj.replay(part, tree) for part in parts]
    np.testing.assert_allclose(tree.merge_costs, sum(by_part), rtol=1e-10)
    both = bj.blur(0.7)
    whole = bj.Problem(
        data, family=bj.Product(FAMILIES), smoothing={("u", "v"): both, "town": None}
    )
    auto = bj.Problem(data, family=bj.Product(FAMILIES), smoothing={"u": both})
    np.testing.assert_array_equal(bj.replay(whole, tree), bj.replay(auto, tree))


def test_what_does_not_fit_is_said():
    data = mixed()
    product = bj.Product
    with pytest.raises(ValueError, match="'age'"):
        bj.Problem(data, family=product({"age": "poisson"}))
    with pytest.raises(ValueError, match="each column once; got 'u' in 2 places"):
        product({"u": "poisson", ("u", "v"): "gaussian"})
    with pytest.raises(ValueError, match="must have a column at least"):
        product({})
    with pytest.raises(TypeError, match="must map columns to families"):
        product([bj.Poisson()])  # pyright: ignore
    with pytest.raises(TypeError, match="got Poisson"):
        product({"u": bj.Poisson})  # pyright: ignore
    with pytest.raises(ValueError, match="`weights` has column 'w'"):
        product({"u": "poisson"}, weights={"w": 1.0})
    with pytest.raises(ValueError, match="`weights` must be positive; got 0"):
        product({"u": "poisson"}, weights={"u": 0.0})
    with pytest.raises(ValueError, match="must hold numbers in column 'town'"):
        bj.Problem(data, family=product({"town": "poisson"}))
    with pytest.raises(ValueError, match="non-negative.*column 'v'"):
        bj.Problem(data, family=product({("visits", "v"): "poisson"}))

    def smoothed(smoothing):
        return bj.Problem(data, family=product(FAMILIES), smoothing=smoothing)

    with pytest.raises(ValueError, match="`smoothing` has column 'age'"):
        smoothed({"age": bj.blur(1.0)})
    with pytest.raises(ValueError, match="one map for the columns of a block"):
        smoothed({"u": bj.blur(1.0), "v": bj.blur(2.0)})
    with pytest.raises(TypeError, match="must be a mapping of columns"):
        smoothed(bj.blur(1.0))
    with pytest.raises(TypeError):
        smoothed({"visits": bj.blur(1.0)})


def test_holes_in_blocks_of_whole_rows_are_refused():
    data = mixed()
    data["v"][4] = NAN
    with pytest.raises(ValueError, match="whole rows; got nan at row 4, column 'v'"):
        bj.Problem(data, family=bj.Product(FAMILIES))
    data["v"][4], data["town"][4] = 0.0, None
    problem = bj.Problem(data, family=bj.Product(FAMILIES))
    assert np.isnan(problem.x[4, 3])


def test_levels_not_seen_before_count_as_missing():
    data = mixed()
    family = bj.Product(FAMILIES, missing="observed")
    problem = bj.Problem(data, family=family)
    tree = bj.agglomerate(problem)
    new = {**mixed(3, seed=4), "town": ["Bonn", "Rom", "Kiel"]}
    without = {**new, "town": ["Bonn", None, "Kiel"]}
    with pytest.warns(UserWarning, match="'Rom' in column 'town'.*count as missing"):
        found = bj.soft_assignments(problem, tree, new, num_clusters=3)
    same = bj.soft_assignments(problem, tree, without, num_clusters=3)
    np.testing.assert_array_equal(found, same)
    assert np.all(np.isfinite(found))


def test_columns_of_new_rows_go_by_name():
    data, new = mixed(), mixed(5, seed=3)
    problem = bj.Problem(data, family=bj.Product(FAMILIES))
    tree = bj.agglomerate(problem)
    turned = dict(reversed(new.items())) | {"more": [0.0] * 5}
    features = [
        bj.dendrogram_features(problem, tree, rows, num_features=3)
        for rows in (new, turned)
    ]
    np.testing.assert_array_equal(features[0], features[1])
    with pytest.raises(ValueError, match="`rows`.*'visits'"):
        bj.dendrogram_features(
            problem, tree, {"u": [1.0], "v": [1.0], "town": ["Ulm"]}, num_features=1
        )


def test_tuning():
    data = mixed(16)
    data["visits"][2] = NAN
    families = {"u": "diagonal_gaussian", "visits": "poisson"}
    smoothing = {"visits": bj.pseudo_count(np.array([4.0]), 0.5)}
    problem = bj.Problem(data, family=bj.Product(families), smoothing=smoothing)
    found = bj.tune_smoothing(problem, num_clusters=2, max_steps=6)
    assert found.value > found.history[0]
    before, after = (jax.tree.leaves(one.smoothing) for one in (problem, found.problem))
    changed = [not np.array_equal(*pair) for pair in zip(before, after, strict=True)]
    assert any(changed)


def test_replay_of_a_batch(x64):
    del x64
    data = mixed(8)
    data["visits"][2] = NAN
    problem = bj.Problem(data, family=bj.Product(FAMILIES))
    tree = bj.agglomerate(problem)
    weights = np.random.default_rng(0).uniform(1, 2, (3, 8))

    def costs(weights):
        return bj.replay(problem.replace(weights=weights), tree)

    batch = jax.jit(jax.vmap(costs))(weights)
    alone = np.stack([costs(row) for row in weights])
    np.testing.assert_allclose(batch, alone, rtol=1e-9, atol=1e-12)
    with jax.enable_x64(False):
        single = jax.jit(bj.replay)(problem, tree)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, tree.merge_costs, rtol=1e-4, atol=1e-4)


def test_solved_and_closed_blocks_together():
    data = mixed(12)
    data["share"] = np.random.default_rng(1).beta(2, 3, 12)
    data["visits"][2] = NAN
    family = bj.Product({"visits": "poisson", "share": "beta", "u": "ward"})
    problem = bj.Problem(data, family=family)
    tree = bj.agglomerate(problem)
    keep = np.arange(12) != 2
    total = bj.cluster_cost(
        bj.Problem(np.asarray(data["visits"])[keep, None], family="poisson")
    )
    for column, name in (("share", "beta"), ("u", "ward")):
        one = np.asarray(data[column])[:, None]
        total += bj.cluster_cost(bj.Problem(one, family=name))
    np.testing.assert_allclose(np.sum(tree.merge_costs), total, rtol=1e-9)
    same = bj.agglomerate(problem, engine="recompute")
    np.testing.assert_array_equal(tree.children, same.children)
    assert bj.certify(problem, tree).holds(1e-8)


def test_columns_named_by_numbers_go_by_name():
    table = {10: [1.0, 5.0, 2.0, 8.0], 20: [100.0, 120.0, 90.0, 300.0]}
    problem = bj.Problem(table, family=bj.Product({10: "poisson", 20: "poisson"}))
    tree = bj.agglomerate(problem)
    turned = dict(reversed(table.items()))
    features = [
        bj.dendrogram_features(problem, tree, rows, num_features=2)
        for rows in (table, turned)
    ]
    np.testing.assert_array_equal(features[0], features[1])


def test_holes_of_traced_rows_are_not_filled():
    """Where nothing says that cells may be missing, NaN stays NaN."""
    x = np.array([[1.0, 2.0], [NAN, 3.0], [4.0, 5.0]])
    tree = [[0, 1], [2, 3]]
    family = bj.Product({(0, 1): "poisson"})

    def costs(x):
        return bj.replay(bj.Problem(x, family=family), tree)

    def observed(x):
        problem = bj.Problem(x, family=family, missing="observed")
        return bj.replay(problem, tree)

    assert np.all(np.isnan(jax.jit(costs)(x)))
    expected = bj.replay(bj.Problem(x, family=family), tree)
    np.testing.assert_allclose(jax.jit(observed)(x), expected, rtol=1e-5)
