"""Engines against one-at-a-time greedy, on every family."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
import scipy.sparse
import scipy.special
from own_potentials import identity, truncated_poisson
from scipy.cluster.hierarchy import linkage

from bregjax.convex import LogSumExp, NegativeEntropy, SquaredNorm
from bregjax.families import (
    FAMILIES,
    ExponentialFamily,
    Ising,
    Poisson,
    SphericalGaussian,
)
from bregjax.hierarchy import _engines, agglomerate
from bregjax.hierarchy._engines import check_memory
from bregjax.smoothing import bernstein, blur, normal_reference, pseudo_count

M, D = 25, 3  # padded to 26 rows inside


def sample(family: str, rng, kind: str) -> np.ndarray:
    """Rows inside the sample space of a family; no ties but in "duplicated"."""
    x = rng.gamma(2.0, size=(M, D)) + 0.05
    if family == "bernoulli":
        x = x / (1 + x)
    if family in ("ward", "gaussian", "diagonal_gaussian", "isotropic_gaussian"):
        x = rng.normal(size=(M, D)) + 4 * rng.integers(0, 3, size=(M, 1))
    if kind == "scaled" and family not in ("bernoulli", "multinomial"):
        x = x * np.array([1e-3, 1.0, 1e3]) if family != "isotropic_gaussian" else x
        x = x * 1e-6
    if kind == "duplicated":
        x[M // 2 :] = x[: M - M // 2]
    return x


def default_bandwidth(family: str, x):
    if family in ("gaussian", "isotropic_gaussian"):
        return normal_reference(x).bandwidth
    if family == "diagonal_gaussian":
        return normal_reference(x, per_coordinate=True).bandwidth
    if family in POSITIVE:
        return log_bandwidth(family, x, np.ones(len(x)))
    return 0.0


POSITIVE = ("gamma", "inverse_gaussian")


def log_bandwidth(family, x, weights):
    """The root of what the default adds, twice that for gamma, to the statistics."""
    logs = np.log(x)
    bandwidth = normal_reference(logs, per_coordinate=True, weights=weights).bandwidth
    if family == "gamma":
        return bandwidth
    return bandwidth * np.exp(-0.5 * np.average(logs, axis=0, weights=weights))


KINDS = ("plain", "weighted", "scaled", "duplicated")


@pytest.mark.filterwarnings("ignore:`smoothing` is one bandwidth:UserWarning")
@pytest.mark.parametrize(
    ("family", "kind"),
    [(family, kind) for family in sorted(reference.FUNCTIONS) for kind in KINDS],
)
def test_matrix_is_greedy(family, kind, rng):
    f = reference.FUNCTIONS[family]
    for _ in range(3 if kind != "duplicated" else 1):
        x = sample(family, rng, kind)
        weights = rng.uniform(1, 5, M) if kind == "weighted" else np.ones(M)
        given = None if kind != "weighted" else weights
        smoothing = "auto"
        bandwidth = default_bandwidth(family, x)
        if given is not None and np.ndim(bandwidth) + np.sum(bandwidth) > 0:
            # The default would weigh the bandwidth too.
            smoothing = "auto" if family in POSITIVE else blur(bandwidth)
            if family in POSITIVE:
                bandwidth = log_bandwidth(family, x, weights)
        tree = agglomerate(x, family=family, weights=given, smoothing=smoothing)
        points = reference.statistics(family, x, bandwidth)
        children, costs = reference.greedy(f, points, weights)
        if kind == "duplicated":
            scale = abs(costs).max()
            assert reference.excess(f, points, weights, tree.children) < 1e-9 * scale
            np.testing.assert_allclose(
                np.sort(tree.merge_costs)[: M // 2], 0, atol=1e-12
            )
        else:
            np.testing.assert_array_equal(tree.children, children)
            np.testing.assert_allclose(tree.merge_costs, costs, rtol=2e-6, atol=1e-9)
        assert np.all(tree.merge_costs >= 0)


@pytest.mark.parametrize("family", ["ward", "poisson", "diagonal_gaussian", "gaussian"])
def test_recompute_gives_the_same_tree(family, rng):
    x = sample(family, rng, "plain")
    one = agglomerate(x, family=family, engine="recompute")
    two = agglomerate(x, family=family, engine="matrix")
    np.testing.assert_array_equal(one.children, two.children)
    np.testing.assert_array_equal(one.merge_costs, two.merge_costs)


def test_trees_that_invert(rng):
    """Trees other than Ward's do invert; the engine must not stumble on it."""
    inverted = 0
    f = reference.FUNCTIONS["exponential"]
    for _ in range(20):
        x = rng.gamma(0.3, size=(M, D)) + 1e-3
        tree = agglomerate(x, family="exponential")
        points = reference.statistics("exponential", x)
        children, _ = reference.greedy(f, points, np.ones(M))
        np.testing.assert_array_equal(tree.children, children)
        inverted += tree.num_inversions() > 0
    assert inverted > 0


