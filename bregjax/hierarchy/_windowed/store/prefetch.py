"""Prefetch: the next blocks are computed on other threads while one is read."""

import contextlib
import itertools
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import jax

__all__ = ["Prefetch"]

Item = TypeVar("Item")
Value = TypeVar("Value")

# More threads would wait for the one that reads their results.
_MOST_THREADS = 4


class Prefetch:
    """Map a function over items in order, a few items before they are asked for.

    Compiled programs that are called from several threads run side by side, and Python
    runs beside them.
    """

    def __init__(self, *, threaded: bool) -> None:
        """Without threads, call the function when an item is asked for."""
        self._num_threads = min(os.cpu_count() or 1, _MOST_THREADS)
        self._threads = ThreadPoolExecutor(self._num_threads) if threaded else None
        # Each thread would compile the program while none has.
        self._compiled = False

    def map(
        self, function: Callable[[Item], Value], items: Iterable[Item]
    ) -> Iterator[Value]:
        """Yield the values of a function of programs or of NumPy, in order."""
        items = iter(items)
        first = list(itertools.islice(items, 2))
        if self._threads is None or len(first) < 2:
            for item in itertools.chain(first, items):
                yield function(item)
                self._compiled = True
            return
        if not self._compiled:
            yield function(first.pop(0))
            self._compiled = True
        settings = _settings()
        waiting: deque[Future[Value]] = deque()
        try:
            for item in itertools.chain(first, items):
                future = self._threads.submit(_under, settings, function, item)
                waiting.append(future)
                if len(waiting) > self._num_threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _settings() -> tuple[bool, object]:
    """Return the settings of JAX that hold for one thread: precision and device."""
    config = jax.config
    return config.jax_enable_x64, config.jax_default_device  # pyright: ignore


def _under(
    settings: tuple[bool, object], function: Callable[[Item], Value], item: Item
) -> Value:
    wide, device = settings
    with contextlib.ExitStack() as stack:
        stack.enter_context(jax.enable_x64(wide))
        stack.enter_context(jax.default_device(device))
        return function(item)
