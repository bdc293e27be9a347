"""Full Gaussians under bandwidths far below the spread of the data."""

import functools

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from trees import bandwidth_of, merge_cost_of

import bregjax as bj
from bregjax import Result
from bregjax._checks import values_behind
from bregjax._roots import cholesky_by_root, root_of_rows
from bregjax.clusters import Moments, RootedGaussianModel
from bregjax.clusters._gaussian_models import leaf_factors

ROWS = np.random.default_rng(0).normal(size=(8, 3))
ORDER = np.arange(7, 0, -1.0)

gaussians = functools.partial(bj.Problem, family="gaussian")


def exact_costs(x, children, h) -> list:
    """½ [w log det Σ − w_a log det Σ_a − w_b log det Σ_b] to 60 digits."""
    with mp.workdps(60):
        rows = [[mp.mpf(value) for value in row] for row in x]
        members = [[i] for i in range(len(rows))]
        members += [[]] * len(children)
        for t, (a, b) in enumerate(children):
            members[len(rows) + t] = members[a] + members[b]
        log_dets = [_log_det([rows[i] for i in part], h) for part in members]
        size = [len(part) for part in members]
        return [
            (
                size[len(rows) + t] * log_dets[len(rows) + t]
                - size[a] * log_dets[a]
                - size[b] * log_dets[b]
            )
            / 2
            for t, (a, b) in enumerate(children)
        ]


def _log_det(rows, h):
    n, d = len(rows), len(rows[0])
    mean = [mp.fsum(row[i] for row in rows) / n for i in range(d)]
    entry = lambda i, j: (
        mp.fsum((row[i] - mean[i]) * (row[j] - mean[j]) for row in rows) / n
    )
    covariance = mp.matrix(d, d)
    for i in range(d):
        for j in range(d):
            covariance[i, j] = entry(i, j) + (mp.mpf(h) ** 2 if i == j else 0)
    return mp.log(mp.det(covariance))


def exact_slope(x, children, h) -> float:
    """Derivative by h of the costs, weighed by `ORDER`."""
    with mp.workdps(60):
        step = mp.mpf(10) ** -25
        total = lambda h: mp.fdot(ORDER.tolist(), exact_costs(x, children, h))
        return float((total(mp.mpf(h) + step) - total(mp.mpf(h) - step)) / (2 * step))


@pytest.mark.parametrize("h", [1e-2, 1e-4, 1e-6, 1e-7, 2e-8])
def test_costs_of_narrow_bandwidths(h):
    """Off by 3e-4 nats at 1e-6 and by 1.65 at 2e-8 without roots."""
    problem = gaussians(ROWS, smoothing=bj.blur(h))
    tree = bj.agglomerate(problem)
    expected = np.array(exact_costs(ROWS, tree.children, h), float)
    np.testing.assert_allclose(tree.merge_costs, expected, rtol=1e-9)
    np.testing.assert_allclose(bj.replay(problem, tree), expected, rtol=1e-9)
    assert bj.certify(problem, tree).holds()


def test_a_flat_cluster_takes_in_others():
    """Points in a plane, then one out of it: the least eigenvalue is h² for long."""
    x = np.random.default_rng(1).normal(size=(14, 3)) @ np.diag([1, 1, 0.0])
    x[0, 2] = 1e-3
    h = 1e-7
    tree = bj.agglomerate(gaussians(x, smoothing=bj.blur(h)))
    expected = np.array(exact_costs(x, tree.children, h), float)
    np.testing.assert_allclose(tree.merge_costs, expected, rtol=1e-9)


@pytest.mark.parametrize("engine", ["matrix", "windowed", "recompute"])
def test_engines_agree(engine):
    x = np.random.default_rng(2).normal(size=(40, 3))
    problem = gaussians(x, smoothing=bj.blur(1e-6))
    tree = bj.agglomerate(problem, engine=engine)
    assert bj.certify(problem, tree).holds()
    np.testing.assert_array_equal(tree.children, bj.agglomerate(problem).children)


