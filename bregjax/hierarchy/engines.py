"""The engines by name, and the choice among them.

An engine is a pure function `engine(model, leaves, num_points) -> children` without
gradients: it finds the topology. Costs, and their derivatives, come from `replay`.
"""

import os
from collections.abc import Callable

import jax

from bregjax._typing import Array, PyTree
from bregjax.cluster_model import ClusterModel
from bregjax.hierarchy.engine_matrix import matrix
from bregjax.hierarchy.engine_recompute import recompute

__all__ = ["ENGINES", "Engine", "check_memory", "engine_name"]

Engine = Callable[[ClusterModel, PyTree, Array | int], Array]

ENGINES: dict[str, Engine] = {"matrix": matrix, "recompute": recompute}

_GIB = 2**30


def engine_name(name: str) -> str:
    """The name of an engine, "auto" resolved.

    Raises:
        ValueError: If there is no such engine.
    """
    if name not in ("auto", *ENGINES):
        raise ValueError(
            f"`engine` must be one of auto, {', '.join(ENGINES)}; got {name!r}."
        )
    return "matrix" if name == "auto" else name


def check_memory(engine: str, num_points: int, numbers: int, itemsize: int) -> None:
    """Raise ValueError if an engine would not fit into memory.

    Args:
        engine: A name in `ENGINES`.
        num_points: Number of points m, with padding.
        numbers: Numbers that states and temporaries hold together.
        itemsize: Bytes of a number.
    """
    costs = num_points**2 if engine == "matrix" else 0
    needed, available = (numbers + costs) * itemsize, _memory()
    if needed > 0.8 * available:
        fitting = _fitting(0.8 * available / itemsize, numbers / num_points, engine)
        raise ValueError(
            f'The engine "{engine}" needs {needed / _GIB:.1f} GiB for {num_points:,} '
            f"points and {available / _GIB:.1f} GiB are there: up to {fitting:,} "
            "points fit. Merge duplicates into weights, cluster a sample, or take a "
            'family with fewer numbers a cluster; engine="recompute" keeps no costs, '
            "and its time grows as the cube of the points."
        )


def _fitting(numbers: float, per_point: float, engine: str) -> int:
    """How many points fit in so many numbers: m² + c m, or c m."""
    if engine == "recompute":
        return int(numbers / per_point)
    return int((numbers + per_point**2 / 4) ** 0.5 - per_point / 2)


def _memory() -> float:
    """Bytes of memory of the default device, free ones where it tells."""
    stats = jax.local_devices()[0].memory_stats()
    if stats and "bytes_limit" in stats:
        return stats["bytes_limit"] - stats.get("bytes_in_use", 0)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
