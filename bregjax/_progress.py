"""A bar that shows how far long work has come, on request."""

import contextlib
import importlib
from collections.abc import Callable, Iterator

__all__ = ["progress_shown"]


@contextlib.contextmanager
def progress_shown(
    total: int, *, unit: str, shown: bool
) -> Iterator[Callable[[int], None] | None]:
    """A function to be called with how much is done, or None.

    Raises:
        ImportError: If it is to be shown and tqdm isn't installed.
    """
    if not shown:
        yield None
        return
    try:
        tqdm = importlib.import_module("tqdm.auto").tqdm
    except ImportError as error:
        raise ImportError(
            "`progress` needs tqdm: pip install 'bregjax[progress]'."
        ) from error
    with tqdm(total=total, unit=unit, unit_scale=True) as bar:
        yield lambda done: bar.update(done - bar.n)