def test_roots_change_no_cost_where_none_are_needed(rng):
    x, weights = rng.normal(size=(20, 3)), rng.uniform(0.5, 2, size=20)
    for smoothing in (bj.blur(0.3), bj.blur(np.tril(rng.uniform(0.2, 1, (3, 3))))):
        trees = [
            bj.agglomerate(
                x, family=bj.Gaussian(roots=roots), smoothing=smoothing, weights=weights
            )
            for roots in (False, True)
        ]
        np.testing.assert_array_equal(trees[0].children, trees[1].children)
        np.testing.assert_allclose(
            trees[0].merge_costs, trees[1].merge_costs, rtol=1e-12
        )


@jax.jit
def _bounds_and_costs(model, a, b):
    screen = model.screen(a)
    bounds = screen.against(screen.features(a, jnp.float64))(b)
    rows = jax.tree.map(lambda leaf: leaf[:, None], a)
    return bounds, model.merge_cost(rows, jax.tree.map(lambda leaf: leaf[None], b))


def test_bounds_are_below_costs(rng):
    """Of clusters as of points, near and far."""
    model = RootedGaussianModel()
    x = rng.normal(size=(12, 3))
    x[6:9] = x[:3] + 1e-7 * rng.normal(size=(3, 3))
    part = lambda tree, i, j: jax.tree.map(lambda leaf: leaf[i:j], tree)
    with jax.enable_x64(True):
        points = bj.blur(1e-6)(
            bj.Gaussian(3).leaf_statistics(jnp.asarray(x)), jnp.ones(12)
        )
        leaves = jax.jit(model.leaves)(*points)
        a, b = part(leaves, 0, 6), part(leaves, 6, 12)
        unions = jax.jit(model.union)(a, b)
        for rows, columns in ((a, b), (a, unions), (unions, unions)):
            bounds, costs = _bounds_and_costs(model, rows, columns)
            assert np.all(bounds <= costs)
            assert np.mean(bounds > 0.9 * costs) > 0.5


@pytest.mark.parametrize("x64", [True, False])
@pytest.mark.parametrize("h", [1e-1, 1e-3])
def test_derivatives_by_bandwidth(h, x64):
    problem = gaussians(ROWS, smoothing=bj.blur(h))
    tree = bj.agglomerate(problem)
    with jax.enable_x64(x64):
        at = lambda h: problem.replace(smoothing=bj.blur(h))
        slope = jax.grad(lambda h: ORDER @ bj.replay(at(h), tree))(jnp.asarray(h))
    expected = exact_slope(ROWS, tree.children, h)
    np.testing.assert_allclose(slope, expected, rtol=1e-9 if x64 else 1e-4)


def test_derivatives_of_narrow_bandwidths():
    """What `grad` follows is known too, so that it has roots where these matter."""
    h = 1e-6
    problem = gaussians(ROWS, smoothing=bj.blur(h))
    tree = bj.agglomerate(problem)
    with jax.enable_x64(True):
        at = lambda h: problem.replace(smoothing=bj.blur(h))
        slope = jax.grad(lambda h: ORDER @ bj.replay(at(h), tree))(h)
    np.testing.assert_allclose(slope, exact_slope(ROWS, tree.children, h), rtol=1e-9)


def test_derivatives_with_and_without_roots():
    tree = bj.agglomerate(gaussians(ROWS, smoothing=bj.blur(0.1)))
    with jax.enable_x64(True):

        def loss(arguments, roots):
            x, h, weights = arguments
            problem = bj.Problem(
                x,
                family=bj.Gaussian(roots=roots),
                smoothing=bj.blur(h),
                weights=weights,
            )
            return ORDER @ bj.replay(problem, tree)

        at = (jnp.asarray(ROWS), jnp.asarray(0.1), jnp.linspace(1, 2, 8))
        plain, rooted = (jax.grad(loss)(at, roots) for roots in (False, True))
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9),
            plain,
            rooted,
        )
        curve = lambda roots: jax.grad(
            jax.grad(lambda h: loss((at[0], h, at[2]), roots))
        )
        np.testing.assert_allclose(curve(True)(0.1), curve(False)(0.1), rtol=1e-8)


