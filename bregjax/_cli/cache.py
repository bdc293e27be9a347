"""Compiled programs kept on disk, so that the next command does not compile again."""

import os
import sys
from pathlib import Path
from typing import Any

import jax

__all__ = ["keep_compiled_programs"]

# Programs that take less seconds to compile are not worth a file.
_SHORT = 0.2
_LEAST, _USUAL = "jax_persistent_cache_min_compile_time_secs", 1.0


def keep_compiled_programs() -> None:
    """Tell JAX to keep compiled programs in the user's folder for such things.

    What the user has chosen stays: a folder, by JAX_COMPILATION_CACHE_DIR, say, or from
    how many seconds on programs are kept. A folder that can't be written to costs a
    warning of JAX's, no more; a user without a home folder has nothing kept.
    """
    config: Any = jax.config
    if config.jax_compilation_cache_dir:
        return
    try:
        folder = _folder() / "bregjax"
    except RuntimeError:
        return
    config.update("jax_compilation_cache_dir", str(folder))
    chosen = _LEAST.upper() in os.environ or getattr(config, _LEAST) != _USUAL
    if not chosen:
        config.update(_LEAST, _SHORT)


def _folder() -> Path:
    """Where programs keep what they can make again, by the system's custom."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    # Its specification has relative paths ignored.
    given = os.environ.get("XDG_CACHE_HOME", "")
    return Path(given) if os.path.isabs(given) else Path.home() / ".cache"
