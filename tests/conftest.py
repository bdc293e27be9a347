"""Shared fixtures: both precisions, strict promotion."""

import jax
import numpy as np
import pytest

jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    """Run the test in each precision; the context only lasts for the test."""
    with jax.enable_x64(request.param == "float64"):
        yield np.dtype(request.param)


@pytest.fixture
def x64():
    """Run the test in float64."""
    with jax.enable_x64(True):
        yield np.dtype("float64")


@pytest.fixture
def rng():
    """A NumPy generator with a fixed seed."""
    return np.random.default_rng(20120627)
