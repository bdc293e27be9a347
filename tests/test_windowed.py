"""The windowed engine against one merge at a time, on data made to trip it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hostile_cases import HOSTILE, LOCATIONS, ORDINARY, SOLVED, badly_scaled, leaves_of
from hostile_cases import greedy as one_at_a_time

from bregjax import Problem
from bregjax.clusters import BregmanModel, Moments, VarianceModel
from bregjax.convex import SquaredNorm
from bregjax.families import FAMILIES
from bregjax.hierarchy import agglomerate, certify
from bregjax.hierarchy._engine_windowed import windowed
from bregjax.hierarchy._windowed.neighbours.neighbours import Neighbours
from bregjax.hierarchy._windowed.store import kernels
from bregjax.hierarchy._windowed.store.store import Store
from bregjax.hierarchy._windowed.windows.schedule import WindowMerges, schedule
from bregjax.hierarchy._windowed.windows.window import Ending, merge_window
from bregjax.smoothing import blur

M = 48  # one size for all small cases: they share what compiles


def run(x, family, **options):
    """Tree and what the windowed engine did."""
    tree, info = agglomerate(
        x, family=family, engine="windowed", return_info=True, **options
    )
    assert info.windowed is not None
    return tree, info.windowed


def same_as_one_at_a_time(x, family, **options):
    """The engine's inversions and failed checks, once its tree is greedy's."""
    tree, info = run(x, family, **options)
    children, costs = one_at_a_time(*leaves_of(x, family, **options), len(x))
    np.testing.assert_array_equal(tree.children, children)
    np.testing.assert_allclose(tree.merge_costs, costs, rtol=1e-9)
    return tree.num_inversions(), info.failed_checks


def slow_if(condition, *values):
    marks = [pytest.mark.slow] if condition else []
    return pytest.param(*values, marks=marks)


SLOW = {*SOLVED, "quartic", "log_sum_exp"}
COSTLY_HOSTILE = {"quartic", "quartic_tails", "near_kink", "log_sum_exp"}
FAST_HOSTILE = {"exponential", "bernoulli", "diagonal_gaussian", "quartic_tails"}


@pytest.mark.filterwarnings("ignore:`smoothing` is one bandwidth:UserWarning")
@pytest.mark.parametrize("name", [slow_if(n in SLOW, n) for n in sorted(ORDINARY)])
def test_every_cost_on_plain_weighted_and_badly_scaled_rows(name, rng):
    case = ORDINARY[name]
    for _ in range(4 if name not in ("gaussian", "quartic", *SOLVED) else 1):
        x = case.rows(rng, M)
        weights = rng.uniform(0.2, 5, M)
        same_as_one_at_a_time(x, case.family)
        same_as_one_at_a_time(x, case.family, weights=weights)
        same_as_one_at_a_time(badly_scaled(name, x), case.family)


@pytest.mark.parametrize(
    "name", [slow_if(n not in FAST_HOSTILE, n) for n in sorted(HOSTILE)]
)
def test_hostile_rows(name):
    case = HOSTILE[name]
    for seed in range(2 if name in COSTLY_HOSTILE else 4):
        rng = np.random.default_rng(seed)
        x = case.rows(rng, M)
        same_as_one_at_a_time(x, case.family)
        same_as_one_at_a_time(x, case.family, weights=rng.uniform(0.1, 5, M))


def clusters(rng, m, dim):
    """Gaussians of any weight and width: of all costs the least reducible."""
    weight = rng.integers(1, 30, m).astype(float)
    variance = np.exp(2 * rng.normal(size=(m, dim)) - 2)
    return gaussian_leaves(weight, 3 * rng.normal(size=(m, dim)), variance)


def gaussian_leaves(weight, mean, variance):
    model = VarianceModel("diagonal")
    moments = Moments(jnp.asarray(mean), jnp.asarray(variance), "diagonal")
    return model, model.leaves(moments, jnp.asarray(weight))


def test_failed_checks_happen_and_are_repaired(x64):
    """Windows undone and made again, in most of these runs; the trees are greedy's."""
    failed = single = inversions = 0
    for seed in range(25):
        leaves = clusters(np.random.default_rng(seed), M, 4)
        children, costs, info = windowed(*leaves, M)
        expected, heights = one_at_a_time(*leaves, M)
        np.testing.assert_array_equal(children, expected)
        np.testing.assert_allclose(costs, heights, rtol=1e-9)
        failed += info.failed_checks
        single += info.single_steps
        inversions += np.count_nonzero(np.diff(costs) < 0)
    assert failed >= 10
    assert single >= 10
    assert inversions >= 10