def test_densities_of_narrow_clusters():
    """log N(x; μ, Σ) at a point a little off, by 60 digits."""
    h, at = 1e-6, ROWS[0] + 1e-6
    with jax.enable_x64(True):
        family = bj.Gaussian(3, roots=True)
        model = family.cluster_model()
        points = bj.blur(h)(family.leaf_statistics(jnp.asarray(ROWS[:2])), jnp.ones(2))
        a, b = (
            jax.tree.map(lambda leaf, i=i: leaf[i : i + 1], model.leaves(*points))
            for i in range(2)
        )
        parameters = family.density_parameters(model.union(a, b))
        found = family.log_densities(jnp.asarray(at), parameters)
    with mp.workdps(60):
        rows = [[mp.mpf(value) for value in row] for row in ROWS[:2]]
        mean = [(p + q) / 2 for p, q in zip(*rows, strict=True)]
        half = mp.matrix([(p - q) / 2 for p, q in zip(*rows, strict=True)])
        covariance = half * half.T + mp.mpf(h) ** 2 * mp.eye(3)
        gap = mp.matrix([mp.mpf(v) - m for v, m in zip(at, mean, strict=True)])
        distance = (gap.T * covariance**-1 * gap)[0]
        expected = -(3 * mp.log(2 * mp.pi) + mp.log(mp.det(covariance)) + distance) / 2
    np.testing.assert_allclose(found, float(expected), rtol=1e-9)


def test_two_clusters_that_lie_far_apart():
    """Each is narrow for itself: what matters is the range of both."""
    a, b, h = ROWS[:4] * 1e-3, ROWS[4:] * 1e-3 + 1, 1e-6
    cost = merge_cost_of(a, b, family="gaussian", smoothing=bj.blur(h))
    x = np.concatenate([a, b])
    with mp.workdps(60):
        rows = [[mp.mpf(value) for value in row] for row in x]
        log_det = lambda part: _log_det(part, h)
        expected = 4 * log_det(rows) - 2 * log_det(rows[:4]) - 2 * log_det(rows[4:])
    np.testing.assert_allclose(cost, float(expected), rtol=1e-9)


def test_too_narrow_a_bandwidth_is_refused():
    with pytest.raises(ValueError, match="bandwidth of 1e-10 in column 0, whose"):
        gaussians(ROWS, smoothing=bj.blur(1e-10))
    with pytest.raises(ValueError, match=r"digits of float64\. Take 3\.5e-09 or more"):
        gaussians(ROWS, smoothing=bj.blur([1e-10, 1.0, 1.0]))
    bj.agglomerate(gaussians(ROWS, smoothing=bj.blur(3.5e-9)))


def test_in_single_precision_less_is_too_narrow():
    problem = gaussians(ROWS, smoothing=bj.blur(1e-5))
    tree = bj.agglomerate(problem)
    at = lambda h: problem.replace(smoothing=bj.blur(h))
    with jax.enable_x64(False), pytest.raises(ValueError, match="digits of float32"):
        jax.grad(lambda h: bj.replay(at(h), tree).sum())(1e-5)


def test_constant_columns_have_no_range(rng):
    x = np.column_stack([rng.normal(size=(12, 2)), np.ones(12)])
    bj.agglomerate(gaussians(x, smoothing=bj.blur(1e-12 * np.ones(3) + [1, 1, 0])))


def _center(scale):
    return Moments(jnp.zeros(3), scale**2 * np.eye(3))


