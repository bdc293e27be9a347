"""Support of clusters by resampling, against a loop over eager trees."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from trees import leaf_sets

from bregjax import Problem, support_values
from bregjax.families import DiagonalGaussian, ExponentialFamily
from bregjax.hierarchy import agglomerate
from bregjax.smoothing import blur

M = 16


def test_columns_against_a_loop(rng):
    """The same columns, drawn by the same keys, a tree at a time."""
    x = rng.normal(size=(M, 5)) + np.repeat(np.eye(2), M // 2, 0) @ np.ones((2, 5)) * 2
    bandwidth = rng.uniform(0.3, 1, 5)
    problem = Problem(x, family=DiagonalGaussian(), smoothing=blur(bandwidth))
    tree = agglomerate(problem)
    got = support_values(problem, tree, resampled="columns", num_replicates=20, key=5)
    found = np.zeros(M - 1)
    for key in jax.random.split(jax.random.key(5), 20):
        with jax.enable_x64(True):
            columns = np.asarray(jax.random.randint(key, (5,), 0, 5))
        other = agglomerate(
            x[:, columns],
            family=DiagonalGaussian(),
            smoothing=blur(bandwidth[columns]),
        )
        found += [s in leaf_sets(other)[M:] for s in leaf_sets(tree)[M:]]
    np.testing.assert_array_equal(got, found / 20)
    assert got[-1] == 1


@pytest.mark.parametrize("resampled", ["columns", "points"])
def test_clear_clusters_are_supported(resampled, rng):
    """Two clusters that all columns show; what noise made inside them is not."""
    x = rng.normal(size=(M, 8)) + 8 * (np.arange(M) < M // 2)[:, None]
    problem = Problem(x, family="ward")
    tree = agglomerate(problem)
    values = support_values(problem, tree, resampled=resampled)
    halves = [len(s) == M // 2 for s in leaf_sets(tree)[M:]]
    assert values[-1] == 1
    np.testing.assert_array_equal(values[halves], 1)
    assert np.min(values) < 0.9
    assert np.all((values >= 0) & (values <= 1))


def test_progress_in_ragged_batches(rng, monkeypatch, capsys):
    monkeypatch.setattr("bregjax._support._BATCH_ENTRIES", 3 * 10**2)
    problem = Problem(rng.normal(size=(10, 3)), family="ward")
    tree = agglomerate(problem)
    support = functools.partial(
        support_values, problem, tree, resampled="points", num_replicates=8
    )
    values = support(progress=True)
    assert "8.00/8.00" in capsys.readouterr().err
    monkeypatch.setattr("bregjax._support._MANY_POINTS", 5)
    np.testing.assert_array_equal(support(), values)


def test_errors(rng):
    x = rng.poisson(3, size=(8, 3)) + 1.0
    tree = agglomerate(x, family="poisson")
    by_columns = functools.partial(support_values, tree=tree, resampled="columns")
    with pytest.raises(ValueError, match='"points" for Gaussian.*no sums over columns'):
        by_columns(Problem(x, family="gaussian"))

    def uneven(theta):
        """Binomial counts out of 20, 30 and 40."""
        return jnp.sum(jnp.array([20.0, 30.0, 40.0]) * jax.nn.softplus(theta))

    family = ExponentialFamily(uneven, lambda row: row, jnp.zeros(3), separable=True)
    with pytest.raises(ValueError, match="columns that are treated alike"):
        by_columns(Problem(x, family=family))

    total = ExponentialFamily(
        lambda theta: jnp.sum(theta**2) / 2,
        lambda row: jnp.sum(row, keepdims=True),
        jnp.zeros(1),
        separable=True,
    )
    with pytest.raises(ValueError, match="columns that are treated alike"):
        by_columns(Problem(x, family=total))
    with pytest.raises(ValueError, match="without a finite cost"):
        support_values(
            Problem(x, family="gaussian", smoothing=None), tree, resampled="points"
        )
    with pytest.raises(ValueError, match="`resampled` must be one of"):
        support_values(Problem(x, family="poisson"), tree, resampled="rows")  # pyright: ignore[reportArgumentType]