@pytest.mark.slow
@pytest.mark.parametrize(("m", "dim"), [(48, 1), (48, 4), (120, 2), (120, 10)])
def test_many_hostile_clusters(m, dim, x64):
    for seed in range(100 if m < 100 else 40):
        leaves = clusters(np.random.default_rng(seed), m, dim)
        children = windowed(*leaves, m)[0]
        np.testing.assert_array_equal(children, one_at_a_time(*leaves, m)[0])


@pytest.mark.parametrize("tiny", [1e-4, 1e-9, 1e-30])
def test_a_bound_that_cannot_be_had_hides_no_pair(tiny, x64):
    """A variance out of float32's reach, in a group with slots that hold nothing."""
    variance = np.array([[0.2, tiny], [0.5, 1.0], [1.5, 1.0]])
    model, leaves = gaussian_leaves(np.ones(3), np.zeros((3, 2)), variance)
    store = Store(model, model.screen(leaves), leaves, 3)
    alive = np.arange(store.capacity) < 3
    rows, columns = np.array([1, 2]), np.array([0, 0])
    (block,) = store.screened([(rows, alive)])
    cost = store.costs(columns, rows)
    place, column = block.pairs_within(cost)
    assert {(0, 0), (1, 0)} <= set(zip(place, column, strict=True))
    limit = np.full(store.capacity, -np.inf)
    for row in (0, 1):
        limit[0] = cost[row]
        place, slot = block.pairs_within_columns(limit)
        assert np.any((slot == 0) & (place == row))


def test_a_window_that_greedy_would_not_have_made(x64):
    """Six one-dimensional Gaussians: within the threshold rounds give YZ and ABU.

    Greedy gives YZ, AB, UV. U and V, an old survivor, cost less than ABU, which comes
    later than U's end allows for: insiders alone would not tell.
    """
    names = "ABUVYZ"
    weight = np.array([10.0, 2, 3, 11, 23, 14])
    mean = np.array([0.1089, -4.1841, 4.5027, 2.6587, 1.7901, 1.6101])
    variance = np.array([0.3238, 0.0330, 0.0138, 0.1514, 0.2213, 0.0557])
    model, leaves = gaussian_leaves(weight, mean[:, None], variance[:, None])
    store = Store(model, kernels.screen(model, leaves), leaves, 6)
    clusters = Neighbours.of(store)
    clusters.search()
    window = merge_window(clusters, 15.31)
    assert window.ending is Ending.IN_PART
    merges = window.merges
    assert window.tried == 3
    assert [names[k] for k in (*merges.first, *merges.second)] == ["Y", "Z"]
    assert clusters.store.used == 7
    np.testing.assert_array_equal(clusters.active, [0, 1, 2, 3, 6])
    children, _, _ = windowed(model, leaves, 6)
    np.testing.assert_array_equal(children, one_at_a_time(model, leaves, 6)[0])
    pairs = {"".join(names[i] for i in pair) for pair in children[:3]}
    assert pairs == {"YZ", "AB", "UV"}


def test_a_window_that_greedy_makes_too(x64, rng):
    """The check passes where costs are reducible."""
    model, leaves = leaves_of(rng.normal(size=(M, 3)), "ward")
    clusters = Neighbours.of(Store(model, kernels.screen(model, leaves), leaves, M))
    clusters.search()
    window = merge_window(clusters, np.median(clusters.bound[:M]))
    assert window.ending is Ending.GREEDY
    assert window.tried == len(window.merges.cost)
    merges = window.merges
    assert len(merges.cost) > 5
    expected, _ = one_at_a_time(model, leaves, M)
    members = {slot: frozenset([slot]) for slot in range(M)}
    for first, second, union in zip(*merges[:3], strict=True):
        members[union] = members[first] | members[second]
    sets = [members[union] for union in merges.union]
    made = [frozenset([leaf]) for leaf in range(M)]
    for first, second in expected[: len(merges.cost)]:
        made.append(made[first] | made[second])
    assert sets == made[M:]


def test_the_schedule_takes_the_first_that_can_be_made():
    """A union that costs less than its part waits for it, and then goes first."""
    first, second = np.array([0, 2, 6]), np.array([1, 3, 4])
    union, cost = np.array([6, 7, 8]), np.array([3.0, 2.0, 1.0])
    keys = np.zeros(3, np.uint32)
    rounds, mutual = np.array([1, 1, 2]), np.ones(3, bool)
    merges = WindowMerges(first, second, union, cost, keys, rounds, mutual)
    order = schedule(merges)
    assert order.tolist() == [1, 0, 2]
    keys = np.array([5, 9, 1], np.uint32)
    equal = merges._replace(cost=np.ones(3), key=keys)
    assert schedule(equal).tolist() == [0, 2, 1]


