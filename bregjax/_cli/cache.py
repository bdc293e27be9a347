"""Compiled programs kept on disk, so that the next command does not compile again."""

import os
import sys
from pathlib import Path

import jax

__all__ = ["keep_compiled_programs"]

# Programs that take less seconds to compile are not worth a file.
_SHORT = 0.2


def keep_compiled_programs() -> None:
    """Tell JAX to keep compiled programs in the user's folder for such things.

    Where the user has chosen a folder, by JAX_COMPILATION_CACHE_DIR, say, that stays. A
    folder that can't be written to costs a warning of JAX's, no more.
    """
    if jax.config.jax_compilation_cache_dir:  # pyright: ignore[reportAttributeAccessIssue]
        return
    jax.config.update("jax_compilation_cache_dir", str(_folder() / "bregjax"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", _SHORT)


def _folder() -> Path:
    """Where programs keep what they can make again, by the system's custom."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