def test_an_inversion_keeps_its_costs():
    """The second merge costs less than the first."""
    tree = agglomerate(np.array([[5, 0], [0, 7], [11, 9]]), family="poisson")
    np.testing.assert_allclose(tree.merge_costs, [7.39129752, 6.86188641], rtol=1e-8)
    labels = tree.cut(num_clusters=2)
    assert labels[0] == labels[2] != labels[1]


@pytest.mark.parametrize("engine", ["matrix", "recompute"])
def test_ties_are_broken_by_lowest_slots(engine):
    """Heights by hand; the first pair of equal cost merges first."""
    tree = agglomerate(np.eye(3), family="multinomial", engine=engine)
    np.testing.assert_array_equal(tree.children, [[0, 1], [2, 3]])
    expected = [2 * np.log(2), 3 * np.log(3) - 2 * np.log(2)]
    np.testing.assert_allclose(tree.merge_costs, expected, rtol=1e-12)
    line = agglomerate(np.arange(6.0)[:, None], family="ward", engine=engine)
    assert line.children[:3].tolist() == [[0, 1], [2, 3], [4, 5]]


def test_ward_is_scipy(rng):
    x = rng.normal(size=(61, 5)) + 10  # padded to 64 rows inside
    tree = agglomerate(x, family=SphericalGaussian(variance=2.5))
    z = linkage(x, "ward")
    np.testing.assert_array_equal(tree.children, z[:, :2].astype(int))
    np.testing.assert_allclose(tree.linkage(heights="ward"), z, rtol=1e-12)
    same = agglomerate(x, family=SquaredNorm()).linkage(heights="ward")
    np.testing.assert_allclose(same, z, rtol=1e-12)


@pytest.mark.parametrize(
    ("family", "x", "heights"),
    [
        ("poisson", [0, 0, 3, 5, 40], [0, 0.25267154, 5.54517744, 44.53572688]),
        ("poisson", [60000, 30000, 60000], [0, 6553.81810229]),
        ("poisson", [2, 2, 9], [0, 3.48522802]),
        (
            "multinomial",
            [[0.4, 0, 0.6], [0, 0, 1], [0.5, 0, 0.5]],
            [0.01011878, 0.45631528],
        ),
        (
            "multinomial",
            [[0.4, 0.6], [0, 1], [0.5, 0.5]],
            [0.01011878, 0.45631528],
        ),
        ("ward", [[0, 0], [1, 0], [4, 0], [4, 3]], [0.25, 2.25, 7.25]),
    ],
)
def test_heights_by_hand(family, x, heights):
    """Zeros, equal rows, large counts: every number type gives the same."""
    for dtype in (np.float64, np.float32, np.int32, np.int64, np.uint16):
        values = np.array(x)
        if not np.array_equal(values, values.astype(dtype)):
            continue
        tree = agglomerate(values.astype(dtype), family=family)
        np.testing.assert_allclose(tree.merge_costs, heights, rtol=1e-7, atol=1e-12)


