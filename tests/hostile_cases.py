"""Data and merge costs that exact engines are held to, and greedy to hold them to."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from own_potentials import identity, truncated_poisson

from bregjax import Problem
from bregjax._evaluation import build_leaves, working
from bregjax.convex import LogSumExp
from bregjax.families import ExponentialFamily
from bregjax.hierarchy._search import take

Rng = np.random.Generator

LOCATIONS = ("ward", "gaussian", "diagonal_gaussian", "isotropic_gaussian")


def quartic(v):
    return jnp.sum(v**4) + 1e-3 * jnp.sum(v**2)


def near_kink(v):
    """The Euclidean norm, its kink at 0 rounded off."""
    return jnp.sqrt(1e-4 + jnp.sum(v**2))


class Case(NamedTuple):
    """A merge cost and rows `[m, d]` for it, drawn at random."""

    family: Any
    rows: Callable[[Rng, int], np.ndarray]


def _blobs(rng: Rng, m: int) -> np.ndarray:
    return rng.normal(size=(m, 2)) + 4 * rng.integers(0, 3, size=(m, 1))


def _positive(rng: Rng, m: int) -> np.ndarray:
    return rng.gamma(2.0, size=(m, 2)) + 0.05


def _shares(rng: Rng, m: int) -> np.ndarray:
    return rng.dirichlet(np.full(4, 0.7), m)


def _directions(rng: Rng, m: int) -> np.ndarray:
    x = _blobs(rng, m) - [3.0, 1.0]
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def _counts_from_one(rng: Rng, m: int) -> np.ndarray:
    rate = rng.choice([1.0, 4.0, 15.0], size=(m, 1))
    return np.maximum(rng.gamma(rate, size=(m, 2)), 1.0) + rng.uniform(0, 0.5, (m, 2))


# Of every family and of functions of one's own; rows without ties.
ORDINARY: dict[str, Case] = {
    "ward": Case("ward", _blobs),
    "gaussian": Case("gaussian", _blobs),
    "diagonal_gaussian": Case("diagonal_gaussian", _blobs),
    "isotropic_gaussian": Case("isotropic_gaussian", _blobs),
    "poisson": Case("poisson", _positive),
    "negative_binomial": Case("negative_binomial", _positive),
    "geometric": Case("geometric", _positive),
    "laplace": Case("laplace", _blobs),
    "exponential": Case("exponential", _positive),
    "multinomial": Case("multinomial", _shares),
    "bernoulli": Case("bernoulli", lambda rng, m: rng.beta(0.7, 0.7, size=(m, 2))),
    "von_mises_fisher": Case("von_mises_fisher", _directions),
    "gamma": Case("gamma", _positive),
    "inverse_gaussian": Case("inverse_gaussian", _positive),
    "log_sum_exp": Case(LogSumExp(), _blobs),
    "quartic": Case(quartic, _blobs),
    "truncated_poisson": Case(
        ExponentialFamily(truncated_poisson, identity, np.zeros(2), separable=True),
        _counts_from_one,
    ),
}
SOLVED = ("truncated_poisson",)  # by Newton's method: slow to compile and run


def _mixed_scales(rng: Rng, m: int, dim: int, spread: float) -> np.ndarray:
    return rng.normal(size=(m, dim)) * np.exp(spread * rng.normal(size=(m, 1)))


# Costs far from reducible, on data that show it; of as many columns as above, so that
# they share what compiles.
HOSTILE: dict[str, Case] = {
    "quartic": Case(quartic, lambda rng, m: rng.normal(size=(m, 2)) * [1, 10]),
    "quartic_tails": Case(
        quartic, lambda rng, m: rng.standard_cauchy(size=(m, 1)).clip(-50, 50)
    ),
    "log_sum_exp": Case(LogSumExp(), lambda rng, m: 4 * rng.normal(size=(m, 2))),
    "near_kink": Case(near_kink, lambda rng, m: rng.normal(size=(m, 2))),
    "poisson": Case("poisson", lambda rng, m: 10 * rng.gamma(0.3, size=(m, 2))),
    "exponential": Case(
        "exponential", lambda rng, m: rng.gamma(0.3, size=(m, 2)) + 1e-3
    ),
    "multinomial": Case(
        "multinomial", lambda rng, m: rng.dirichlet(np.full(4, 0.3), m)
    ),
    "bernoulli": Case("bernoulli", lambda rng, m: rng.beta(0.2, 0.2, size=(m, 2))),
    "diagonal_gaussian": Case(
        "diagonal_gaussian", lambda rng, m: _mixed_scales(rng, m, 2, 2.0)
    ),
    "diagonal_gaussian_line": Case(
        "diagonal_gaussian", lambda rng, m: _mixed_scales(rng, m, 1, 3.0)
    ),
    "gaussian": Case("gaussian", lambda rng, m: _mixed_scales(rng, m, 2, 2.0)),
}


def badly_scaled(name: str, x: np.ndarray) -> np.ndarray:
    """Columns of very different units, all small."""
    if name in (
        "isotropic_gaussian",
        "truncated_poisson",
        "bernoulli",
        "von_mises_fisher",
    ):
        return x
    if name in ("log_sum_exp", "multinomial"):
        return 1e-3 * x
    units = np.geomspace(1e-3, 1e3, x.shape[1])
    return 1e-6 * units * x


# --- Greedy ---------------------------------------------------------------------------


def leaves_of(x, family, **options) -> tuple[Any, Any]:
    """Cluster model and leaves, in float64."""
    with working(Problem(x, family=family, **options)) as problem:
        return _leaves(problem)


_leaves = jax.jit(build_leaves)


def greedy(model, leaves, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Children and costs of one merge at a time, by a matrix of costs in NumPy.

    Costs are those of `merge_cost`, the robust form.
    """
    with jax.enable_x64(True):
        states = jax.tree.map(
            lambda leaf: np.concatenate([leaf, np.repeat(leaf[:1], m - 1, axis=0)]),
            leaves,
        )
        states = jax.tree.map(jnp.asarray, states)
        costs = np.full((2 * m - 1, 2 * m - 1), np.inf)
        for slot in range(m):
            costs[slot, :m] = np.asarray(_row(model, states, np.int32(slot)))[:m]
        np.fill_diagonal(costs, np.inf)
        costs[:m, :m] = np.minimum(costs[:m, :m], costs[:m, :m].T)
        children, heights = [], []
        for new in range(m, 2 * m - 1):
            place = np.argmin(costs)
            a, b = sorted(divmod(int(place), 2 * m - 1))
            heights.append(costs[a, b])
            children.append((a, b))
            states = _unite(model, states, np.int32(a), np.int32(b), np.int32(new))
            costs[[a, b]] = costs[:, [a, b]] = np.inf
            alive = np.setdiff1d(np.arange(new), children)
            row = np.asarray(_row(model, states, np.int32(new)))
            costs[new, alive] = costs[alive, new] = row[alive]
    return np.asarray(children), np.asarray(heights)


@jax.jit
def _row(model, states, slot):
    return model.merge_cost(take(states, slot[None]), states)


@jax.jit
def _unite(model, states, a, b, new):
    union = model.union(take(states, a[None]), take(states, b[None]))
    return jax.tree.map(lambda all_, u: all_.at[new].set(u[0]), states, union)