# --- Ties and duplicates --------------------------------------------------------------


def test_a_line_of_equal_gaps_takes_few_rounds():
    x = np.arange(600.0)[:, None]
    tree, info = run(x, "ward")
    assert info.rounds < 100
    assert certify(Problem(x, family="ward"), tree).relative <= 1e-12


@pytest.mark.parametrize("family", ["poisson", "multinomial", "diagonal_gaussian"])
def test_ties_pass_the_certificate(family):
    for high in (2, 4, 12):
        rng = np.random.default_rng(high)
        x = 1 + rng.integers(0, high, size=(M, 4 if family == "multinomial" else 2))
        tree, info = run(x, family)
        assert certify(Problem(x, family=family), tree).holds(1e-10)
        again, repeated = run(x, family)
        np.testing.assert_array_equal(tree.children, again.children)
        np.testing.assert_array_equal(tree.merge_costs, again.merge_costs)
        assert info == repeated


def test_duplicates_merge_first(rng):
    places = rng.normal(size=(3, 1))
    x = places[rng.integers(0, 3, 600)]
    tree, info = run(x, "ward")
    assert info.duplicates == 597
    assert info.rounds <= 2
    np.testing.assert_array_equal(tree.merge_costs[:597], 0)
    assert tree.merge_costs[597] > 0
    labels = tree.cut(num_clusters=3)
    assert len(np.unique(np.column_stack([labels, x[:, 0]]), axis=0)) == 3