def test_weights_are_repeated_rows():
    x = np.array([1.0, 4.0, 10.0])
    tree = agglomerate(x, family="poisson", weights=[3, 1, 2])
    np.testing.assert_allclose(tree.merge_costs, [1.62786693, 9.35892266], rtol=1e-8)
    repeated = agglomerate(np.repeat(x, [3, 1, 2]), family="poisson")
    np.testing.assert_allclose(
        repeated.merge_costs, [0, 0, 0, 1.62786693, 9.35892266], rtol=1e-8, atol=1e-14
    )
    plain = agglomerate(x, family="poisson")
    np.testing.assert_allclose(plain.merge_costs, [0.96372379, 3.46573590], rtol=1e-8)


@pytest.mark.parametrize("epsilon", [0.01, 1e-6])
def test_collapsed_gaussian_points(epsilon):
    """Three equal points and another, with an additive ridge."""
    x = np.array([[0.0, 0.0]] * 3 + [[4.0, 1.0]])
    tree = agglomerate(x, family="gaussian", smoothing=blur(np.sqrt(epsilon)))
    expected = [0, 0, 2 * np.log1p(3.1875 / epsilon)]
    np.testing.assert_allclose(tree.merge_costs, expected, rtol=1e-9, atol=1e-12)


def test_fewer_points_than_dimensions(rng):
    """Heights add up to the cost of everything in one cluster."""
    x = rng.normal(size=(6, 10))
    epsilon = 0.1
    tree = agglomerate(x, family="gaussian", smoothing=blur(np.sqrt(epsilon)))
    assert np.all(np.isfinite(tree.merge_costs))
    assert np.all(tree.merge_costs >= 0)
    covariance = np.cov(x.T, ddof=0) + epsilon * np.eye(10)
    whole = 3 * (np.linalg.slogdet(covariance)[1] - 10 * np.log(epsilon))
    np.testing.assert_allclose(tree.merge_costs.sum(), whole, rtol=1e-12)


@pytest.mark.parametrize("family", ["ward", "diagonal_gaussian"])
def test_offsets_change_nothing(family):
    """Values in float32 near 10,000."""
    small = np.array([0, 0.5, 1, 10], dtype=np.float32)[:, None]
    near = agglomerate(small, family=family, smoothing=_unit_blur(family))
    far = agglomerate(small + 10000, family=family, smoothing=_unit_blur(family))
    np.testing.assert_allclose(far.merge_costs, near.merge_costs, rtol=1e-10)
    if family == "ward":
        expected = [0.0625, 0.1875, 33.84375]
        np.testing.assert_allclose(near.merge_costs, expected, rtol=1e-14)


def _unit_blur(family):
    return None if family == "ward" else blur(1.0)


def test_near_equal_multinomials(dtype):
    """Also inside jit, in the caller's precision."""
    rows = np.array([[0.3325, 0.6675], [0.33251, 0.66749]])
    expected = 0.25e-10 * (1 / 0.3325 + 1 / 0.6675)
    eager = agglomerate(rows, family="multinomial").merge_costs[0]
    np.testing.assert_allclose(eager, expected, rtol=1e-4)

    @jax.jit
    def traced(rows):
        return agglomerate(rows, family="multinomial").merge_costs[0]

    cost = traced(jnp.asarray(rows))
    assert cost.dtype == dtype
    if dtype == np.float64:
        np.testing.assert_allclose(cost, expected, rtol=1e-4)
    else:
        assert 0 <= cost <= 1e-6


