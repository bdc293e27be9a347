"""How much memory there is to work in."""

import os
from pathlib import Path

import jax

__all__ = ["available_memory", "physical_memory"]

_CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")
_CONTAINER_USE = Path("/sys/fs/cgroup/memory.current")
_SYSTEM = Path("/proc/meminfo")


def available_memory() -> float:
    """Bytes of memory of the default device that are free, as far as it tells.

    On a CPU what the system can give without swapping, within the container's limit;
    where neither is told, all of the machine's memory; where that is not told either,
    infinity, and nothing is refused.
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
    """Bytes of memory of the machine; infinity where the system does not tell."""
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
