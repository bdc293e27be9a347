"""The pace: how much to try next, from what became of the windows before.

All its constants: what each guards, and the processor time at half and at double its
value, as a multiple of the time at the value. Measured on three sets of 2,000 rows
under diagonal Gaussians of narrow bandwidths, whose trees have 34, 685 and 419
inversions; the time of equal work differed by 5 %. "=": the work was equal.

    constant         guards against                       half            double
    _SHARES          many rounds; windows undone          1.0  1.2  1.1   1.5  1.2  1.2
    _GROWTH          the same, after a window kept        1.2  =    =     1.1  =    =
    _SHRINKAGE       windows undone in a row              =    =    =     =    =    =
    _COLLAPSE        the same, where first merges fail    =    =    =     =    =    =
    _RECOVERY        many rounds after a collapse         =    =    =     =    =    =
    _FEW             checks of windows of a few merges    1.0  1.0  =     1.0  1.1  =
    _FASTER          windows tried where all fail         =    =    =     =    =    =
    _BY_HOST         compiling for a few merges           =    =    =     =    =    =
    _WORTH           small windows beside the program     =    =    =     =    =    =
    _IN_VAIN         work undone that a matrix of costs   =    =    =     1.5  1.2  1.3
                     would have spared
    _AT_LEAST        compiling it for few clusters        =    =    =     1.8  =    =
    _OF_OTHERS       a matrix where most windows hold     0.9  =    =     1.4  1.2  1.3
    _PAIRS_BY_HOST   many merges from the host            1.7  =    =     0.9  =    =
    _BY_DIGITS       expensive bounds taken for cheap     =    =    =     =    =    =

Those whose rows are all "=" decide where the matrix engine does not serve: on several
devices, where costs are factorised or solved for, and past its memory. With twice
`_IN_VAIN` and `_AT_LEAST`, as an older matrix engine called for, the first set took
twice the time, and sets of 3,000 and 5,000 rows 1.2 and 1.3 times. All this was before
a window kept its merges ahead of the first that is not greedy's. With these, Poisson
counts of 10,000 × 32 take 1.2 s of wall clock by NumPy, 1.4 with the shares 0.7 and
0.8, 2.2 with 0.8 and 0.9, and 1.5 with 0.5 and 0.6.
"""

import numpy as np

__all__ = ["Pace"]

# Shares of the clusters whose nearest is within a window's threshold: of the first, the
# largest and the smallest window.
_SHARES, _REDUCIBLE_SHARES = (0.6, 0.7, 0.01), (0.9, 0.95, 0.01)
# Factors of the share after a window that is greedy's, and after one that isn't; after
# one that failed at its first merges, and until it is large again after that.
_GROWTH, _SHRINKAGE = 1.1, 0.7
_COLLAPSE, _RECOVERY = 0.25, 1.3
# Merges made one at a time where a window fails at its first merges, and the factor by
# which these become more where windows keep failing.
_FEW, _FASTER = 8, 8
# Merges made one at a time after which the program for them is compiled, and clusters
# of a window from which one is tried at all then.
_BY_HOST, _WORTH = 64, 64
# Rows searched in vain, by which the clusters that are left go to the matrix engine: so
# many a cluster, of these at least so many, and a share of all other searches.
_IN_VAIN, _AT_LEAST, _OF_OTHERS = 0.55, 1000, 0.25
# By how much more where a matrix of costs is expensive, each a logarithm a column:
# 2,000 rows of 32 counts took 1.2 seconds of processor time by compiled windows, of
# which five failed, and 3.1 with a matrix after the first three.
_PATIENCE = 2
# What one merge from the host counts as, in pairs; and a row of bounds in full
# precision, in rows of bounds in half.
_PAIRS_BY_HOST, _BY_DIGITS = 2**16, 3


class Pace:
    """How many merges to try at once, or to make one at a time.

    Attributes:
        share: Share of the clusters whose nearest is within the next threshold.
        singly: How many merges to make one at a time after a window that failed at its
            first merges.
        inverting: Whether so many merges were made one at a time that the program for
            these is compiled.
    """

    def __init__(self, *, reducible: bool, expensive: bool = False) -> None:
        """Begin with a large window; a larger one if costs are reducible.

        Args:
            reducible: Whether costs are.
            expensive: Whether costs take longer than bounds do.
        """
        self._patience = _PATIENCE if expensive else 1
        self._shares = _REDUCIBLE_SHARES if reducible else _SHARES
        self.share = self._shares[0]
        self.inverting = False
        self.singly = _FEW
        self._in_vain = 0.0

    @property
    def few(self) -> int:
        """Merges of so few a window are made one at a time, if it fails."""
        return _WORTH if self.inverting else _FEW

    @property
    def is_smallest(self) -> bool:
        """Whether no smaller window is tried."""
        return self.share < self._shares[2]

    def before_next(self, left: int) -> int:
        """Return how many merges to make one at a time before the next window.

        Some where a window would be so small that its rounds and check take longer.

        Args:
            left: Number of clusters.
        """
        if not self.inverting or self.share * left >= _WORTH:
            return 0
        self.share *= _RECOVERY
        return _WORTH

    def greedy(self) -> None:
        """Grow after a window that was greedy's."""
        self.singly = max(self.singly // 2, _FEW) if self.inverting else _FEW
        usual, largest, _ = self._shares
        growth = _GROWTH if self.share > usual / 2 else _RECOVERY
        self.share = min(growth * self.share, largest)

    def no_room(self) -> None:
        """Shrink after a window that had no room."""
        self.share /= 2

    def failed(self) -> None:
        """Shrink after a window of which only the first merges were greedy's."""
        self.share = max(_SHRINKAGE * self.share, self._shares[2])

    def stepped_back(self, size: int) -> None:
        """Shrink after a window that failed at its first merges, or was given up.

        Where greedy cannot be foreseen, and not only in a window that was too large,
        more merges are made one at a time the next time.

        Args:
            size: How many merges the window had; 0 if it was given up.
        """
        if size <= 4 * self.singly or self.inverting:
            self.singly *= _FASTER if self.inverting or not size else 2
        self.share = max(_COLLAPSE * self.share, self._shares[2])

    def undone(self, searches: float, dtype: np.dtype) -> None:
        """Count rows that were searched in vain, in a precision."""
        each = 1 if dtype == np.float32 else _BY_DIGITS
        self._in_vain += each * searches

    def merged_by_host(self, left: int) -> None:
        """Count one merge that was made from the host."""
        self._in_vain += _PAIRS_BY_HOST / max(left, _AT_LEAST)

    def is_costly(self, left: int, searches: int) -> bool:
        """Whether so much was done in vain that costs are better had all at once.

        Args:
            left: Number of clusters.
            searches: Rows searched so far, in vain or not.
        """
        others = max(searches - self._in_vain, 0)
        allowed = _IN_VAIN * max(left, _AT_LEAST) + _OF_OTHERS * others
        return self._in_vain > self._patience * allowed

    @staticmethod
    def is_often(num_singly: int) -> bool:
        """Whether so many merges were made one at a time that a program pays."""
        return num_singly > _BY_HOST