SMOOTHINGS = {
    "adding": lambda s: bj.adding(_center(1.0), s**2),
    "mixing": lambda s: bj.mixing(_center(s), 0.3),
    "pseudo_count": lambda s: bj.pseudo_count(_center(s), 0.5),
    "blur": lambda s: bj.blur(np.array([[1, 0, 0], [1, s, 0], [0.3, 0.2, 1]])),
}


@pytest.mark.parametrize("kind", SMOOTHINGS)
def test_every_smoothing_keeps_roots(kind):
    """Leaves of singular covariances but for 1e-7: Σ itself has lost that."""
    smoothing = SMOOTHINGS[kind](1e-7)
    tree = bj.agglomerate(gaussians(ROWS, smoothing=smoothing))
    with mp.workdps(60):
        leaves = [_smoothed(kind, [mp.mpf(v) for v in row], 1e-7) for row in ROWS]
        expected = np.array(_costs_of(leaves, tree.children), float)
    np.testing.assert_allclose(tree.merge_costs, expected, rtol=1e-8)


def _smoothed(kind, row, s):
    """Weight, mean and covariance of a leaf."""
    x, floor = mp.matrix(row), mp.mpf(s) ** 2 * mp.eye(3)
    if kind == "adding":
        return mp.mpf(1), x, floor
    if kind == "blur":
        factor = mp.matrix([[1, 0, 0], [1, s, 0], [0.3, 0.2, 1]])
        return mp.mpf(1), x, factor * factor.T
    share = mp.mpf(0.3) if kind == "mixing" else mp.mpf(0.5) / mp.mpf(1.5)
    weight = mp.mpf(1) if kind == "mixing" else mp.mpf(1.5)
    scatter = share * (1 - share) * x * x.T
    return weight, (1 - share) * x, share * floor + scatter


def _costs_of(leaves, children):
    nodes, costs = list(leaves), []
    half = lambda weight, covariance: weight * mp.log(mp.det(covariance)) / 2
    for a, b in children:
        (w_a, mean_a, cov_a), (w_b, mean_b, cov_b) = nodes[a], nodes[b]
        w, delta = w_a + w_b, mean_a - mean_b
        p, q = w_a / w, w_b / w
        covariance = p * cov_a + q * cov_b + p * q * delta * delta.T
        nodes.append((w, p * mean_a + q * mean_b, covariance))
        costs.append(half(w, covariance) - half(w_a, cov_a) - half(w_b, cov_b))
    return costs


def test_what_the_user_says_of_roots_is_done():
    with pytest.raises(TypeError, match="must be True, False or None; got 'no'"):
        bj.Gaussian(roots="no")  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="must be True, False or None; got 1"):
        bj.Gaussian(roots=1)  # pyright: ignore[reportArgumentType]
    for roots in (True, False):
        family = bj.Gaussian(3, roots=roots)
        assert family.suited_to(jnp.asarray(ROWS), bj.blur(1e-12), None) == family
    tree = bj.agglomerate(gaussians(ROWS, smoothing=bj.blur(1e-6)))
    problem = bj.Problem(ROWS, family=bj.Gaussian(roots=True))
    at = lambda h: problem.replace(smoothing=bj.blur(h))
    with jax.enable_x64(True):
        traced = jax.jit(lambda h: bj.replay(at(h), tree))
        np.testing.assert_allclose(traced(1e-6), tree.merge_costs, rtol=1e-9)


def test_a_mesh_implies_the_windowed_engine_also_on_one_device():
    mesh = jax.make_mesh((1,), ("points",))
    problem = gaussians(ROWS, smoothing=bj.blur(1e-6))
    _, info = bj.agglomerate(problem, mesh=mesh, return_info=True)
    assert info.engine == "windowed"
    with pytest.raises(ValueError, match='"windowed" or "auto" with a mesh'):
        bj.agglomerate(problem, mesh=mesh, engine="matrix")


