"""One-sided derivatives against difference quotients, closed forms and refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from directional_cases import CONTINUOUS, DIRECTIONS, GENERIC, JUMPS, POINTS
from jax import lax
from jax.scipy.special import entr, xlogy

from bregjax.convex import (
    define_directional_derivative,
    directional_derivative,
)

ALL = {**CONTINUOUS, **JUMPS}
STEP = 1e-7
PAIRS = [(x, v) for x in POINTS for v in DIRECTIONS]
POINT_ROWS, DIRECTION_ROWS = (np.array(rows) for rows in zip(*PAIRS, strict=True))


def _along(f):
    return jax.jit(jax.vmap(lambda x, v: directional_derivative(f, x, v)))


def _quotients(f, *, jumps):
    """Difference quotients; with jumps both points lie on the ray, off its start."""
    value = jax.jit(jax.vmap(f))
    near, far = (STEP, 2 * STEP) if jumps else (0.0, STEP)
    ahead = value(POINT_ROWS + far * DIRECTION_ROWS)
    return (ahead - value(POINT_ROWS + near * DIRECTION_ROWS)) / STEP


@pytest.mark.parametrize("name", ALL)
def test_limit_of_difference_quotients(name, x64):
    f = ALL[name]
    slopes = _along(f)(POINT_ROWS, DIRECTION_ROWS)
    expected = _quotients(f, jumps=name in JUMPS)
    np.testing.assert_allclose(slopes, expected, rtol=3e-6, atol=3e-6)
    if name == "custom_vjp":
        return
    # Where f is smooth it is the JVP (which a custom VJP has not), to rounding.
    tangent = lambda v: jax.jvp(f, (jnp.asarray(POINTS[GENERIC]),), (v,))[1]
    smooth = jax.jit(jax.vmap(tangent))(DIRECTIONS)
    np.testing.assert_allclose(slopes.reshape(5, 5)[GENERIC], smooth, rtol=1e-11)


@pytest.mark.parametrize(
    "name", ["l1", "median", "norm 2", "logsumexp", "cond", "huber", "eigenvalues"]
)
def test_eager_and_float32_agree_with_compiled_float64(name):
    f = ALL[name]
    with jax.enable_x64(True):
        expected = np.asarray(_along(f)(POINT_ROWS, DIRECTION_ROWS))
        for row in (0, 8):
            eager = directional_derivative(f, POINT_ROWS[row], DIRECTION_ROWS[row])
            np.testing.assert_allclose(eager, expected[row], rtol=1e-12)
    single = _along(f)(np.float32(POINT_ROWS), np.float32(DIRECTION_ROWS))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected, rtol=1e-5, atol=1e-5)


V = np.array([1.0, -2.0])

CLOSED_FORMS = {
    "norm at 0": (jnp.linalg.norm, [0, 0], V, np.sqrt(5)),
    "root of the 1-norm": (lambda x: jnp.sqrt(jnp.sum(jnp.abs(x))), [0, 0], V, np.inf),
    "root of a cube": (lambda x: jnp.sqrt(jnp.abs(x[0]) ** 3), [0, 0], V, 0.0),
    "root at rest": (lambda x: jnp.sum(jnp.sqrt(x)), [0, 4], [0, 2], 0.5),
    "x log|x|": (lambda x: x[0] * jnp.log(jnp.abs(x[0])), [0, 0], V, -np.inf),
    "xlogy": (
        lambda x: jnp.sum(jax.scipy.special.xlogy(x, x)),
        [0, 1],
        [1, 1],
        -np.inf,
    ),
    "xlogy at rest": (
        lambda x: jnp.sum(jax.scipy.special.xlogy(x, x)),
        [0, 1],
        [0, 1],
        1,
    ),
    "entropy": (lambda x: jnp.sum(entr(x)), [0, 1], [1, 1], np.inf),
    "out of the domain": (
        lambda x: jnp.where(jnp.all(x >= 0), jnp.sum(x), jnp.inf),
        [0, 0],
        V,
        np.inf,
    ),
    "no step, undecided or not": (
        lambda x: jnp.sum(jnp.where(x**3 > 0, x, 5 * x)),
        [0, 0],
        [0, 0],
        0.0,
    ),
    "third order, same branches": (
        lambda x: jnp.sum(jnp.where(x**3 > 0, x, x * 1)),
        [0, 0],
        V,
        -1.0,
    ),
    "second order decides cond": (
        lambda x: lax.cond(x[0] ** 2 > 0, lambda: x[0], lambda: 5 * x[0]),
        [0, 0],
        V,
        1.0,
    ),
    "stop_gradient is the identity": (
        lambda x: jnp.sum(lax.stop_gradient(jnp.abs(x))),
        [0, 0],
        V,
        3.0,
    ),
}


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_closed_forms(name, dtype):
    f, x, v, expected = CLOSED_FORMS[name]
    x, v = np.asarray(x, dtype), np.asarray(v, dtype)
    eager = directional_derivative(f, x, v)
    compiled = jax.jit(lambda x, v: directional_derivative(f, x, v))(x, v)
    np.testing.assert_allclose([eager, compiled], expected, rtol=1e-6)


def _matrix(x):
    return jnp.array([[1 + x[0], x[1]], [x[1], 1 - x[0]]])


UNDECIDED = {
    "where": (lambda x: jnp.sum(jnp.where(x**3 > 0, x, 5 * x)), "comparison"),
    "where in scan": (
        lambda x: lax.scan(
            lambda c, y: (c + jnp.where(y**3 > 0, y, 5 * y), None), 0.0 * x[0], x
        )[0],
        "comparison",
    ),
    "cond": (
        lambda x: lax.cond(x[0] ** 3 > 0, lambda: x[0], lambda: 5 * x[0]),
        "comparison",
    ),
    "sign": (lambda x: jnp.sum(jnp.sign(x**3) * x), "comparison"),
    "argmax": (lambda x: x[jnp.argmax(x**3)], "comparison"),
    "argsort": (lambda x: x[jnp.argsort(x**3)][0], "comparison"),
    "top_k": (lambda x: x[lax.top_k(x**3, 1)[1]][0], "comparison"),
    "ranks": (lambda x: x @ jnp.argsort(jnp.argsort(x**3)).astype(x.dtype), "comp"),
    "integer cast": (lambda x: jnp.sum((1 + x**3).astype(int) * x), "comparison"),
    "floor": (lambda x: jnp.sum(jnp.floor(x**3) * x), "comparison"),
    "while": (
        lambda x: lax.while_loop(
            lambda s: s[0] ** 3 < 0.0, lambda s: (s[0] + 1, s[1] + 1), (x[0], x[1])
        )[1],
        "while loop",
    ),
    "sort of undecided": (
        lambda x: jnp.sort(jnp.stack([x[0], jnp.where(x[1] ** 3 > 0, x[1], -x[1])]))[0],
        "comparison",
    ),
    "fourth root": (lambda x: jnp.sqrt(jnp.sqrt(jnp.sum(x**4))), "sqrt"),
    "cube norm": (lambda x: jnp.linalg.norm(x, 3), "pow"),
    "out of the domain": (lambda x: jnp.sum(jnp.sqrt(x)), "sqrt"),
    "power of itself": (lambda x: jnp.sum(x**x), "pow"),
    "eigenvectors": (lambda x: jnp.linalg.eigh(_matrix(x))[1][0, 0], "eigh"),
    "singular vectors": (lambda x: jnp.linalg.svd(_matrix(x))[0][0, 0], "svd"),
    "two infinities": (
        lambda x: jnp.sum(xlogy(jnp.abs(x), jnp.abs(x)) * V),
        "inf − inf",
    ),
}


@pytest.mark.parametrize("name", UNDECIDED)
def test_undecided_raises_eagerly_and_is_nan_when_traced(name, x64):
    f, reason = UNDECIDED[name]
    x = np.zeros(2)
    with pytest.raises(ValueError, match=f"(?s)not decided.*{reason}"):
        directional_derivative(f, x, V)
    assert np.isnan(jax.jit(lambda x: directional_derivative(f, x, V))(x))


def test_an_underflown_norm_is_refused_and_not_infinite(dtype):
    x = np.array([np.finfo(dtype).tiny ** 0.6, 0.0], dtype)
    with pytest.raises(ValueError, match="sqrt"):
        directional_derivative(jnp.linalg.norm, x, np.ones(2, dtype))


def _custom_root(x):
    return lax.custom_root(
        lambda y: y**3 + y - x[0],
        0.0 * x[0],
        lambda f, y: lax.fori_loop(0, 5, lambda i, z: z - f(z) / (3 * z * z + 1), y),
        lambda g, y: y / g(1.0),
    )


STRUCTURAL = {
    "custom_root": (_custom_root, "(?i)custom_?root"),
    "eig": (lambda x: jnp.linalg.eigvals(_matrix(x)).real[0], "eig"),
    "reduce": (lambda x: lax.reduce(x, 0.0, lambda a, b: a + b * b, (0,)), "reduce"),
    "gradient of a maximum pool": (
        jax.grad(
            lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2,), (1,), "VALID")[0]
        ),
        "select_and_scatter_add",
    ),
}


@pytest.mark.parametrize("name", STRUCTURAL)
def test_primitives_without_a_rule_raise_always(name):
    f, primitive = STRUCTURAL[name]
    for x in (np.ones(2), np.zeros(2)):
        with pytest.raises(NotImplementedError, match=f"(?s){primitive}.*has no rule"):
            jax.jit(lambda x: directional_derivative(f, x, V))(x)
        with pytest.raises(NotImplementedError, match="has no rule"):
            directional_derivative(f, x, V)


def test_pytrees_in_and_out(x64):
    f = lambda p: {"s": jnp.abs(p["a"]) + jnp.max(p["b"]), "c": jnp.ones(2)}
    x, v = {"a": 0.0, "b": np.zeros(2)}, {"a": -2.0, "b": V}
    slope = directional_derivative(f, x, v)
    assert slope["s"] == 3.0
    np.testing.assert_array_equal(slope["c"], np.zeros(2))


def test_gradient_of_the_derivative_where_smooth(x64):
    f = lambda x: (
        jnp.sum(jnp.exp(x) * jnp.abs(x)) + jnp.linalg.norm(x) + jax.nn.logsumexp(x)
    )
    x = np.array([0.3, -1.2])
    ours = jax.jit(jax.grad(lambda x: directional_derivative(f, x, V)))(x)
    expected = jax.grad(lambda x: jax.jvp(f, (x,), (V,))[1])(x)
    np.testing.assert_allclose(ours, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("x", "v", "message"),
    [
        ({"a": 0.0}, 1.0, "structure"),
        (np.zeros(2), np.ones(3), "shapes"),
        (np.zeros(2, int), np.ones(2), "float leaves"),
    ],
)
def test_arguments_that_do_not_match(x, v, message):
    with pytest.raises(ValueError, match=message):
        directional_derivative(lambda x: x, x, v)


def test_integer_results_are_refused():
    with pytest.raises(ValueError, match="floats"):
        directional_derivative(jnp.argmax, np.zeros(2), V)


def _euclid(x):
    return jnp.sqrt(jnp.sum(jnp.abs(x) ** 2.5) ** 0.8)


def _euclid_rule(x, v):
    """A rule that no walk finds: the 2.5-norm at 0."""
    size = jnp.sum(jnp.abs(x) ** 2.5)
    safe = jnp.where(size > 0, size, 1.0)
    smooth = safe**-0.6 * jnp.sum(jnp.sign(x) * jnp.abs(x) ** 1.5 * v)
    return jnp.where(size > 0, smooth, jnp.sum(jnp.abs(v) ** 2.5) ** 0.4)


def test_own_rule_holds_inside_jit_vmap_and_loops(x64):
    norm = define_directional_derivative(_euclid, _euclid_rule)
    with pytest.raises(ValueError, match="not decided"):
        directional_derivative(_euclid, np.zeros(2), V)
    expected = np.sum(np.abs(V) ** 2.5) ** 0.4
    assert np.isclose(directional_derivative(norm, np.zeros(2), V), expected)
    f = lambda x: (
        jnp.sum(jax.vmap(norm)(x)) + jax.jit(norm)(2 * x[0]) + lax.map(norm, x).sum()
    )
    x, v = np.zeros((2, 2)), np.stack([V, 2 * V])
    assert np.isclose(directional_derivative(f, x, v), 8 * expected)
    f_batch = jax.jit(jax.vmap(lambda x, v: directional_derivative(norm, x, v)))
    np.testing.assert_allclose(f_batch(x, v), [expected, 2 * expected])


def test_own_rule_leaves_values_and_gradients_alone(x64):
    norm = define_directional_derivative(_euclid, _euclid_rule)
    x = jnp.array([0.3, -1.2])
    np.testing.assert_array_equal(norm(x), _euclid(x))
    np.testing.assert_allclose(jax.grad(norm)(x), jax.grad(_euclid)(x), rtol=1e-12)
    inner = lambda x: jnp.sum(jax.grad(norm)(x))
    expected = jax.jvp(lambda x: jnp.sum(jax.grad(_euclid)(x)), (x,), (V,))[1]
    np.testing.assert_allclose(directional_derivative(inner, x, V), expected)


def test_own_rule_that_does_not_fit(x64):
    wrong = define_directional_derivative(jnp.sum, lambda x, v: v)
    with pytest.raises(ValueError, match="structure and shapes"):
        directional_derivative(wrong, np.zeros(2), V)

    def closes_over(x):
        inner = define_directional_derivative(lambda z: z * x[0], lambda z, w: w * x[0])
        return jnp.sum(inner(x))

    with pytest.raises(NotImplementedError, match="closes over"):
        directional_derivative(closes_over, np.ones(2), V)


def test_equal_singular_values(x64):
    nuclear = lambda matrix: jnp.linalg.norm(matrix, "nuc")
    along = jnp.diag(jnp.array([1.0, -3.0]))
    slope = directional_derivative(nuclear, jnp.eye(2), along)
    np.testing.assert_allclose(slope, -2, rtol=1e-14)
    slope = directional_derivative(nuclear, jnp.zeros((2, 2)), along)
    np.testing.assert_allclose(slope, 4, rtol=1e-14)