def test_counts_beyond_float32():
    """Eager calls compute in float64 whatever the mode."""
    tree = agglomerate(np.array([16777216, 16777217]), family="poisson")
    np.testing.assert_allclose(tree.merge_costs, [1.49011608e-8], rtol=1e-2)
    assert tree.merge_costs.dtype == np.float64
    assert not jax.config.jax_enable_x64  # pyright: ignore[reportAttributeAccessIssue]


def test_any_convex_function(rng):
    x = rng.gamma(2.0, size=(M, D))
    stock = agglomerate(x, family=NegativeEntropy())
    poisson = agglomerate(x, family=Poisson())
    np.testing.assert_array_equal(stock.children, poisson.children)
    plain = agglomerate(x, family=plain_entropy)
    np.testing.assert_array_equal(plain.children, poisson.children)
    np.testing.assert_allclose(plain.merge_costs, poisson.merge_costs, rtol=1e-9)
    tree = agglomerate(x, family=LogSumExp())
    children, costs = reference.greedy(
        lambda t: np.log(np.sum(np.exp(t))), list(x.astype(np.longdouble)), np.ones(M)
    )
    np.testing.assert_array_equal(tree.children, children)
    np.testing.assert_allclose(tree.merge_costs, costs, rtol=1e-9)


def plain_entropy(x):
    return jnp.sum(x * jnp.log(x) - x)


def test_a_kink_at_a_merge_is_refused():
    x = np.array([[-1.0], [1.0]])
    with pytest.raises(ArithmeticError, match="kink at .*Proposition 3.8"):
        agglomerate(x, family=lambda t: jnp.sum(jnp.abs(t)))
    away = agglomerate(x + 3, family=lambda t: jnp.sum(jnp.abs(t)))
    np.testing.assert_allclose(away.merge_costs, 0, atol=1e-12)


def test_jit_and_vmap_give_the_eager_tree(rng):
    x = np.stack([sample("diagonal_gaussian", rng, "plain") for _ in range(3)])
    with jax.enable_x64(True):

        @jax.jit
        def children(x):
            return agglomerate(x, family="diagonal_gaussian").children

        batch = jax.vmap(children)(jnp.asarray(x))
        singles = [children(jnp.asarray(rows)) for rows in x]
    for rows, one, single in zip(x, batch, singles, strict=True):
        eager = agglomerate(rows, family="diagonal_gaussian")
        np.testing.assert_array_equal(one, eager.children)
        np.testing.assert_array_equal(single, eager.children)


def test_sizes_share_compilations(caplog):
    """Eight size classes an octave, and nothing new the second time."""
    rng = np.random.default_rng(0)
    data = {m: rng.normal(size=(m, 2)) for m in range(100, 111)}

    def compiled():
        caplog.clear()
        with jax.log_compiles(True), caplog.at_level("WARNING", logger="jax"):
            for x in data.values():
                agglomerate(x, family="ward")
        names = [r.getMessage() for r in caplog.records]
        return sum("Finished XLA compilation" in name for name in names)

    first = compiled()
    assert first <= 60
    assert compiled() == 0


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"ising"}))
@pytest.mark.parametrize("m", [1, 2])
def test_one_and_two_points(family, m):
    x = np.array([[0.0, 1.0], [1.0, 1.0]])[:m]
    if family in (*POSITIVE, "exponential"):
        x = x + 0.5
    if family == "beta":
        x = (x + 0.5) / 2
    if family == "dirichlet":
        x = (x + 0.5) / np.sum(x + 0.5, axis=1, keepdims=True)
    if family == "von_mises_fisher":
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
    tree = agglomerate(x, family=family)
    assert tree.children.shape == (m - 1, 2)
    assert np.all(np.isfinite(tree.merge_costs))
    np.testing.assert_array_equal(tree.cut(num_clusters=m), np.arange(m))


