"""A bar of the merges made, on request."""

import contextlib
import importlib
from collections.abc import Callable, Iterator

__all__ = ["merges_shown"]


@contextlib.contextmanager
def merges_shown(total: int, *, shown: bool) -> Iterator[Callable[[int], None] | None]:
    """A function to be called with the number of merges made, or None.

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
    with tqdm(total=total, unit="merge", unit_scale=True) as bar:
        yield lambda made: bar.update(made - bar.n)
