"""Maxima over runs of a sequence."""

import numpy as np

__all__ = ["RangeMax"]


class RangeMax:
    """Return maxima of any runs of a sequence of whole numbers ≥ 0, by a sparse table.

    Level k holds the maxima of all runs of length 2^k; two of these cover any run.
    """

    def __init__(self, values: np.ndarray) -> None:
        self._levels = [values]
        width = 1
        while 2 * width <= len(values):
            last = self._levels[-1]
            self._levels.append(np.maximum(last[:-width], last[width:]))
            width *= 2

    def __call__(self, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        """Return max values[begin:end]; −1 where that is empty."""
        length = np.maximum(end - begin, 0)
        level = np.log2(np.maximum(length, 1)).astype(int)
        out = np.full(len(length), -1)
        for which in np.unique(level[length > 0]):
            at = (level == which) & (length > 0)
            table = self._levels[which]
            out[at] = np.maximum(table[begin[at]], table[end[at] - 2**which])
        return out