@pytest.mark.slow
def test_ising_costs_are_those_of_its_distributions(rng):
    x = rng.integers(0, 2, size=(12, 3))
    tree = agglomerate(x, family=Ising(edges=((0, 1), (1, 2))))
    assert np.all(np.isfinite(tree.merge_costs))
    # A tree-shaped graph has ψ* = Σ edges −H_ij + Σ nodes (deg − 1) H_i.
    counts = x.astype(int)
    amount = _ising_amount(12)

    def negative_entropy(rows):
        nodes = [
            np.bincount(counts[rows, i], minlength=2) / len(rows) for i in range(3)
        ]
        nodes = [(1 - amount) * p + amount / 2 for p in nodes]
        total = 0.0
        for i, j in ((0, 1), (1, 2)):
            joint = np.bincount(2 * counts[rows, i] + counts[rows, j], minlength=4)
            joint = (1 - amount) * joint / len(rows) + amount / 4
            total += np.sum(joint * np.log(joint))
        return total - np.sum(nodes[1] * np.log(nodes[1]))

    members = {i: [i] for i in range(12)}
    for step, (a, b) in enumerate(tree.children):
        both = members[a] + members[b]
        members[12 + step] = both
        expected = (
            len(members[a]) * negative_entropy(members[a])
            + len(members[b]) * negative_entropy(members[b])
            - len(both) * negative_entropy(both)
        )
        np.testing.assert_allclose(tree.merge_costs[step], expected, atol=1e-10)


def _ising_amount(size):
    bound = np.sqrt(0.5 * np.log(20) / size) + np.log(20) / (3 * size)
    return 2 * bound / (1 + 2 * bound)


def test_heights_telescope(rng):
    """The costs of any tree add up to the cost of all points as one cluster."""
    x = rng.poisson(4, size=(51, 4)).astype(float)
    tree = agglomerate(x, family="poisson")
    mean = x.mean(axis=0)
    whole = np.sum(np.where(x > 0, x * np.log(np.where(x > 0, x, 1) / mean), 0))
    np.testing.assert_allclose(tree.merge_costs.sum(), whole, rtol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_bad_values_are_named(bad):
    x = np.ones((8, 2))
    x[5, 1] = bad
    with pytest.raises(ValueError, match=r"`x` must .*; got .* row 5, column 1"):
        agglomerate(x, family="gaussian")


@pytest.mark.parametrize(
    ("x", "options", "message"),
    [
        (np.ones((0, 2)), {"family": "ward"}, "at least one row"),
        (np.float64(3), {"family": "ward"}, "at least one row"),
        (np.ones((2, 2, 2)), {"family": "ward"}, "must be a matrix"),
        (-np.ones((3, 2)), {"family": "poisson"}, "non-negative .* row 0, column 0"),
        (2 * np.ones((3, 2)), {"family": "bernoulli"}, r"in \[0, 1\]"),
        (
            [[3, 1], [0, 0], [2, 2]],
            {"family": "multinomial"},
            "positive total .* row 1",
        ),
        (np.ones((3, 2)), {"family": "nonsense"}, "`family` must be one of .*nonsense"),
        (np.ones((3, 2)), {"family": "ward", "engine": "fast"}, "`engine` must be one"),
        (np.ones((3, 2)), {"family": "ward", "weights": [1, 2]}, r"shape \(3,\)"),
        (np.ones((3, 2)), {"family": "ward", "weights": [1, 0, 2]}, "positive.*row 1"),
        (np.ones((3, 2)), {"family": Poisson(dim=3)}, "3 columns"),
        (np.ones(3), {"family": SquaredNorm()}, r"2 axes.*x\[:, None\]"),
        (
            np.ones((3, 2)),
            {"family": SphericalGaussian(variance=np.ones(2))},
            "one number.*Mahalanobis",
        ),
        (
            np.ones((3, 2)),
            {"family": "gaussian", "smoothing": blur([1.0, 2, 3])},
            "each of the 2 columns",
        ),
        (
            np.ones((3, 2)),
            {"family": SphericalGaussian(variance=-1.0)},
            "`variance` must be positive",
        ),
        (
            np.ones((3, 2)),
            {"family": "gaussian", "smoothing": None},
            r"3 of 3 rows, unsmoothed.*row 0.*normal_reference",
        ),
        ([[1.0], [0.0]], {"family": "exponential"}, "row 1.*adding"),
    ],
)
def test_errors(x, options, message):
    with pytest.raises(ValueError, match=message):
        agglomerate(x, **options)


def test_sparse_data_are_refused_with_their_dense_size():
    x = scipy.sparse.csr_matrix((2000, 20000))
    with pytest.raises(TypeError, match=r"sparse table of 2,000 × 20,000.*0.30 GiB"):
        agglomerate(x, family="gaussian")


def test_wrong_kinds():
    with pytest.raises(TypeError, match="`family` must be an instance"):
        agglomerate(np.ones((3, 2)), family=Poisson)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="`family` must be a family"):
        agglomerate(np.ones((3, 2)), family=3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="`smoothing` must be"):
        agglomerate(np.ones((3, 2)), family="ward", smoothing="none")
    with pytest.raises(TypeError, match="must be real"):
        agglomerate(np.array([[1 + 5j], [3]]), family="ward")
    with pytest.raises(TypeError, match="needs a Gaussian family"):
        agglomerate(np.ones((3, 2)), family="poisson", smoothing=blur(1.0))


