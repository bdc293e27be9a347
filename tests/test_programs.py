"""Programs by NumPy give what compiled ones do, primitive by primitive."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cluster_states import CLOSED
from family_cases import FAMILIES
from jax import lax

from bregjax._evaluation import build_leaves
from bregjax._problem import Problem
from bregjax._programs import program
from bregjax._programs.calls import compile_nanoseconds
from bregjax._programs.elementwise import Unknown
from bregjax._programs.translate import Routine
from bregjax.hierarchy import agglomerate
from bregjax.hierarchy._search import take

rng = np.random.default_rng(0)
X = rng.normal(size=(3, 4))
ODD = np.array([0.0, -0.0, 1.0, -1.5, 2.5, 0.5, np.inf, -np.inf, np.nan, 1e-300, 1e300])
POSITIVE = np.array([0.1, 0.5, 1.0, 2.5, 30.0])
COUNTS = np.array([-7, -2, 0, 3, 8])
MATRICES = np.eye(3) * 2 + np.einsum("kij,klj->kil", *[rng.normal(size=(2, 3, 3))] * 2)

UNARY = [
    jnp.abs, jnp.ceil, jnp.floor, jnp.sign, jnp.exp, jnp.exp2, jnp.expm1, jnp.log,
    jnp.log1p, jnp.sqrt, jnp.square, jnp.sin, jnp.cos, jnp.tan, jnp.tanh, jnp.sinh,
    jnp.cosh, jnp.arcsin, jnp.arccos, jnp.arctan, jnp.arcsinh, jnp.arccosh,
    jnp.arctanh, jnp.cbrt, jnp.isfinite, jnp.negative, lax.rsqrt, lax.round,
    jnp.round, lax.erf, lax.erfc, lax.logistic, lax.bessel_i0e, lax.bessel_i1e,
    lambda x: x**3, lambda x: x**4, lambda x: x**-2, lambda x: x**7,
    lambda x: lax.reduce_precision(x, 11, 25), lambda x: lax.clamp(-1.0, x, 2.0),
    lambda x: x.astype(jnp.float32), lambda x: jnp.nextafter(x, jnp.inf),
    lambda x: lax.bitcast_convert_type(x, jnp.int64), lax.stop_gradient,
]  # fmt: skip
BINARY = [
    jnp.add, jnp.subtract, jnp.multiply, jnp.divide, jnp.maximum, jnp.minimum,
    jnp.arctan2, lax.rem, jnp.power, jnp.equal, jnp.less, jnp.greater_equal,
]  # fmt: skip
ON_POSITIVE = [
    lax.lgamma, lax.digamma, lambda x: lax.polygamma(jnp.ones_like(x), x),
    lambda x: lax.igamma(x, 1.5 * x), lambda x: lax.igammac(x, 1.5 * x),
    lambda x: lax.betainc(x, x + 1, 0.3 * jnp.ones_like(x)),
    lambda x: lax.erf_inv(x / 40),
]  # fmt: skip


def agree(function, *args, rtol=1e-13, **options):
    """Hold a function by NumPy against its compiled form."""
    with jax.enable_x64(True):
        args = jax.tree.map(np.asarray, args)
        routine = Routine(jax.make_jaxpr(function)(*args))
        with np.errstate(all="ignore"):
            got = routine([np.array(leaf) for leaf in jax.tree.leaves(args)])
        expected = jax.tree.leaves(jax.jit(function)(*args))
    for mine, right in zip(got, expected, strict=True):
        assert np.asarray(mine).dtype == right.dtype
        assert np.shape(mine) == right.shape
        np.testing.assert_allclose(mine, right, rtol=rtol, **options)


@pytest.mark.parametrize("function", UNARY)
def test_functions_of_one_number(function):
    agree(function, ODD[:-2])
    agree(function, np.array([1e-3, 0.7, 1e3]))


@pytest.mark.parametrize("function", BINARY)
def test_functions_of_two_numbers(function):
    agree(function, ODD[:-2, None], ODD[None, :-2])


@pytest.mark.parametrize("function", ON_POSITIVE)
def test_special_functions(function):
    agree(function, POSITIVE, rtol=1e-10)


@pytest.mark.parametrize("function", [lax.div, lax.rem, lax.bitwise_and, lax.max])
def test_whole_numbers(function):
    agree(function, *np.broadcast_arrays(COUNTS[:, None], [-3, -1, 2, 5, 7]))
    agree(lambda x: (x >> 1, lax.shift_right_logical(x, 3), x << 2), COUNTS)


def test_bits_of_signed_zeros_and_order_of_nan():
    order = lambda x: jnp.searchsorted(jnp.sort(x), x)
    agree(order, ODD)
    agree(lambda x: jnp.searchsorted(jnp.sort(x), x, side="right"), X[0])
    got = program(lambda x: 1 / lax.round(x))
    with jax.enable_x64(True):
        assert got(np.array([-0.2]))[0] == -np.inf


SHAPES = [
    lambda x: x[:, None] + jnp.zeros((3, 2, 4)),
    lambda x: x.reshape(2, 6).T,
    lambda x: x[::2, 1:3],
    lambda x: x[::-1, ::-1],
    lambda x: jnp.concatenate([x, x[:1]]),
    lambda x: jnp.stack([x, 2 * x], axis=1),
    lambda x: jnp.split(x, [1, 3], axis=1),
    lambda x: jnp.unstack(x, axis=1),
    lambda x: jnp.pad(x, ((1, 2), (0, 1)), constant_values=7.0),
    lambda x: lax.pad(x, 0.0, ((0, 1, 2), (1, 0, 0))),
    lambda x: jnp.sum(x, axis=0) + jnp.prod(x),
    lambda x: jnp.argmax(x, axis=1) + jnp.argmin(x),
    lambda x: jnp.max(x, axis=(0, 1)) * jnp.any(x > 1, axis=0) * jnp.all(x < 3),
    lambda x: (
        jnp.cumsum(x, axis=1),
        lax.cumprod(x, 0),
        lax.cummax(x, 1, reverse=True),
    ),
    lambda x: lax.cumlogsumexp(x, 1),
    lambda x: jnp.sort(x, axis=0),
    lambda x: lax.sort([jnp.floor(x), x, -x], dimension=1, num_keys=2),
    lambda x: jnp.argsort(-x, axis=1),
    lambda x: jnp.einsum("ij,kj->ik", x, x),
    lambda x: jnp.einsum("ij,ij->i", x, x),
    lambda x: jnp.einsum("ij,ik->ijk", x, x),
    lambda x: jnp.tensordot(x, x, ([0, 1], [0, 1])),
    lambda x: lax.dynamic_slice(x, (2, 3), (2, 2)),
    lambda x: lax.dynamic_update_slice(x, jnp.ones((2, 2)), (-1, 3)),
    lambda x: jnp.where(x > 0, x, 0).at[1].set(3.0),
    lambda x: lax.select_n(jnp.int32(jnp.arange(4) % 3), *(k * x[0] for k in range(3))),
]


@pytest.mark.parametrize("function", SHAPES)
def test_shapes_and_reductions(function):
    agree(function, X)


INDEX = np.array([2, 0, 5, -1])
INDEXING = [
    lambda x, i: x[i],
    lambda x, i: x[:, i],
    lambda x, i: x[i, i],
    lambda x, i: x.at[i].get(mode="fill"),
    lambda x, i: x.at[i].get(mode="fill", fill_value=3.0),
    lambda x, i: x.at[i].get(mode="clip"),
    lambda x, i: jnp.take_along_axis(x, jnp.abs(i[None, :]) % 4, axis=1),
    lambda x, i: jax.vmap(lambda row, k: row[k])(x, jnp.abs(i[:3])),
    lambda x, i: jax.vmap(lambda row, k: lax.dynamic_slice(row, (k,), (2,)))(x, i[:3]),
    lambda x, i: x.at[i].add(jnp.ones((4, 4))),
    lambda x, i: x.at[:, i].add(2.0, mode="drop"),
    lambda x, i: x.at[i % 3, 0].max(jnp.arange(4.0)),
    lambda x, i: x.at[i % 3].min(0.0),
    lambda x, i: x.at[jnp.arange(3), i[:3]].multiply(2.0),
    lambda x, i: x.at[i].set(5.0, mode="clip"),
    lambda x, i: jax.vmap(lambda row, k: row.at[k].add(1.0))(x, i[:3]),
    lambda x, i: jax.ops.segment_sum(x[0], i % 3, num_segments=3),
]


@pytest.mark.parametrize("function", INDEXING)
def test_indexing(function):
    agree(function, X, INDEX)


def _triangular(left, lower, transposed, unit):
    return lambda a, b: lax.linalg.triangular_solve(
        a, b, left_side=left, lower=lower, transpose_a=transposed, unit_diagonal=unit
    )


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("transposed", [True, False])
def test_triangular_solves(left, lower, transposed):
    b = rng.normal(size=(2, 3, 2)) if left else rng.normal(size=(2, 2, 3))
    for unit in (False, True):
        agree(_triangular(left, lower, transposed, unit), MATRICES, b, rtol=1e-12)


def test_factorisations():
    agree(jnp.linalg.cholesky, MATRICES)
    bad = np.stack([MATRICES[0], -MATRICES[0], MATRICES[1]])
    agree(jnp.linalg.cholesky, bad)
    agree(lambda x: jnp.linalg.eigh(x)[0], MATRICES)
    agree(lambda x: jnp.abs(jnp.linalg.qr(x)[1]), MATRICES, rtol=1e-12)


def _half_until_small(x):
    return lax.while_loop(lambda s: s[0] > 1, lambda s: (s[0] / 2, s[1] + 1), (x, 0))


def _both(a, b):
    return a[0] + b[0], a[1] * b[1]


CONTROL = [
    lambda x: _half_until_small(x[0]),
    lambda x: jax.vmap(_half_until_small)(x),
    lambda x: lax.fori_loop(0, 5, lambda k, s: s + k * x, x),
    lambda x: lax.scan(lambda s, row: (s + row, s * row), 1.0, x),
    lambda x: lax.scan(lambda s, row: (s - row, s), x[0], x, reverse=True),
    lambda x: lax.cond(x[0] > 3, jnp.sin, jnp.cos, x),
    lambda x: lax.switch(jnp.int32(x[1]), [jnp.sin, jnp.cos, jnp.exp], x),
    lambda x: jax.vmap(lambda t: lax.cond(t > 3, jnp.sin, jnp.cos, t))(x),
    lambda x: lax.map(lambda t: jnp.where(t > 3, t, -t), x),
    lambda x: jax.grad(lambda t: jnp.sum(jax.nn.logsumexp(t) ** 2))(x),
    lambda x: jax.checkpoint(jnp.tanh)(x),
    lambda x: jax.nn.softplus(x),
    lambda x: lax.reduce((x, x), (0.0, 1.0), _both, (0,)),
    lambda x: lax.optimization_barrier((x, 2 * x)),
    lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos),
]


@pytest.mark.parametrize("function", CONTROL)
def test_control(function):
    agree(function, np.array([5.0, 1.0, 40.0, 0.2]))


def test_solves_with_rules_of_their_own():
    matrix = np.asarray(MATRICES[0])
    solve = lambda b: lax.custom_linear_solve(
        lambda v: matrix @ v, b, lambda _, r: jnp.linalg.solve(matrix, r)
    )
    with jax.enable_x64(True):
        expected = np.linalg.solve(matrix, np.ones(3))
        np.testing.assert_allclose(program(solve)(np.ones(3)), expected, rtol=1e-12)


@pytest.mark.parametrize("name", [name for name in CLOSED if name != "categories"])
def test_costs_of_families(name):
    case = FAMILIES[name]
    problem = Problem(case.data(rng, 9), family=case.make())
    model = problem.family.cluster_model()
    if model.solves:
        pytest.skip("its costs are solved for by programs of their own")

    def costs(problem):
        model, leaves = build_leaves(problem)
        union = model.union(take(leaves, slice(8)), take(leaves, slice(1, 9)))
        cross = model.cross_cost(leaves, leaves)
        return leaves, union, cross, model.result(leaves)

    agree(costs, problem, rtol=1e-9, atol=1e-12)


def test_what_numpy_runs_and_what_is_compiled():
    calls = []

    @program
    def total(x, *, scale):
        calls.append(x.shape)
        return {"sum": scale * jnp.sum(x), "x": x}

    small = np.ones(10)
    with jax.enable_x64(True):
        found = total(small, scale=2.0)
        assert total(small + 1, scale=2.0)["sum"] == 40.0
        assert total.routine(small, scale=2.0) is total.routine(small + 1, scale=2.0)
        much = total.routine(jax.ShapeDtypeStruct((10**9,), "f4"), scale=2.0)
        assert much is not None
        assert much.nanoseconds > compile_nanoseconds(much.size)
    assert isinstance(found["sum"], np.ndarray)
    assert found["sum"] == 20.0
    assert not np.shares_memory(found["x"], small)
    found["x"][:] = 0  # results are the caller's own
    assert small.sum() == 10
    assert calls.count((10,)) == 1
    # Outside of float64, and where values are traced, JAX does it.
    assert isinstance(total(np.float32(small), scale=2.0)["sum"], jax.Array)
    assert jax.jit(lambda x: total(x, scale=1.0)["sum"])(small) == 10


def test_what_has_no_form_in_numpy_is_compiled():
    @program
    def convolved(x):
        return lax.conv(x[None, None], x[None, None, :2], (1,), "VALID")

    with jax.enable_x64(True):
        assert convolved.routine(POSITIVE) is None
        assert isinstance(convolved(POSITIVE), jax.Array)


singles = functools.partial(np.array, dtype=np.float32)
longs = functools.partial(np.array, dtype=np.int64)
bytes_of = functools.partial(np.array, dtype=np.uint8)
ints = functools.partial(np.array, dtype=np.int32)
FAR = np.array([-np.inf, -3e9, -2.0, -0.5, -0.0, 0.0, 0.5, 300.0, 3e9, np.inf, np.nan])
# Versions of JAX differ in digamma and polygamma at 0, and in igamma of infinity.
ORDERS = np.array([0.0, 1.0, 2.0, 2.0, 1.0, 3.0, np.inf])
POINTS = np.array([1.0, np.inf, np.inf, -1.0, -1.0, 0.5, 0.5])
SHARES = np.array([0.0, 0.5, 1.0, np.nan])
BYTES = np.array([100, 100, 7], np.int8)
INDEFINITE = np.array([[1.0, 2.0], [2.0, 1.0]], np.float32)
NONE = np.zeros((2, 0))
ODD_CALLS = [
    (lambda x: [x.astype(t) for t in ("i1", "u1", "i4", "u4", "i8", "u8", "?")], FAR),
    (lax.lgamma, FAR),
    (lax.digamma, FAR[FAR != 0]),
    (lax.polygamma, ORDERS, POINTS),
    (lax.igamma, *np.meshgrid(SHARES, [0.0, 0.5, 1.0, 3.0, np.inf])),
    (lax.igammac, *np.meshgrid(SHARES, [0.0, 0.5, 1.0, 3.0, np.inf])),
    (lax.div, COUNTS, np.zeros(5, int)),
    (lax.div, bytes_of([1, 2]), bytes_of([0, 2])),
    (lax.rem, COUNTS, np.zeros(5, int)),
    (lambda a, b: (a // b, a % b), COUNTS, np.array([0, 2, 0, -3, 0])),
    (
        lambda k: lax.select_n(k, *(n * jnp.ones(4) for n in range(3))),
        ints([0, 1, 5, -1]),
    ),
    (lax.round, np.array([0.49999999999999994, -0.5, 2.5, np.inf, 2**52 + 1.0])),
    (lambda x: [lax.cumsum(x), lax.cumprod(x), lax.cummax(x)], BYTES),
    (lambda x: [lax.cumsum(x, reverse=True)], BYTES.astype(np.int32) << 24),
    (lambda x: [lax.reduce_and(x, (0,)), lax.reduce_or(x, (0,))], BYTES),
    (lambda x: [jnp.max(x, 1, initial=-1.0), jnp.min(x, 1, initial=1.0)], NONE),
    (lambda x: jnp.max(x, axis=1, initial=-9), NONE.astype(np.int8)),
    (lambda x: lax.dot(x, x, preferred_element_type=jnp.int32), BYTES),
    (
        lambda x: lax.dot(x, x, preferred_element_type=jnp.float64),
        singles([1e30, 1]),
    ),
    (jnp.power, singles([2, 3]), longs([3, -4])),
    (jnp.linalg.cholesky, INDEFINITE),
    (lambda x: jnp.linalg.eigh(x)[0], singles([[np.nan, 0], [0, 1]])),
    (lax.igamma, singles([1, 2]), singles([1, 2])),
]


@pytest.mark.parametrize("call", ODD_CALLS)
def test_values_and_types_at_the_ends_of_domains(call):
    function, *args = call
    rtol = 1e-5 if any(np.asarray(a).dtype == np.float32 for a in args) else 1e-10
    agree(function, *args, rtol=rtol)


@pytest.mark.parametrize("operation", ["add", "multiply", "min", "max", "set"])
def test_plain_scatters_have_a_form(operation):
    agree(lambda x: getattr(x.at[0], operation)(2.0), POSITIVE)


def test_what_is_not_plain_is_compiled():
    kinds = [
        lambda x: x.at[0].apply(jnp.log1p),
        lambda x: lax.zeta(x + 1.5, x),
        lambda x: x.astype(jnp.bfloat16),
        lambda x: x + jax.random.uniform(jax.random.key(0)),
    ]
    with jax.enable_x64(True):
        for kind in kinds:
            with pytest.raises(Unknown):
                Routine(jax.make_jaxpr(kind)(POSITIVE))
            got = program(kind)(POSITIVE)
            np.testing.assert_array_equal(got, jax.jit(kind)(POSITIVE))
        key, double = program(lambda k, x: (k, 2 * x))(jax.random.key(3), POSITIVE)
    assert key == jax.random.key(3)
    np.testing.assert_array_equal(double, 2 * POSITIVE)


def test_results_are_the_callers_own():
    held = np.arange(3.0)

    @program
    def several(x):
        twice = 2 * x
        return twice, twice, jnp.arange(3) + 1, held, x

    x = np.ones(3)
    with jax.enable_x64(True):
        first = several(x)
        for result in first:
            result[:] = 99
            assert x.sum() == 3.0
        held[:] = 99
        again = several(x)
    expected = [[2, 2, 2], [2, 2, 2], [1, 2, 3], [0, 1, 2], [1, 1, 1]]
    np.testing.assert_array_equal(again, expected)
    assert not np.shares_memory(first[0], first[1])


def test_modes_and_weak_types_are_told_apart():
    tenth = program(lambda x: x * 0.1)
    tenth.routine(np.ones(3))
    times = program(lambda a, b: a * b)
    one = np.ones(2, np.float32)
    with jax.enable_x64(True):
        assert tenth(np.ones(3))[0] == 0.1
        for factor in (
            jnp.asarray(2.0),
            jnp.asarray(np.float64(2)),
            np.float64(2),
            2.0,
        ):
            expected = jax.jit(lambda a, b: a * b)(factor, one).dtype
            assert times(factor, one).dtype == expected


def test_long_loops_are_compiled():
    turns = []

    @program
    def harmonic(x, n):
        turns.append(1)
        return lax.fori_loop(0, n, lambda k, s: s + 1 / (k + x), 0.0)

    held = lambda x: lax.while_loop(lambda s: s < 10**7, lambda s: s + 1, 0) + x
    with jax.enable_x64(True):
        assert isinstance(harmonic(1.0, 10), np.ndarray)
        long = harmonic(1.0, 300_000)
        assert isinstance(long, jax.Array)
        np.testing.assert_allclose(long, np.sum(1 / np.arange(1, 300_001)), rtol=1e-12)
        assert isinstance(harmonic(1.0, 10), jax.Array)
        # Nothing is looped through while it is translated.
        assert isinstance(program(held)(1), jax.Array)
        never = program(lambda x: lax.cond(x > 0, lambda: x, lambda: held(x)))
        assert never(1) == 1


def test_few_forms_are_kept():
    scaled = program(lambda x, *, k, j: x * k + j)
    with jax.enable_x64(True):
        for k in range(300):
            scaled.routine(np.ones(2), k=k, j=0)
        assert scaled.routine(np.ones(2), k=299, j=0) is scaled.routine(
            np.ones(2), j=0, k=299
        )
    assert len(scaled._routines) <= 256
    assert len(scaled._compiled) <= 256


def test_searches_for_nan_find_it():
    logs = program(jnp.log)
    with jax.enable_x64(True), jax.debug_nans(True), pytest.raises(FloatingPointError):
        logs(-np.ones(2))


@pytest.mark.parametrize("engine", ["numpy", "matrix"])
def test_rows_too_small_are_the_same_error_of_all_engines(engine):
    tiny = np.random.default_rng(1).gamma(2, size=(12, 3)) * 1e-160
    with pytest.raises(ValueError, match="underflow"):
        agglomerate(Problem(tiny, family="gaussian"), engine=engine)


def test_traced_values_that_a_function_holds():
    total = lambda t: jnp.sum(program(lambda x: t * x)(np.ones(3)))
    with jax.enable_x64(True):
        assert jax.grad(total)(2.0) == 3.0