def test_tuning_from_far_below(rng):
    x = np.concatenate([rng.normal(size=(20, 2)), 0.3 * rng.normal(size=(20, 2)) + 3])
    problem = gaussians(x, smoothing=bj.blur(1e-7))
    found = bj.tune_smoothing(problem, num_clusters=2)
    assert 1e-2 < bandwidth_of(found) < 1
    assert bj.certify(found.problem, found.tree).holds()


def test_floors_of_bandwidths_go_by_column(rng):
    """Units of 1e9 in one column are no floor for another."""
    x = np.concatenate([rng.normal(size=(20, 2)), 0.3 * rng.normal(size=(20, 2)) + 3])
    units = np.array([1, 1e9])
    by_column = lambda y: bj.normal_reference(y, per_coordinate=True)
    problems = [gaussians(y, smoothing=by_column(y)) for y in (x, x * units)]
    found = [
        bj.tune_smoothing(problem, num_clusters=2, max_steps=40) for problem in problems
    ]
    bandwidths = [np.asarray(bandwidth_of(result)) for result in found]
    np.testing.assert_allclose(bandwidths[0] * units, bandwidths[1], rtol=0.2)


def test_tuning_ends_where_digits_do(rng):
    """Of tripled rows the likelihood rises as the amount falls: no error half way."""
    x = np.repeat(rng.normal(size=(8, 2)), 3, axis=0)
    center = Moments(jnp.zeros(2), jnp.eye(2))
    problem = gaussians(x, smoothing=bj.adding(center, 1e-14))
    with pytest.warns(UserWarning, match="floor"):
        found = bj.tune_smoothing(problem, num_clusters=2)
    assert found.result == Result.BOUNDARY
    assert np.isfinite(found.value)


def test_roots_of_rows_and_factors_by_them(rng):
    rows = rng.normal(size=(5, 7, 3))
    with jax.enable_x64(True):
        root = root_of_rows(jnp.asarray(rows))
        covariance = jnp.swapaxes(rows, -1, -2) @ rows
        np.testing.assert_allclose(jnp.swapaxes(root, -1, -2) @ root, covariance)
        assert np.all(np.diagonal(root, axis1=-2, axis2=-1) > 0)
        np.testing.assert_array_equal(root, np.triu(root))
        change = jnp.asarray(rng.normal(size=covariance.shape))
        change = change + jnp.swapaxes(change, -1, -2)
        by = lambda f: jax.jvp(f, (jnp.asarray(covariance),), (change,))[1]
        np.testing.assert_allclose(
            by(lambda c: cholesky_by_root(c, root)), by(jnp.linalg.cholesky), atol=1e-12
        )


def test_one_factor_serves_equal_leaves(rng):
    covariance = np.cov(rng.normal(size=(40, 16)), rowvar=False)
    equal, other = np.tile(covariance, (4, 1, 1)), np.tile(covariance, (4, 1, 1))
    other[2] += np.eye(16)
    with jax.enable_x64(True):
        for leaves in (equal, other):
            factors = leaf_factors(jnp.asarray(leaves))
            np.testing.assert_allclose(factors, np.linalg.cholesky(leaves))
            slope = jax.grad(lambda c: jnp.sum(leaf_factors(c)))(jnp.asarray(leaves))
            plain = jax.grad(lambda c: jnp.sum(jnp.linalg.cholesky(c)))
            np.testing.assert_allclose(slope, plain(jnp.asarray(leaves)), rtol=1e-9)


def test_values_behind_derivatives():
    seen = []

    def loss(x):
        seen.append(values_behind({"x": x}))
        return x**2

    jax.grad(loss)(3.0)
    jax.grad(jax.grad(loss))(3.0)
    jax.jvp(loss, (3.0,), (1.0,))
    assert [float(known["x"]) for known in seen] == [3, 3, 3]
    seen.clear()
    jax.jit(jax.grad(loss))(3.0)
    jax.vmap(loss)(jnp.ones(2))
    assert seen == [None, None]
