"""Trees, certificates and features with `jax_debug_nans` on from the start."""

import sys

import jax

jax.config.update("jax_debug_nans", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from bregjax import ExponentialFamily, agglomerate  # noqa: E402
from bregjax.features import dendrogram_features  # noqa: E402
from bregjax.hierarchy.certificate import certify  # noqa: E402
from bregjax.smoothing import blur  # noqa: E402

COUNTS = np.array([[0.0, 1, 3], [1, 1, 1], [0, 4, 2], [5, 0, 1]])
CASES = {
    "diagonal_gaussian": ("diagonal_gaussian", blur(0.5)),
    "multinomial": ("multinomial", None),
    "own": (
        ExponentialFamily(
            lambda theta: jnp.sum(jnp.exp(theta)),
            lambda x: x,
            np.zeros(3),
            separable=True,
        ),
        None,
    ),
}

for name, (family, smoothing) in CASES.items():
    given = {"family": family, "smoothing": smoothing}
    tree = agglomerate(COUNTS, engine="matrix", **given)
    other = agglomerate(COUNTS, engine="windowed", **given)
    np.testing.assert_allclose(other.merge_costs, tree.merge_costs, rtol=1e-9)
    if certify(tree, COUNTS, **given).relative > 1e-6:
        raise SystemExit(f"{name} is not certified")
    features = dendrogram_features(tree, COUNTS, COUNTS[:2], num_features=2, **given)
    if not np.isfinite(features).all():
        raise SystemExit(f"{name} has infinite features")
    sys.stdout.write(f"{name}\n")
