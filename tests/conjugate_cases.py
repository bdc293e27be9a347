"""Log-partition functions with their conjugates to 40 digits, for tests and benchmark.

A reference takes y *as rounded to the working precision* and returns the conjugate and,
where it is unique and asked for, the maximiser.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
from conjugate_references import (
    EDGES,
    STATES,
    categorical_reference,
    gamma_reference,
    gaussian_reference,
    ising_reference,
    poisson_reference,
    truncated_poisson_reference,
)
from own_potentials import truncated_poisson

# Log-partition functions


def poisson(theta):
    return jnp.sum(jnp.exp(theta))


def categorical(theta):
    """Overcomplete: one parameter a category."""
    return jax.scipy.special.logsumexp(theta)


def gaussian(theta):
    """Overcomplete: (x, xxᵀ), the matrix parameter with all d² entries."""
    linear, quadratic = theta
    precision = -(quadratic + quadratic.T)
    factor = jnp.linalg.cholesky(precision)
    white = jax.scipy.linalg.solve_triangular(factor, linear, lower=True)
    return 0.5 * jnp.sum(white**2) - jnp.sum(jnp.log(jnp.diag(factor)))


def gamma(theta):
    """Statistics (log x, x)."""
    shape, rate = theta[0] + 1, -theta[1]
    inside = (shape > 0) & (rate > 0)
    shape, rate = jnp.where(inside, shape, 1.0), jnp.where(inside, rate, 1.0)
    value = jax.scipy.special.gammaln(shape) - shape * jnp.log(rate)
    return jnp.where(inside, value, jnp.inf)


def exponential(theta):
    return -jnp.sum(jnp.log(-theta))


def bernoulli(theta):
    return jnp.sum(jax.nn.softplus(theta))


def _indicators():
    columns = [STATES[:, i] == v for i in range(5) for v in (0, 1)]
    columns += [
        (STATES[:, i] == v) & (STATES[:, j] == w)
        for i, j in EDGES
        for v in (0, 1)
        for w in (0, 1)
    ]
    return np.array(columns, float).T  # [32, 30]


INDICATORS = _indicators()


def ising(theta):
    """Five nodes on a cycle, overcomplete: 10 node and 20 edge indicators."""
    return jax.scipy.special.logsumexp(jnp.asarray(INDICATORS, theta.dtype) @ theta)


# Points


def ising_means(seed, scale):
    """Mean indicators of a random model; a larger scale makes some of them smaller."""
    rng = np.random.default_rng(seed)
    logits = INDICATORS @ (scale * rng.normal(size=30))
    weights = np.exp(logits - logits.max())
    return (weights / weights.sum()) @ INDICATORS


def gaussian_moments(deviations, mean, rotation_seed=None):
    d = len(deviations)
    mean = np.broadcast_to(np.asarray(mean, float), (d,))
    turn = np.eye(d)
    if rotation_seed is not None:
        rng = np.random.default_rng(rotation_seed)
        turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    covariance = (turn * np.asarray(deviations) ** 2) @ turn.T
    covariance = (covariance + covariance.T) / 2
    return mean, covariance + np.outer(mean, mean)


def gamma_moments(shape, mean=1.0):
    k = mp.mpf(shape)
    return np.array([float(mp.digamma(k) - mp.log(k / mean)), mean])


def normalised(p):
    p = np.asarray(p, float)
    return p / p.sum()


@dataclass(frozen=True)
class Case:
    """One point of one function. `single` says what float32 is asked for.

    "exact": converged within the accuracy promised; "honest": any code, but no
    converged value that is wrong.
    """

    name: str
    psi: Callable
    start: Callable
    y: object
    reference: Callable
    separable: bool = False
    single: str = "exact"
    maximiser: bool = True  # whether the maximiser is well enough conditioned to test
    tags: tuple = field(default=())


def zeros(n):
    return lambda: np.zeros(n)


def gaussian_start(d):
    return lambda: (np.zeros(d), -0.5 * np.eye(d))


def _cases():
    out = []
    for y in (1e-8, 1e-6, 1e-3, 1.0, 30.0, 1e4, 1e6, 1e8):
        out.append(
            Case(
                f"Poisson {y:g}",
                poisson,
                zeros(1),
                np.array([y]),
                poisson_reference,
                True,
            )
        )
    for y, single in (
        (1 + 1e-6, "honest"),
        (1 + 1e-4, "honest"),
        (1 + 1e-2, "exact"),
        (2.0, "exact"),
        (30.0, "exact"),
        (100.0, "exact"),
        (1e4, "exact"),
        (1e6, "exact"),
    ):
        out.append(
            Case(
                f"truncated Poisson {y:.7g}",
                truncated_poisson,
                zeros(1),
                np.array([y]),
                truncated_poisson_reference,
                True,
                single,
                maximiser=y > 1.001,
            )
        )
    rng = np.random.default_rng(5)
    points = {
        "generic 2": normalised([0.3, 0.7]),
        "generic 50": rng.dirichlet(np.ones(50)),
        "uniform 50": np.full(50, 0.02),
        "logspace(-12, 0) 50": normalised(np.logspace(-12, 0, 50)),
        "one 1e-12, rest equal, 50": normalised(np.r_[1e-12, np.ones(49)]),
    }
    for name, y in points.items():
        out.append(
            Case(
                f"categorical {name}",
                categorical,
                zeros(y.size),
                y,
                categorical_reference,
                maximiser="1" not in name[:4],
            )
        )
    for name, y in {
        "(1 - 1e-12, 1e-12)": np.array([1 - 1e-12, 1e-12]),
        "one ~1, rest 1e-12, 50": normalised(np.r_[1.0, np.full(49, 1e-12)]),
    }.items():
        out.append(
            Case(
                f"categorical {name}",
                categorical,
                zeros(y.size),
                y,
                categorical_reference,
                single="honest",
                maximiser=False,
            )
        )
    for label, sd, mean, turn, single in (
        ("sd (1, 10, .01) mean (5, -3, 1)", (1, 10, 0.01), (5, -3, 1), None, "honest"),
        ("sd (1, 10, .01) mean 0", (1, 10, 0.01), 0, None, "exact"),
        (
            "sd (1, 10, .01) mean (5, -3, 1) rotated",
            (1, 10, 0.01),
            (5, -3, 1),
            3,
            "honest",
        ),
        ("sd (1, 10, .01) mean 0 rotated", (1, 10, 0.01), 0, 3, "honest"),
        ("sd (1e-3, 1, 1e3) mean 0", (1e-3, 1, 1e3), 0, None, "exact"),
        ("sd (1, 2, 0.5) mean (1, -1, 0) rotated", (1, 2, 0.5), (1, -1, 0), 4, "exact"),
    ):
        y = gaussian_moments(sd, mean, turn)
        out.append(
            Case(
                f"Gaussian {label}",
                gaussian,
                gaussian_start(3),
                y,
                gaussian_reference,
                single=single,
                maximiser=bool(np.all(np.asarray(mean) == 0)) and turn is None,
            )
        )
    for seed, scale in ((0, 1.0), (1, 3.0), (2, 6.0)):
        y = ising_means(seed, scale)
        out.append(
            Case(
                f"Ising min mean {y.min():.0e}",
                ising,
                zeros(30),
                y,
                ising_reference,
                single="exact" if scale == 1.0 else "honest",
                maximiser=False,
            )
        )
    for shape in (1e-3, 1e-2, 1.0, 100.0, 1e4):
        out.append(
            Case(
                f"gamma shape {shape:g}",
                gamma,
                lambda: np.array([0.0, -1.0]),
                gamma_moments(shape),
                gamma_reference,
                single="exact" if shape <= 100 else "honest",
                maximiser=shape <= 1,
            )
        )
    return out


CASES = _cases()


def run(case, dtype, conj):
    """Solve; errors against the reference at y as rounded to `dtype`."""
    y = jax.tree.map(lambda v: jnp.asarray(np.asarray(v, dtype)), case.y)
    solution = conj(y)
    value, theta = case.reference(jax.tree.map(lambda v: np.asarray(v, np.float64), y))
    found = np.concatenate(
        [
            np.ravel(np.asarray(v, np.float64))
            for v in jax.tree.leaves(solution.maximiser)
        ]
    )
    flat = np.concatenate(
        [np.ravel(np.asarray(v, np.float64)) for v in jax.tree.leaves(y)]
    )
    inner = float(np.sum(flat * found))
    error = (
        abs(float(mp.mpf(float(solution.value)) - value))
        if np.isfinite(float(solution.value))
        else np.nan
    )
    share = error / (abs(inner) + abs(inner - float(value)))
    off = np.nan
    if theta is not None:
        exact = np.array([float(v) for v in theta])
        if case.psi is categorical:
            exact, found = exact - exact.mean(), found - found.mean()
        off = float(np.max(np.abs(exact - found)) / max(1e-300, np.max(np.abs(exact))))
    return solution, error, share, off