def test_memory_is_checked_before_work():
    """The message names rows and GiB."""
    with pytest.raises(ValueError, match=r"GiB for 400,000 points .* points fit.*wind"):
        check_memory("matrix", 400_000, 2, 2, 8)
    with pytest.raises(ValueError, match='"recompute" needs .* fit'):
        check_memory("recompute", 4_000_000, 10**6, 2, 8)
    check_memory("matrix", 100, 2, 2, 8)
    check_memory("windowed", 400_000, 2, 2, 8)
    with pytest.raises(ValueError, match="GiB for 2,048 points"):
        agglomerate(np.zeros((2000, 3000)), family="gaussian")


def test_a_memory_that_holds_a_share_takes_more_points(monkeypatch):
    # Of 1,000 numbers a state: 3 states whole, 8 dealt out, and 512 numbers a point.
    monkeypatch.setattr(_engines, "available_memory", lambda: 48e9)
    with pytest.raises(ValueError, match="up to 416,883 points fit"):
        check_memory("windowed", 10**6, 1000, 2, 8)
    with pytest.raises(ValueError, match="up to 1,090,633 points fit"):
        check_memory("windowed", 10**7, 1000, 2, 8, share=1 / 9)
    check_memory("windowed", 10**6, 1000, 2, 8, share=1 / 9)


def test_smoothing_reaches_the_leaves(rng):
    x = rng.multinomial(20, np.ones(4) / 4, size=M)
    smooth = agglomerate(x, family="multinomial", smoothing=bernstein(4, 20 * M))
    amount = bernstein(4, 20 * M).amount
    by_hand = (1 - amount) * x / 20 + amount / 4
    plain = agglomerate(by_hand, family="multinomial")
    np.testing.assert_allclose(smooth.merge_costs, plain.merge_costs, rtol=1e-10)
    prior = agglomerate(
        x, family="multinomial", smoothing=pseudo_count(np.ones(4) / 4, 2.0)
    )
    by_hand = (x / 20 + 2 * 0.25) / 3
    plain = agglomerate(by_hand, family="multinomial", weights=np.full(M, 3.0))
    np.testing.assert_allclose(prior.merge_costs, plain.merge_costs, rtol=1e-10)


def test_traced_weights_have_one_entry_a_row(rng):
    x = rng.normal(size=(4, 2))
    children = jax.jit(lambda w: agglomerate(x, family="ward", weights=w).children)
    with pytest.raises(ValueError, match=r"shape \(4,\)"):
        children(jnp.ones(1))