@pytest.mark.parametrize("family", ["ward", "poisson", "diagonal_gaussian"])
def test_duplicates_are_weights(family, rng):
    """The tree above the duplicates is that of weighted rows."""
    x = ORDINARY[family].rows(rng, M // 2)
    counts = np.ones(M // 2, int)
    counts[: M // 4] = 3
    smoothing = blur(0.5) if family == "diagonal_gaussian" else "auto"
    once, _ = run(x, family, weights=counts, smoothing=smoothing)
    repeated, info = run(np.repeat(x, counts, axis=0), family, smoothing=smoothing)
    assert info.duplicates == M // 2
    np.testing.assert_allclose(
        repeated.merge_costs[M // 2 :], once.merge_costs, rtol=1e-9
    )
    leaf = np.repeat(np.arange(M // 2), counts)
    for clusters_left in (2, 5, 11):
        labels = repeated.cut(num_clusters=clusters_left)
        expected = once.cut(num_clusters=clusters_left)[leaf]
        np.testing.assert_array_equal(labels, expected)


# --- What it reports, and what disturbs it --------------------------------------------


@pytest.mark.usefixtures("windows_of_few")
def test_what_is_reported_adds_up(rng):
    x = rng.gamma(2.0, size=(M, 2))
    x[M // 2 :] = x[: M // 2]
    tree, info = run(x, "poisson")
    assert info.duplicates == np.count_nonzero(tree.merge_costs == 0) == M // 2
    assert info.windows <= info.rounds
    assert 0 <= info.rescans < info.searches
    if info.failed_checks == info.overflows == 0:
        clusters_left = tree.num_leaves - info.duplicates
        assert info.single_steps == 0
        assert info.searches - info.rescans == 2 * clusters_left - 1


def test_progress_and_interruption(x64, rng):
    leaves = leaves_of(rng.normal(size=(M, 2)), "ward")
    seen = []
    children, costs, _ = windowed(*leaves, M, report=seen.append)
    assert seen[-1] == M - 1
    assert np.all(np.diff(seen) > 0)

    def stop(made):
        if made > M // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        windowed(*leaves, M, report=stop)
    again, same, _ = windowed(*leaves, M)
    np.testing.assert_array_equal(children, again)
    np.testing.assert_array_equal(costs, same)


def test_sizes_of_a_class_share_compilations(caplog, rng):
    """Eight size classes an octave: 96 to 103 rows are of one."""
    for m in (96, 97):
        caplog.clear()
        with jax.log_compiles(True), caplog.at_level("WARNING", logger="jax"):
            run(rng.normal(size=(m, 3)), "ward")
            first = _compiled(caplog)
    assert first > 0
    for m in (98, 103, 100):
        caplog.clear()
        with jax.log_compiles(True), caplog.at_level("WARNING", logger="jax"):
            run(rng.normal(size=(m, 3)), "ward")
        assert _compiled(caplog) == 0


def _compiled(caplog):
    messages = [record.getMessage() for record in caplog.records]
    return sum("Finished XLA compilation" in message for message in messages)


def test_results_are_float64_whatever_the_mode(dtype, rng):
    x = rng.normal(size=(M, 2)).astype(np.float32)
    tree, _ = run(x, "ward")
    assert tree.merge_costs.dtype == np.float64
    assert tree.children.dtype == np.int32
    with jax.enable_x64(dtype == np.float32):
        other, _ = run(x, "ward")
    np.testing.assert_array_equal(tree.children, other.children)
    np.testing.assert_array_equal(tree.merge_costs, other.merge_costs)


def test_it_does_not_run_inside_a_transformation(rng):
    tree = jax.jit(lambda x: agglomerate(x, family="ward", engine="windowed").children)
    with pytest.raises(ValueError, match='"matrix" or "recompute" inside jit'):
        tree(rng.normal(size=(5, 2)))


@pytest.mark.parametrize("m", [1, 2, 3])
def test_few_points(m):
    x = np.array([[1.0, 2.0], [1.0, 2.0], [3.0, 4.0]])[:m]
    tree, info = run(x, "poisson")
    assert tree.children.shape == (m - 1, 2)
    assert info.duplicates == min(m - 1, 1)
    assert np.all(tree.merge_costs[:1] == 0)


@pytest.mark.parametrize("family", LOCATIONS)
def test_offsets_change_no_tree(family, rng):
    x = ORDINARY[family].rows(rng, M)
    near, _ = run(x, family)
    for offset in (1e4, 1e6):
        far, _ = run(x + offset, family)
        np.testing.assert_array_equal(near.children, far.children)
        np.testing.assert_allclose(near.merge_costs, far.merge_costs, rtol=1e-5)


@pytest.mark.parametrize(
    "family", [*LOCATIONS, "poisson", "exponential", "multinomial"]
)
def test_units_change_no_tree(family, rng):
    x = ORDINARY[family].rows(rng, M)
    before, _ = run(x, family)
    power = {"ward": 2, "poisson": 1}.get(family, 0)
    for unit in (1e-6, 1e6):
        after, _ = run(unit * x, family)
        np.testing.assert_array_equal(before.children, after.children)
        np.testing.assert_allclose(
            unit**power * before.merge_costs, after.merge_costs, rtol=1e-7
        )


def test_the_order_of_rows_changes_no_tree(rng):
    x = ORDINARY["diagonal_gaussian"].rows(rng, M)
    order = rng.permutation(M)
    before, _ = run(x, "diagonal_gaussian")
    after, _ = run(x[order], "diagonal_gaussian")
    np.testing.assert_allclose(before.merge_costs, after.merge_costs, rtol=1e-12)
    for count in (2, 7, 20):
        labels = before.cut(num_clusters=count)[order]
        pairs = np.column_stack([labels, after.cut(num_clusters=count)])
        assert len(np.unique(pairs, axis=0)) == count


def test_every_family_is_here():
    other_names = {"spherical_gaussian"}  # of "ward"
    tied = {"categorical"}  # as in test_categorical.py, with weights
    # These solve systems for each cost: the matrix engine's, and slow to compile here.
    solved = {"ising", "beta", "dirichlet"}
    assert set(FAMILIES) - other_names - tied - solved <= set(ORDINARY)


@pytest.mark.parametrize("apart", [1e6, 1.0])
def test_screens_get_more_digits_where_that_helps(apart, x64, rng):
    """Groups of points near each other and far apart drown in float32's rounding."""
    x = (
        rng.normal(size=(2000, 4))
        + apart * np.arange(4)[rng.integers(0, 4, 2000), None]
    )
    model = BregmanModel(SquaredNorm())
    leaves = model.leaves(jnp.asarray(x), jnp.ones(2000))
    clusters = Neighbours.of(Store(model, model.screen(leaves), leaves, 2000))
    clusters.search()
    sharp = apart > 1
    assert clusters.store.screen_dtype == (np.float64 if sharp else np.float32)


def test_screens_keep_their_digits_where_more_would_not_help(x64):
    """Points all as far from each other: no precision tells them apart."""
    model = BregmanModel(SquaredNorm())
    leaves = model.leaves(jnp.eye(600), jnp.ones(600))
    clusters = Neighbours.of(Store(model, model.screen(leaves), leaves, 600))
    many = clusters.store._many_left
    clusters.search()
    assert clusters.store.screen_dtype == np.float32
    assert clusters.store._many_left > many  # it was tried
