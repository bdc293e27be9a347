"""Errors about a ψ of one's own say what the doctor would."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bregjax import ExponentialFamily, Poisson, agglomerate
from bregjax.families import Family
from bregjax.families._explain import explain_failure

X = np.random.default_rng(0).poisson(3, size=(20, 2)).astype(float)
START = np.zeros(2)


def _own(psi, statistic=lambda x: x, start: Any = START, **options):
    return ExponentialFamily(psi, statistic, start, **options)


def _sum_exp(theta):
    return jnp.sum(jnp.exp(theta))


def _concave(theta):
    return -jnp.sum(theta**2)


def _saddle(theta):
    return theta[0] ** 2 - theta[1] ** 2


def _unguarded(theta):
    return jnp.sum(jnp.where(theta == 0, 0.0, theta * jnp.log(jnp.abs(theta))))


def _half(theta):
    return jnp.sum(jnp.where(theta <= 0, theta**2, jnp.inf))


def _hole(theta):
    """Finite but on a ring around 0: its domain is not convex."""
    size = theta @ theta
    return jnp.where((size > 0.01) & (size < 1), jnp.inf, size)


FAULTS = {
    "concave": (_own(_concave), "ψ is not convex: on 25 of 25"),
    "saddle": (_own(_saddle), "ψ is not convex: on"),
    "hole": (_own(_hole), "its domain is not convex"),
    "not separable": (
        _own(jax.nn.logsumexp, separable=True),
        "ψ is not a sum over coordinates, against `separable=True`",
    ),
    "gradient": (_own(_unguarded), r"∇ψ is not finite at `natural_init` \(in θ\[0\]\)"),
    "at the edge": (_own(_half), "random directions around `natural_init`"),
    "statistic": (_own(_sum_exp, jnp.log), r"T\(x\) is not finite in \d of 20 rows"),
    "shape": (
        _own(_sum_exp, lambda x: x[:1]),
        "structure and shapes of `natural_init`",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_named_without_a_solve(name, monkeypatch):
    def solve(*_, **__):
        raise AssertionError("no solver is to run")

    family, message = FAULTS[name]
    monkeypatch.setattr(Family, "numerical_conjugate", solve)
    sentence = explain_failure(family, X)
    with pytest.raises(ValueError, match=message):
        raise ValueError(sentence)


SOUND = {
    "poisson": _own(_sum_exp),
    "separable": _own(_sum_exp, separable=True),
    "binomial": _own(lambda t: -2 * jnp.sum(jnp.log(-jnp.expm1(t))), start=START - 1),
    "normal": _own(
        lambda t: jnp.sum(-(t[0] ** 2) / (4 * t[1]) - 0.5 * jnp.log(-2 * t[1])),
        lambda x: (x, x * x),
        (START, START - 0.5),
    ),
    "overcomplete": _own(jax.nn.logsumexp),
    "closed form": Poisson(),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_psi_is_not_blamed(name):
    assert explain_failure(SOUND[name], X) is None


def test_traced_values_are_left_alone():
    seen = []
    jax.jit(lambda x: seen.append(explain_failure(_own(_concave), x)))(X)
    assert seen == [None]


def test_the_error_of_agglomerate_has_the_sentence():
    with pytest.raises(ValueError, match="20 of 20 rows.* ψ is not convex") as error:
        agglomerate(X, family=_own(_concave, separable=True))
    assert "mixing" not in str(error.value)
    # Of a sound ψ the data are to blame, as before.
    with pytest.raises(ValueError, match="outside the closure.*mixing"):
        agglomerate(X - 5, family=_own(_sum_exp, separable=True))
