"""The doctor says what ails a family, in words, and passes sound ones."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from family_cases import FAMILIES, truncated_poisson
from own_potentials import identity

from bregjax.families import ExponentialFamily, Gaussian, Multinomial, Poisson


def _poisson_psi(theta):
    return jnp.sum(jnp.exp(theta))


def _concave_psi(theta):
    return -jnp.sum(theta**2)


def _wavy_psi(theta):
    return jnp.sum(theta**2 / 2 + jnp.cos(2 * theta))


def _unstable_psi(theta):
    """log(e^rate − 1) overflows from a rate of 89 in float32, of 710 in float64."""
    return jnp.sum(jnp.log(jnp.expm1(jnp.exp(theta))))


def _cancelling_psi(theta):
    """Poisson to six digits, of which float32 keeps none."""
    return jnp.sum(jnp.sqrt(1e12 + 2e6 * jnp.exp(theta)) - 1e6)


def _coupled_psi(theta):
    return jax.scipy.special.logsumexp(jnp.append(theta, 0.0))


def _nan_gradient_psi(theta):
    """Finite at 0, but the branch not taken has no derivative there."""
    return jnp.sum(jnp.where(theta == 0, 1.0, jnp.expm1(theta) / theta))


def _huber_psi(theta):
    size = jnp.abs(theta)
    return jnp.sum(jnp.where(size < 1, theta**2 / 2, size - 0.5))


def _absolute_psi(theta):
    return jnp.sum(jnp.abs(theta - 0.1))


def _own(psi, start=(0.0, 0.0), statistic=identity, **options):
    return ExponentialFamily(psi, statistic, np.array(start), **options)


COUNTS = np.array([[1.0, 2], [3, 1], [0, 4], [2, 2], [5, 0], [7, 3]])


@functools.cache
def _report(case):
    family, x = CASES[case]
    return family().check(x, key=3)


def _large_counts():
    return np.random.default_rng(0).poisson(120.0, (6, 2)).astype(float)


# name: (family, data), all examined once.
CASES = {
    "poisson": (lambda: _own(_poisson_psi, separable=True), COUNTS),
    "concave": (lambda: _own(_concave_psi, separable=True), COUNTS),
    "wavy": (lambda: _own(_wavy_psi, separable=True), COUNTS),
    "unstable": (lambda: _own(_unstable_psi, separable=True), _large_counts()),
    "cancelling": (lambda: _own(_cancelling_psi, separable=True), COUNTS + 1),
    "false_claim": (lambda: _own(_coupled_psi, separable=True), np.full((4, 2), 0.3)),
    "outside": (lambda: _own(_poisson_psi, separable=True), COUNTS - 2),
    "nan_gradient": (lambda: _own(_nan_gradient_psi), COUNTS),
    "huber": (lambda: _own(_huber_psi, separable=True), COUNTS / 10),
    "absolute": (lambda: _own(_absolute_psi, separable=True), COUNTS / 10),
    "wrong_statistic": (lambda: _own(_poisson_psi, statistic=jnp.sum), COUNTS),
    "nan_statistic": (
        lambda: _own(_poisson_psi, statistic=jnp.log, separable=True),
        COUNTS,
    ),
    "truncated": (lambda: truncated_poisson(separable=True), COUNTS + 1),
    "gaussian": (Gaussian, COUNTS),
    "multinomial": (
        lambda: Multinomial(3),
        np.random.default_rng(1).dirichlet(np.ones(3), 6),
    ),
    "exponential": (
        lambda: ExponentialFamily(
            FAMILIES["exponential"].make().log_partition,
            identity,
            -np.ones(2),
            separable=True,
        ),
        COUNTS,
    ),
}


@pytest.mark.parametrize(
    ("case", "finding", "words"),
    [
        ("concave", "convex", "not convex: on .* segments"),
        ("wavy", "convex", "not convex"),
        ("unstable", "precision", "overflows in float32"),
        ("cancelling", "precision", "loses its digits in float32"),
        ("false_claim", "separable", "against `separable=True`.*Leave `separable` out"),
        ("outside", "mean domain", r"outside the mean domain.*row 0, \[-1. +0.\]"),
        ("nan_gradient", "start", r"∇ψ is not finite .*θ\[0\].*Guard the argument"),
        ("huber", "pieces", "linear pieces"),
        ("absolute", "pieces", "linear pieces.*kinks"),
        ("wrong_statistic", "statistic", "structure and shapes of `natural_init`"),
        ("nan_statistic", "statistic", "not finite in 2 of 6 rows.*row 2"),
        ("exponential", "mean domain", "smoothing is needed. Pass smoothing=mixing"),
    ],
)
def test_what_ails_a_family_is_found(case, finding, words):
    report = _report(case)
    assert not report.ok
    assert not report[finding].passed
    text = str(report)
    assert f"FAILED {finding}" in text
    _match(words, report[finding].sentence)


def _match(pattern, text):
    with pytest.raises(ValueError, match=f"(?s){pattern}"):
        raise ValueError(text)


@pytest.mark.parametrize(
    ("case", "finding", "words"),
    [
        ("poisson", "mean domain", "4 of 6 rows lie inside .* 2 on its boundary"),
        ("poisson", "separable", "as claimed"),
        ("truncated", "mean domain", "on its boundary, where ψ\\* is finite"),
        ("gaussian", "mean domain", 'smoothing is needed. smoothing="auto" .* Blur'),
        ("gaussian", "overcomplete", r"1 direction: .*θ\[1\]\[0, 1\] − θ\[1\]\[1, 0\]"),
        ("multinomial", "overcomplete", r"along θ\[0\] \+ θ\[1\] \+ θ\[2\] without"),
        ("multinomial", "separable", "does not claim to be"),
    ],
)
def test_sound_families_pass_and_are_described(case, finding, words):
    report = _report(case)
    assert report.ok, str(report)
    _match(words, report[finding].sentence)
    assert str(report).splitlines()[0].endswith(": sound.")


def test_report_has_numbers():
    report = _report("poisson")
    assert report.rows_by_code == {"CONVERGED": 4, "BOUNDARY": 2}
    assert not report.needs_smoothing
    assert report.overcomplete.shape == (0, 2)
    assert _report("gaussian").needs_smoothing
    assert _report("gaussian").overcomplete.shape == (1, 6)
    np.testing.assert_allclose(_report("multinomial").overcomplete, np.ones((1, 3)))
    with pytest.raises(KeyError, match="no finding 'colour'; made were start, convex"):
        report["colour"]


def test_separable_is_suggested_where_it_is_true():
    family = _own(_poisson_psi)
    sentence = family.check(COUNTS)["separable"].sentence
    assert "`separable=True` is true of it" in sentence


def test_seeds_and_keys_draw_the_same_points_again():
    family = CASES["poisson"][0]()
    assert str(family.check(COUNTS)) == str(family.check(COUNTS, key=0))
    for key in (jax.random.key(1), jax.random.PRNGKey(1)):
        assert family.check(COUNTS, key=key).ok


def test_built_ins_pass():
    rng = np.random.default_rng(5)
    for name in ("exponential", "gamma"):
        report = FAMILIES[name].make().check(FAMILIES[name].data(rng, 20))
        assert report.ok, str(report)


def test_bad_rows_are_a_finding_and_not_an_error():
    report = Poisson().check([[1.0], [-1.0]])
    assert not report.ok
    _match("non-negative for Poisson.*row 1", report["statistic"].sentence)


def test_check_is_eager():
    with pytest.raises(TypeError, match="`check` reads values and cannot run under"):
        jax.jit(lambda x: Poisson().check(x).ok)(COUNTS)
