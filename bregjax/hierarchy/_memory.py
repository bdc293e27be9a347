"""How much memory is free."""

import os
from pathlib import Path

import jax

__all__ = ["available_memory", "physical_memory"]

_CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")
_CONTAINER_USE = Path("/sys/fs/cgroup/memory.current")
_SYSTEM = Path("/proc/meminfo")


def available_memory() -> float:
    """Return the bytes of the default device's memory that are free.

    On a CPU that is what the system can give without swapping, within the container's
    limit; where neither is known, the machine's memory; where that is unknown too,
    infinity, so that nothing is refused.
    """
    stats = jax.local_devices()[0].memory_stats()
    if stats and "bytes_limit" in stats:
        return stats["bytes_limit"] - stats.get("bytes_in_use", 0)
    return min(_free_in_system(), _free_in_container())


def _free_in_system() -> float:
    try:
        lines = _SYSTEM.read_text("ascii").splitlines()
        fields = dict(line.split(":") for line in lines)
        return 1024 * int(fields["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):
        return physical_memory()


def physical_memory() -> float:
    """Return the bytes of the machine's memory, infinity where that is unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no `sysconf`
        return float("inf")


def _free_in_container() -> float:
    try:
        limit = int(_CONTAINER_LIMIT.read_text("ascii"))
        return limit - int(_CONTAINER_USE.read_text("ascii"))
    except (OSError, ValueError):  # no container, or none with a limit
        return float("inf")
