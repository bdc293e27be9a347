"""Shared fixtures: both precisions, strict promotion; what is compiled is kept."""

import os
import pathlib

import jax
import numpy as np
import pytest
from default_run import is_by_request

# Most of the time goes into compiling, which takes XLA a third of the time if it hardly
# optimises. Set XLA_FLAGS, if only to "", to compile as users do.
_FLAGS = [
    "--xla_backend_optimization_level=0",
    "--xla_cpu_parallel_codegen_split_count=1",
]
if jax.__version_info__ < (0, 11):  # later versions refuse this flag
    _FLAGS.append("--xla_cpu_use_fusion_emitters=false")
os.environ.setdefault("XLA_FLAGS", " ".join(_FLAGS))

# Other workers, processes that tests start, and later runs find on disk what has been
# compiled; delete the folder at will.
_ON_DISK = {
    "jax_compilation_cache_dir": pathlib.Path(__file__).parents[1] / ".jax_cache",
    "jax_persistent_cache_min_compile_time_secs": 0,
    "jax_persistent_cache_min_entry_size_bytes": 0,
    "jax_traceback_in_locations_limit": 0,
}
for _name, _value in _ON_DISK.items():
    if _name.upper() not in os.environ:
        os.environ[_name.upper()] = str(_value)
        jax.config.update(_name, str(_value) if _name.endswith("dir") else _value)

jax.config.update("jax_numpy_rank_promotion", "raise")

# Each compiled program takes a few memory maps; past 65,530 Linux ends the process,
# and 12,000 come to about 2 GB.
_MAPS = pathlib.Path("/proc/self/maps")
_MANY_MAPS = 12_000


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark as slow what the default run leaves out of a sweep."""
    for item in items:
        spec = getattr(item, "callspec", None)
        name = getattr(item, "originalname", item.name)
        if is_by_request(item.path.name, name, spec.id if spec else ""):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True, scope="module")
def _few_memory_maps():
    """Forget compiled programs, where a process has gathered many."""
    yield
    if _MAPS.exists() and len(_MAPS.read_bytes().splitlines()) > _MANY_MAPS:
        jax.clear_caches()


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


@pytest.fixture
def windows_of_few(monkeypatch):
    """Windows by NumPy go on where otherwise a matrix takes over."""
    # The settings above come before anything of the package is imported.
    from bregjax.clusters import (  # noqa: PLC0415
        _diagonal_clusters,
        _entropic_clusters,
    )

    for module in (_diagonal_clusters, _entropic_clusters):
        monkeypatch.setattr(module, "_FEW", 0)
