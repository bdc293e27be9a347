"""Support by bootstraps of several sizes."""

import jax
import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from trees import leaf_sets

import bregjax as bj
from bregjax._multiscale import fit_shares


@pytest.mark.parametrize(("v", "c"), [(-0.67, 0.14), (0.3, 0.5), (-2.0, -0.4)])
def test_shares_on_a_line_are_fitted_exactly(v, c):
    scales = np.array([0.5, 0.8, 1.0, 1.3, 2.0])
    shares = ndtr(-(v * np.sqrt(scales) + c / np.sqrt(scales)))
    au, bp, _ = fit_shares(shares, scales, 100)
    np.testing.assert_allclose([au, bp], ndtr([c - v, -v - c]), rtol=1e-10)


def test_the_example_of_the_docstring():
    """v and c by SciPy's least squares, with the same weights."""
    p, scales = np.array([0.6, 0.7, 0.8]), np.array([0.5, 1.0, 2.0])
    deviate = -ndtri(p)
    density = np.exp(-(deviate**2) / 2) / np.sqrt(2 * np.pi)
    root = np.sqrt(density**2 / (p * (1 - p)))
    design = np.stack([np.sqrt(scales), 1 / np.sqrt(scales)], 1)
    (v, c), *_ = np.linalg.lstsq(root[:, None] * design, root * deviate)
    np.testing.assert_allclose([v, c], [-0.676, 0.157], atol=6e-4)
    au, bp, _ = fit_shares(p, scales, 1000)
    np.testing.assert_allclose([au, bp], ndtr([c - v, -v - c]), rtol=1e-9)


def test_the_standard_error_is_that_of_a_simulation(rng):
    scales, count = np.linspace(0.5, 1.4, 10), 1000
    shares = ndtr(-(-0.5 * np.sqrt(scales) + 0.3 / np.sqrt(scales)))
    drawn = rng.binomial(count, shares, size=(500, 10)) / count
    fitted = np.array([fit_shares(row, scales, count) for row in drawn])
    np.testing.assert_allclose(fitted[:, 0].std(), fitted[:, 2].mean(), rtol=0.15)


def test_shares_of_nothing_or_all_are_sure():
    scales = np.array([0.5, 1.0, 1.4])
    assert fit_shares(np.array([1.0, 1.0, 0.99]), scales, 100) == (1, 1, 0)
    assert fit_shares(np.array([0.0, 0.0, 0.01]), scales, 100) == (0, 0, 0)


@pytest.mark.parametrize("solved", [False, True])
def test_trees_of_each_size_against_a_loop(rng, solved):
    """The columns that stand in for those that are not drawn cost nothing."""
    rows = rng.beta(2, 3, size=(6, 4)) if solved else rng.poisson(5.0, size=(12, 4))
    problem = bj.Problem(rows, family="beta" if solved else "poisson")
    tree = bj.agglomerate(problem)
    scales, count = (0.5, 1.5), 2 if solved else 10
    found = bj.multiscale_support(
        problem, tree, scales=scales, num_replicates=count, key=3
    )
    keys = jax.random.split(jax.random.key(3), 2 * count)
    m, shares = len(rows), np.zeros((len(rows) - 1, 2))
    for number, key in enumerate(keys):
        size = (2, 6)[number // count]
        with jax.enable_x64(True):
            columns = np.asarray(jax.random.randint(key, (6,), 0, 4))[:size]
        other = bj.agglomerate(rows[:, columns], family=problem.family.__class__())
        both = [s in leaf_sets(other)[m:] for s in leaf_sets(tree)[m:]]
        shares[:, number // count] += np.array(both) / count
    np.testing.assert_allclose(found.shares, shares)
    assert found.au.shape == found.bp.shape == found.standard_error.shape == (m - 1,)
    assert found.au[-1] == 1


@pytest.mark.parametrize("scales", [(), (1.0,), (1.0, 1.0), (0.5, -1.0), 1.0])
def test_scales_that_are_none(scales):
    problem = bj.Problem([[0.0, 1.0], [2.0, 3.0]], family="ward")
    with pytest.raises(ValueError, match="`scales` must be two different positive"):
        bj.multiscale_support(problem, [[0, 1]], scales=scales)
