"""Trees, certificates and features with `jax_debug_nans` on from the start.

A program to run, by `test_debug_nans.py`; importing it changes nothing.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np

from bregjax import ExponentialFamily, Problem, agglomerate, dendrogram_features
from bregjax.hierarchy import certify
from bregjax.smoothing import blur

COUNTS = np.array([[0.0, 1, 3], [1, 1, 1], [0, 4, 2], [5, 0, 1]])


def _sum_exp(theta):
    return jnp.sum(jnp.exp(theta))


def _identity(x):
    return x


def main():
    own = ExponentialFamily(_sum_exp, _identity, np.zeros(3), separable=True)
    cases = {
        "diagonal_gaussian": ("diagonal_gaussian", blur(0.5)),
        "multinomial": ("multinomial", None),
        "own": (own, None),
    }
    for name, (family, smoothing) in cases.items():
        given = {"family": family, "smoothing": smoothing}
        tree = agglomerate(COUNTS, engine="matrix", **given)
        other = agglomerate(COUNTS, engine="windowed", **given)
        np.testing.assert_allclose(other.merge_costs, tree.merge_costs, rtol=1e-9)
        problem = Problem(COUNTS, **given)
        if certify(problem, tree).relative > 1e-6:
            raise SystemExit(f"{name} is not certified")
        features = dendrogram_features(problem, tree, COUNTS[:2], num_features=2)
        if not np.isfinite(features).all():
            raise SystemExit(f"{name} has infinite features")
        sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    jax.config.update("jax_debug_nans", True)
    main()
