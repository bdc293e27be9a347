"""Eager work on full Gaussians, of sizes that XLA now and then never came back from.

Two batches of factorisations side by side in one program can lock up a CPU; so each
step here has to end, many times over. Run by `test_factorising.py` in a process that
can be killed; prints the name of each step that ended.
"""

import sys
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

import bregjax as bj
from bregjax.objectives import leave_one_out_log_likelihood

TIMES = 12


def repeat(name: str, function: Callable[[], object]) -> None:
    for _ in range(TIMES):
        values = jax.tree.leaves(function())
        assert all(np.all(np.isfinite(v)) for v in values)
    sys.stdout.write(f"{name}\n")
    sys.stdout.flush()


def own_gaussian(theta):
    """A ψ of three columns by Cholesky's factor; T = (x, x xᵀ + I/4)."""
    linear, matrix = theta[:3], theta[3:].reshape(3, 3)
    factor = jnp.linalg.cholesky(-(matrix + matrix.T))
    white = solve_triangular(factor, linear, lower=True)
    return jnp.sum(white**2) / 2 - jnp.sum(jnp.log(jnp.diagonal(factor)))


def moments(x):
    return jnp.concatenate([x, (jnp.outer(x, x) + jnp.eye(3) / 4).ravel()])


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 20)) + 4 * rng.integers(0, 3, size=(2000, 1))
    tree = bj.agglomerate(x, family="ward")
    problem = bj.Problem(x, family="gaussian")
    features = lambda: bj.dendrogram_features(problem, tree.children, num_features=20)
    repeat("features", features)

    few = x[:403]  # no multiple of a block
    tree = bj.agglomerate(few, family="ward")

    def likelihood(smoothing):
        problem = bj.Problem(few, family="gaussian", smoothing=smoothing)
        return leave_one_out_log_likelihood(problem, tree, num_clusters=8)

    smoothing = bj.normal_reference(few)
    gradient = jax.jit(jax.grad(likelihood))
    repeat("likelihood", lambda: likelihood(smoothing))
    repeat("its gradient", lambda: gradient(smoothing))
    small = bj.Problem(few[:40, :3], family="gaussian")
    repeat("sampled tree", lambda: bj.sample_tree(small, key=0)[1])

    start = np.concatenate([np.zeros(3), -np.eye(3).ravel() / 2])
    own = bj.ExponentialFamily(own_gaussian, moments, start)
    repeat("own psi", lambda: bj.agglomerate(few[:80, :3], family=own).merge_costs)
