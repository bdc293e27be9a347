"""Every family against SciPy, integration and its own ψ."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from family_cases import FAMILIES, flat, naturals, one
from own_potentials import identity
from scipy import special

from bregjax import Result, families
from bregjax.families import (
    Bernoulli,
    Beta,
    DiagonalGaussian,
    Dirichlet,
    Exponential,
    ExponentialFamily,
    Gamma,
    Gaussian,
    InverseGaussian,
    Ising,
    IsotropicGaussian,
    Multinomial,
    NegativeBinomial,
    Poisson,
    SphericalGaussian,
    named_family,
)

# Dense solvers without a closed form take seconds to compile: one precision.
ONCE = ("ising", "truncated_poisson_dense", "categorical")
RARE = (*ONCE, "beta", "dirichlet", "truncated_poisson-float32")
TABLE = [
    pytest.param(
        name,
        precision,
        id=f"{name}-{precision}",
        marks=pytest.mark.slow if {name, f"{name}-{precision}"} & set(RARE) else (),
    )
    for name in FAMILIES
    for precision in ("float64", "float32")
    if precision == "float64" or name not in ONCE
]
every_family = pytest.mark.parametrize(("name", "precision"), TABLE)
TOLERANCE = {"float64": 1e-11, "float32": 2e-5}
COUNT = 4


@jax.jit
def _facts(family, p, q):
    def facts(p, q):
        mean = family.natural_to_mean(p)
        solution = family.conjugate(mean)
        return {
            "psi": family.log_partition(p),
            "mean": mean,
            "mean_q": family.natural_to_mean(q),
            "value": solution.value,
            "natural": solution.maximiser,
            "again": family.natural_to_mean(solution.maximiser),
            "result": solution.result,
            "kl": family.kl_divergence(p, q),
            "kl_self": family.kl_divergence(p, p),
        }

    return jax.vmap(facts)(p, q)


@functools.cache
def _known(name, precision):
    """Random parameters p and q, and the facts of the family at them."""
    case, rng = FAMILIES[name], np.random.default_rng(7)
    both = naturals(case, rng, 2 * COUNT, np.dtype(precision))
    p, q = (jax.tree.map(lambda a, s=s: a[s::2], both) for s in (0, 1))
    with jax.enable_x64(precision == "float64"):
        facts = _facts(case.make(), p, q)
        assert facts["kl"].dtype == precision
        return p, q, jax.tree.map(np.asarray, facts)


def _close(actual, expected, precision, factor=1.0):
    tolerance = factor * TOLERANCE[precision]
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


@every_family
def test_mean_is_the_expectation_of_the_statistic(name, precision):
    case, (p, _, facts) = FAMILIES[name], _known(name, precision)
    statistic = jax.jit(jax.vmap(case.make().sufficient_statistics))
    for i in range(COUNT):
        natural = one(p, i)
        points, weights = case.grid(natural)
        mass = weights * np.exp(case.log_prob(points, natural))
        np.testing.assert_allclose(mass.sum(), 1, rtol=1e-11)
        with jax.enable_x64(True):
            expected = mass @ flat(statistic(points))
        _close(flat(facts["mean"])[i], expected, precision)


@every_family
def test_log_prob_is_that_of_scipy(name, precision):
    case, (p, _, _) = FAMILIES[name], _known(name, precision)
    natural = one(p, 0)
    points, _ = case.grid(natural)
    points = points[:: max(1, len(points) // 500)]
    expected = case.log_prob(points, natural)
    with jax.enable_x64(precision == "float64"):
        family = case.make()
        low = jax.tree.map(lambda a: a.astype(precision), natural)
        log_prob = jax.jit(jax.vmap(family.log_prob, (0, None)))
        actual = np.asarray(log_prob(points.astype(precision), low))
    scale = 1 + np.abs(points).max(-1) ** 2 + np.abs(expected)
    likely = expected > -200
    assert likely.any()
    gap = np.abs(actual - expected)[likely] / scale[likely]
    assert gap.max() <= TOLERANCE[precision]


@every_family
def test_natural_parameter_returns_from_its_mean(name, precision):
    case, (p, _, facts) = FAMILIES[name], _known(name, precision)
    np.testing.assert_array_equal(facts["result"], Result.CONVERGED)
    _close(flat(facts["again"]), flat(facts["mean"]), precision)
    if not case.overcomplete:
        _close(flat(facts["natural"]), flat(p), precision)


@every_family
def test_fenchel_young_equality(name, precision):
    p, _, facts = _known(name, precision)
    inner = (flat(facts["mean"]) * flat(p)).sum(-1)
    _close(facts["psi"] + facts["value"], inner, precision)


@every_family
def test_kl_divergence_is_the_bregman_divergence_both_ways(name, precision):
    """Theorem 4.6: KL(p, q) = B_ψ(θ_q, θ_p) = B_ψ*(τ_p, τ_q)."""
    case, (p, q, facts) = FAMILIES[name], _known(name, precision)
    for i in range(COUNT):
        at_p, at_q = one(p, i), one(q, i)
        points, weights = case.grid(at_p)
        log_p, log_q = case.log_prob(points, at_p), case.log_prob(points, at_q)
        mass = weights * np.exp(log_p)
        live = mass > 0
        expected = np.sum(mass[live] * (log_p - log_q)[live])
        _close(facts["kl"][i], expected, precision, 5)
    np.testing.assert_array_equal(facts["kl_self"], 0)
    # The dual side: ψ*(τ_q) = ⟨θ_q, τ_q⟩ − ψ(θ_q), whose slope is θ_q.
    dual = facts["value"] - (flat(facts["mean"]) * flat(q)).sum(-1)
    with jax.enable_x64(precision == "float64"):
        psi_q = np.asarray(jax.jit(jax.vmap(case.make().log_partition))(q))
    _close(facts["kl"], dual + psi_q, precision, 5)


# --- Boundary and outside ------------------------------------------------------------

EDGE = Result.BOUNDARY
MEANS = [
    (Poisson(2), [0.0, 3.0], EDGE, 3 * np.log(3) - 3),
    (Poisson(2), [-1.0, 3.0], Result.OUTSIDE, np.inf),
    (Bernoulli(2), [1.0, 0.5], EDGE, -np.log(2)),
    (Bernoulli(2), [1.5, 0.5], Result.OUTSIDE, np.inf),
    (Multinomial(3), [0.0, 0.5, 0.5], EDGE, -np.log(2)),
    (Multinomial(3), [0.0, 0.0, 1.0], EDGE, 0.0),
    (Multinomial(3), [0.3, 0.3, 0.5], Result.OUTSIDE, np.inf),
    (Multinomial(3), [-0.5, 0.5, 1.0], Result.OUTSIDE, np.inf),
    (Exponential(2), [0.0, 1.0], EDGE, np.inf),
    (Exponential(2), [-1.0, 1.0], Result.OUTSIDE, np.inf),
    (SphericalGaussian(2.0, 2), [3.0, 4.0], Result.CONVERGED, 6.25),
    (Gaussian(1), ([3.0], [[9.0]]), EDGE, np.inf),
    (Gaussian(2), ([1.0, 2.0], [[1.0, 2.0], [2.0, 4.0]]), EDGE, np.inf),
    (Gaussian(2), ([0.1, 0.7], [[0.01, 0.07], [0.07, 0.49]]), EDGE, np.inf),
    (Gaussian(2), ([0.0, 0.0], [[1.0, 1.0], [1.0, 1.0]]), EDGE, np.inf),
    (Gaussian(2), ([0.0, 0.0], [[0.0, 0.0], [0.0, 0.0]]), EDGE, np.inf),
    (Gaussian(2), ([1.0, 2.0], [[0.5, 0.0], [0.0, 5.0]]), Result.OUTSIDE, np.inf),
    (Gaussian(2), ([0.0, 0.0], [[1.0, 0.5], [0.0, 1.0]]), Result.OUTSIDE, np.inf),
    (DiagonalGaussian(2), ([1.0, 3.0], [2.0, 9.0]), EDGE, np.inf),
    (DiagonalGaussian(2), ([1.0, 3.0], [2.0, 8.0]), Result.OUTSIDE, np.inf),
    (IsotropicGaussian(2), ([3.0, 4.0], 25.0), EDGE, np.inf),
    (IsotropicGaussian(2), ([3.0, 4.0], 24.0), Result.OUTSIDE, np.inf),
    (Gamma(2), ([0.0, 0.0], [2.0, 1.0]), EDGE, np.inf),
    (Gamma(2), ([0.0, 0.0], [2.0, 0.5]), Result.OUTSIDE, np.inf),
    (Gamma(2), ([0.0, 0.0], [2.0, -1.0]), Result.OUTSIDE, np.inf),
    (InverseGaussian(2), ([2.0, 4.0], [1.0, 0.25]), EDGE, np.inf),
    (InverseGaussian(2), ([2.0, 4.0], [1.0, 0.2]), Result.OUTSIDE, np.inf),
    (InverseGaussian(2), ([2.0, -4.0], [1.0, 1.0]), Result.OUTSIDE, np.inf),
    (InverseGaussian(1), ([2.0], [2.5]), Result.CONVERGED, -0.5 - 0.5 * np.log(2)),
]


def _arrays(tree):
    is_array = lambda node: not isinstance(node, tuple)
    return jax.tree.map(lambda a: jnp.asarray(a, float), tree, is_leaf=is_array)


@pytest.mark.parametrize(("family", "mean", "code", "value"), MEANS)
def test_codes_and_limits_of_closed_conjugates(family, mean, code, value, x64):
    mean = _arrays(mean)
    solution = family.conjugate(mean)
    assert Result(int(solution.result)) == code
    np.testing.assert_allclose(solution.value, value, rtol=1e-14)
    nan = jax.tree.map(lambda a: jnp.full_like(a, jnp.nan), mean)
    assert Result(int(family.conjugate(nan).result)) == Result.INVALID
    assert np.isnan(family.conjugate(nan).value)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_gaussian_conjugate_does_not_depend_on_units(scale, offset, x64):
    """Columns in units 1e12 apart are no singular covariance."""
    units = np.array([1.0, scale])
    covariance = np.array([[1.0, 0.6], [0.6, 1.0]]) * np.outer(units, units)
    mu = offset * units
    solution = Gaussian(2).conjugate(_arrays((mu, covariance + np.outer(mu, mu))))
    assert Result(int(solution.result)) == Result.CONVERGED
    expected = -0.5 * np.log(1 - 0.36) - np.log(scale) - 1
    np.testing.assert_allclose(solution.value, expected, rtol=1e-14 * (1 + offset**2))


def test_natural_parameter_of_a_mean_without_one_is_an_error(x64):
    with pytest.raises(ValueError, match=r"`mean` has no natural parameter \(OUTSIDE"):
        Poisson(2).mean_to_natural(jnp.array([-1.0, 1.0]))
    with pytest.raises(ValueError, match=r"natural parameter \(BOUNDARY\).*Smooth"):
        DiagonalGaussian(1).mean_to_natural((jnp.ones(1), jnp.ones(1)))
    batch = jax.vmap(Poisson(1).mean_to_natural)(jnp.array([[-1.0], [1.0], [0.0]]))
    np.testing.assert_array_equal(batch, [[np.nan], [0], [-np.inf]])


def test_limit_parameters_give_probabilities(dtype):
    family = Poisson(2)
    natural = family.mean_to_natural(jnp.array([0.0, 3.0]))
    np.testing.assert_allclose(family.log_prob(jnp.zeros(2), natural), -3, rtol=1e-6)
    np.testing.assert_array_equal(family.log_prob(jnp.ones(2), natural), -np.inf)


@pytest.mark.parametrize(
    ("family", "x"),
    [
        (Poisson(1), [-1.0]),
        (Exponential(1), [-1.0]),
        (Bernoulli(1), [1.5]),
        (Gamma(1), [0.0]),
        (Beta(1), [1.5]),
        (Dirichlet(2), [0.5, 0.6]),
        (Gamma(1), [-1.0]),
        (InverseGaussian(1), [0.0]),
        (InverseGaussian(1), [-1.0]),
    ],
)
def test_log_prob_off_the_support_is_minus_inf(family, x, dtype):
    log_prob = family.log_prob(jnp.asarray(x), family.natural_init)
    np.testing.assert_array_equal(log_prob, -np.inf)


# --- Derivatives ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["poisson", "multinomial", "diagonal_gaussian"])
def test_score_is_statistic_less_mean(name, rng, x64):
    case = FAMILIES[name]
    family, natural = case.make(), case.natural(rng)
    x = case.data(rng, 1)[0]
    score = jax.grad(family.log_prob, argnums=1)(x, natural)
    mean = family.natural_to_mean(natural)
    expected = flat(family.sufficient_statistics(x), 0) - flat(mean, 0)
    np.testing.assert_allclose(flat(score, 0), expected, atol=1e-14)


def test_log_prob_has_its_slope_where_the_statistic_is_zero(x64):
    family, theta = Exponential(2), jnp.array([-2.0, -3.0])
    np.testing.assert_array_equal(jax.grad(family.log_prob)(jnp.zeros(2), theta), theta)


@pytest.mark.parametrize(
    "name",
    [
        "gaussian",
        "diagonal_gaussian",
        "gamma",
        "inverse_gaussian",
        "multinomial",
        "bernoulli",
    ],
)
def test_natural_parameter_is_the_slope_of_the_conjugate(name, rng, x64):
    """To second order: the Hessians of ψ and ψ* are inverse along the domain."""
    case = FAMILIES[name]
    family, p = case.make(), case.natural(rng)
    mean = family.natural_to_mean(p)
    move = jax.tree.map(lambda a: jnp.asarray(rng.normal(size=a.shape)), p)
    if name == "gaussian":
        move = (move[0], move[1] + move[1].T)

    @jax.jit
    def slopes(p, mean, move):
        along = jax.jvp(family.natural_to_mean, (p,), (move,))[1]
        slope = jax.grad(lambda m: family.conjugate(m).value)(mean)
        return slope, jax.jvp(family.mean_to_natural, (mean,), (along,))[1]

    slope, back = slopes(p, mean, move)
    slope, back, natural, move = (flat(t, 0) for t in (slope, back, p, move))
    if name == "multinomial":
        slope, back, natural, move = (
            v - v.mean() for v in (slope, back, natural, move)
        )
    np.testing.assert_allclose(slope, natural, atol=1e-10)
    np.testing.assert_allclose(back, move, atol=1e-9)


def test_gamma_shape_at_every_gap(dtype):
    """The conjugate inverts ψ from shape 1e-3 to 1e6 (float32: 1e4)."""
    shapes = np.logspace(-3, 6 if dtype == np.float64 else 4, 10)
    with jax.enable_x64(True):
        log_mean = special.digamma(shapes) - np.log(2.0)
        average = shapes / 2
    means = (log_mean.astype(dtype)[:, None], average.astype(dtype)[:, None])
    solve = jax.jit(jax.vmap(Gamma(1).conjugate))
    solution = solve(means)
    np.testing.assert_array_equal(solution.result, Result.CONVERGED)
    # log(average) − log_mean is known to eps (1 + |log_mean|), and is about 1 / 2k.
    condition = 4 * np.finfo(dtype).eps * (1 + np.abs(log_mean)) * (1 + 2 * shapes)
    error = np.abs(np.asarray(solution.maximiser[0])[:, 0] + 1 - shapes) / shapes
    assert (error <= condition).all()


# --- Hostile numbers -----------------------------------------------------------------


@pytest.mark.parametrize("name", ["multinomial", "categorical"])
def test_large_natural_parameters_of_categories(name, dtype):
    family, theta = FAMILIES[name].make(), jnp.array([800.0, 810.0, 0.0])
    np.testing.assert_allclose(family.log_partition(theta), 810.0000454, rtol=1e-7)
    mean = family.natural_to_mean(theta)
    np.testing.assert_allclose(mean, [4.53978687e-5, 0.99995460, 0], rtol=1e-4)
    np.testing.assert_allclose(
        family.log_prob(jnp.array([1.0, 0, 0]), theta), -10.0000454, rtol=1e-5
    )


def test_large_natural_parameters_elsewhere_in_float32():
    bernoulli, theta = Bernoulli(2), jnp.array([800.0, -800.0])
    np.testing.assert_array_equal(bernoulli.log_partition(theta), 800)
    np.testing.assert_array_equal(bernoulli.natural_to_mean(theta), [1, 0])
    np.testing.assert_array_equal(bernoulli.kl_divergence(theta, theta), 0)
    poisson, rate = Poisson(1), jnp.array([80.0])
    np.testing.assert_allclose(poisson.natural_to_mean(rate), np.exp(80.0), rtol=1e-5)
    ising = Ising(dim=2)
    natural = jax.tree.map(lambda a: a + 1e3, ising.natural_init)
    for mean, uniform in zip(ising.natural_to_mean(natural), (0.5, 0.25), strict=True):
        np.testing.assert_allclose(mean, uniform, rtol=1e-5)


def test_kl_divergence_of_near_parameters_keeps_its_digits(x64):
    family, theta = Poisson(1), jnp.array([3.0])
    step = 2.0**-40
    kl = family.kl_divergence(theta, theta + step)
    np.testing.assert_allclose(kl, np.exp(3.0) * step**2 / 2, rtol=1e-10)


@pytest.mark.parametrize("mean", [1e-6, 1.0, 1e6])
def test_conjugate_of_exp_by_the_solver(mean, dtype):
    solution = Poisson(1).numerical_conjugate(jnp.array([mean]))
    assert Result(int(solution.result)) == Result.CONVERGED
    mean = float(dtype.type(mean))
    tolerance = 1e-10 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(
        solution.value, mean * np.log(mean) - mean, rtol=tolerance
    )
    np.testing.assert_allclose(
        solution.maximiser, [np.log(mean)], rtol=tolerance, atol=tolerance
    )


# --- What the constructors check -----------------------------------------------------


def _sum_exp(theta):
    return jnp.sum(jnp.exp(theta))


def test_exponential_family_refuses_what_is_no_family():
    with pytest.raises(TypeError, match="`log_partition` must be a function; got 3"):
        ExponentialFamily(3, lambda x: x, np.zeros(2))  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="`sufficient_statistics` must be a function"):
        ExponentialFamily(_sum_exp, None, np.zeros(2))  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"must return a scalar; got shape \(2,\)"):
        ExponentialFamily(jnp.exp, lambda x: x, np.zeros(2))
    with pytest.raises(ValueError, match="inside the domain .*; got ψ = inf"):
        ExponentialFamily(lambda t: -jnp.sum(jnp.log(t)), lambda x: x, np.zeros(2))
    with pytest.raises(ValueError, match="inside the domain .*; got ψ = nan"):
        ExponentialFamily(lambda t: jnp.sum(jnp.log(t)), lambda x: x, -np.ones(2))


def test_statistic_must_fit_the_natural_parameter():
    family = ExponentialFamily(_sum_exp, lambda x: x, np.zeros(2))
    rows = [[1, 2], [3, 4]]
    assert family.for_data(rows) is family
    with pytest.raises(ValueError, match=r"got \(3,\) for a row of shape \(3,\)"):
        family.for_data(np.ones((4, 3)))
    pair = ExponentialFamily(_sum_exp, lambda x: (x, x**2), np.zeros(2))
    with pytest.raises(ValueError, match="structure and shapes of `natural_init`"):
        pair.for_data(np.ones((4, 2)))
    with pytest.raises(ValueError, match="`x` must have a row a point; got 3"):
        family.for_data(3.0)


def test_params_are_leaves_and_do_not_retrace():
    traced = []

    def psi(theta, scale):
        traced.append(1)
        return scale * jnp.sum(jnp.exp(theta))

    value = jax.jit(lambda family: family.log_partition(jnp.zeros(2)))
    make = lambda s: ExponentialFamily(psi, identity, np.zeros(2), params=s)
    first, second = make(1.0), make(2.0)
    traced.clear()
    assert value(first) == 2
    assert value(second) == 4
    assert len(traced) == 1
    slope = jax.grad(lambda family: family.log_partition(jnp.zeros(2)))(second)
    np.testing.assert_array_equal(slope.params, 2)


def test_dimension_comes_from_the_data():
    family = Poisson()
    with pytest.raises(ValueError, match="does not know its dimension yet"):
        _ = family.natural_init
    assert family.for_data(np.ones((4, 3))).dim == 3
    assert family.for_data(np.ones(4)).dim == 1
    with pytest.raises(ValueError, match="must have 2 columns.*got 3"):
        Poisson(2).for_data(np.ones((4, 3)))
    with pytest.raises(ValueError, match=r"must be a matrix.*got shape \(1, 2, 3\)"):
        family.for_data(np.ones((1, 2, 3)))
    with pytest.raises(ValueError, match="`variance` must be positive; got -1"):
        SphericalGaussian(-1.0).for_data(np.ones((4, 3)))


@pytest.mark.parametrize(
    ("family", "x", "message"),
    [
        (Poisson(), [[1.0], [-2.0]], "non-negative.*got -2.0 at row 1, column 0"),
        (Bernoulli(), [[0.5], [2.0]], r"in \[0, 1\].*got 2.0 at row 1"),
        (Exponential(), [[-1.0]], "non-negative for exponential times"),
        (Gamma(), [[1.0], [0.0]], "positive for Gamma; got 0.0 at row 1"),
        (InverseGaussian(), [[1.0], [0.0]], "positive for InverseGaussian; got 0.0"),
        (Beta(), [[0.5], [1.0]], "between 0 and 1 for Beta; got 1.0 at row 1"),
        (Beta(), [[0.5, 0.0]], "got 0.0 at row 0, column 1.*Shrink the column toward"),
        (
            Dirichlet(),
            [[0.5, 0.5], [0.0, 1.0]],
            "Dirichlet; got 0.0 at row 1, column 0",
        ),
        (
            Dirichlet(),
            [[0.5, 0.5], [0.5, 0.6]],
            "up to 1 for Dirichlet; got 1.1 at row",
        ),
        (Ising(), [[0.0, 0.5]], "0 or 1 for Ising; got 0.5 at row 0, column 1"),
        (Multinomial(), [[3, 1], [0, 0]], "positive total in every row.*row 1"),
        (Multinomial(), [3.0, 0.0], "positive total in every row.*row 1"),
        (Gaussian(), [[np.nan]], "must be finite; got nan at row 0, column 0"),
    ],
)
def test_rows_off_the_support_are_named(family, x, message):
    with pytest.raises(ValueError, match=message):
        family.check_support(np.asarray(x))


def test_ising_graphs():
    assert len(Ising(dim=4).graph) == 6
    assert Ising(dim=1).graph.shape == (0, 2)
    uniform = Ising(dim=1).natural_init
    np.testing.assert_allclose(Ising(dim=1).log_partition(uniform), np.log(2))
    with pytest.raises(ValueError, match=r"must join nodes 0 to 1; got \(0, 2\)"):
        _ = Ising(edges=((0, 1), (0, 2)), dim=2).graph
    with pytest.raises(ValueError, match="at most 16 nodes; got 17"):
        _ = Ising(dim=17).graph
    listed = Ising(edges=[[0, 1]]).for_data(np.zeros((3, 2)))  # pyright: ignore[reportArgumentType]
    assert hash(listed) == hash(Ising(edges=((0, 1),), dim=2))


def test_families_by_name():
    assert named_family("diagonal-gaussian") == DiagonalGaussian()
    assert named_family("ward") == SphericalGaussian()
    for name, kind in families.FAMILIES.items():
        assert type(named_family(name)) is kind
    with pytest.raises(ValueError, match="must be one of gaussian, .*; got 'normal'"):
        named_family("normal")


def test_the_start_itself_is_solved(dtype):
    """A mean of 0 = ∇ψ(0) leaves nothing to round: it is inside all the same."""
    del dtype
    solution = SphericalGaussian(dim=1).numerical_conjugate(jnp.zeros(1))
    assert solution.result == Result.CONVERGED
    assert solution.value == 0


@pytest.mark.parametrize(
    ("family", "p", "q", "right"),
    [
        (Multinomial(dim=3), [0.5, 0.5, 0], [0.4, 0.3, 0.3], 0.366985),
        (Poisson(dim=1), [0.0], [2.0], 2.0),
        (Bernoulli(dim=2), [1.0, 0.3], [0.2, 0.3], np.log(5)),
        (NegativeBinomial(2.0, dim=1), [0.0], [2.0], 2 * np.log(2)),
    ],
    ids=["multinomial", "poisson", "bernoulli", "negative binomial"],
)
def test_kl_divergence_of_boundary_parameters(family, p, q, right, x64):
    p, q = jnp.asarray(p), jnp.asarray(q)

    def kl(p, q):
        naturals = (family.mean_to_natural(mean) for mean in (p, q))
        return family.kl_divergence(*naturals)

    np.testing.assert_allclose(kl(p, q), right, rtol=2e-6)
    assert kl(p, p) == 0
    assert kl(q, p) == np.inf
    slope = jax.grad(kl, argnums=1)(p, q)
    assert np.all(np.isfinite(slope))


@pytest.mark.parametrize(
    "family",
    [Poisson(1), NegativeBinomial(2.0, 1), NegativeBinomial(0.5, 1)],
    ids=["poisson", "two", "half"],
)
def test_slopes_of_kl_divergence_have_their_limits(family, x64):
    """Those of θ_p or θ_q = −∞ are those of −60; NaN, some of them, as 0 · ∞."""
    none, some = jnp.array([-jnp.inf]), family.mean_to_natural(jnp.array([0.5]))
    slopes = jax.grad(family.kl_divergence, argnums=(0, 1))
    np.testing.assert_allclose(slopes(none, some), [[0], [0.5]], atol=1e-6)
    np.testing.assert_allclose(slopes(some, none), [[np.inf], [-0.5]], rtol=1e-6)
    np.testing.assert_array_equal(slopes(none, none), [[0], [0]])


def test_kl_divergence_from_none_rises_with_the_dispersion(x64):
    """KL = −r log(1 − e^θ) from a mean of 0."""

    def kl(dispersion):
        family = NegativeBinomial(dispersion, 1)
        return family.kl_divergence(jnp.array([-jnp.inf]), jnp.log(jnp.array([0.5])))

    np.testing.assert_allclose(jax.grad(kl)(2.0), np.log(2), rtol=1e-6)