def test_a_plain_function_far_from_the_origin(rng):
    """The search itself must not cancel: 0.5 ‖x‖² at 1e8 is Ward's tree."""
    x = rng.normal(size=(M, D)) + 1e8
    plain = agglomerate(x, family=half_squared_norm)
    ward = agglomerate(x, family="ward")
    np.testing.assert_array_equal(plain.children, ward.children)


def half_squared_norm(t):
    return 0.5 * jnp.sum(t**2)


def test_a_family_of_ones_own_however_it_is_spelled():
    """Counts of 1 lie on the boundary of the zero-truncated Poisson's mean domain."""
    x = np.array([[1, 9], [2, 7], [1, 8], [6, 1], [5, 1], [7, 2]])
    trees = [
        agglomerate(
            x, family=ExponentialFamily(psi, identity, np.zeros(2), separable=True)
        )
        for psi in (truncated_poisson, truncated_otherwise)
    ]
    np.testing.assert_array_equal(trees[0].children, trees[1].children)
    np.testing.assert_allclose(
        trees[0].merge_costs, trees[1].merge_costs, rtol=1e-9, atol=1e-12
    )


def truncated_otherwise(theta):
    return jnp.sum(jnp.exp(theta) + jnp.log(-jnp.expm1(-jnp.exp(theta))))


def exact_truncated(y):
    """ψ* of the zero-truncated Poisson by Lambert's W, 0 at 1."""
    inside = y > 1
    y = np.where(inside, y, 2)
    z = y + np.real(scipy.special.lambertw(-y * np.exp(-y)))
    value = y * np.log(z) - z - np.log(-np.expm1(-z))
    return np.where(inside, value, 0)


def test_a_thousand_counts_through_the_numerical_conjugate(rng):
    """The tree of a ψ without a closed form against Lambert's W, merge by merge."""
    rate = rng.choice([1.0, 4.0, 15.0], size=(1000, 1))
    x = np.maximum(rng.poisson(rate, size=(1000, 2)), 1)
    family = ExponentialFamily(truncated_poisson, identity, np.zeros(2), separable=True)
    tree = agglomerate(x, family=family)
    m = len(x)
    weight, mean = np.ones(2 * m - 1), np.zeros((2 * m - 1, 2))
    mean[:m] = x
    for node, (a, b) in enumerate(tree.children, start=m):
        weight[node] = weight[a] + weight[b]
        mean[node] = mean[a] + weight[b] / weight[node] * (mean[b] - mean[a])
    value = weight * exact_truncated(mean).sum(axis=1)
    a, b = tree.children.T
    np.testing.assert_allclose(
        tree.merge_costs, value[a] + value[b] - value[m:], rtol=1e-9, atol=1e-10
    )
    # Every merge is the cheapest of its time, looked at after each hundred.
    for step in range(0, m - 1, 100):
        made = np.arange(m + step)
        alive = made[~np.isin(made, tree.children[:step])]
        i, j = np.triu_indices(len(alive), 1)
        i, j = alive[i], alive[j]
        w = weight[i] + weight[j]
        union = mean[i] + (weight[j] / w)[:, None] * (mean[j] - mean[i])
        costs = value[i] + value[j] - w * exact_truncated(union).sum(axis=1)
        assert tree.merge_costs[step] <= costs.min() + 1e-9


def test_equal_rows_merge_before_a_merge_below_rounding():
    """One cost under the rounding of log-determinants came between two zeros."""
    x = np.array([[0.0, 0], [0, 0], [1, 2], [1, 2 + 1e-9], [5, 3], [5.5, 3.2], [0, 0]])
    tree = agglomerate(x, family="isotropic_gaussian", smoothing=blur(0.01))
    np.testing.assert_array_equal(tree.merge_costs[:2], 0)
    np.testing.assert_allclose(tree.merge_costs[2], 2.5e-15, rtol=1e-6)
