"""Points with weights on the host, and the few nearest of each by Ward's cost.

The cost of a pair is ‖a − b‖² / (1/w_a + 1/w_b). A search takes lower bounds of all
costs of some points from products of matrices in float32, and computes the costs of the
few that are least, from differences, which do not cancel. Where the least of these is
above the bound of all that was left out, all that may cost no more are looked at; by
float64 where float32 would leave too many.

Example: 0 against 1, 3, 2 and 50, where one is wanted: 1, as bounds have it, costs 0.5,
and the others are bounded by 2, less rounding. The nearest is known. Had rounding left
a bound of 0.4, all with bounds up to 0.5 would be looked at.
"""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from bregjax.clusters._squared_distances import lightness
from bregjax.hierarchy._mutual.neighbourhoods import Neighbourhoods
from bregjax.hierarchy._mutual.panels import Panels, ranks, tie_key
from bregjax.hierarchy._mutual.point_tree import nearest_by_tree, serves

__all__ = ["NearPoints"]

# Pairs whose costs are computed together.
_PAIRS = 2**12
_MOST_THREADS = 8
# If float32 leaves undecided more than this share of so many rows, it is given up.
_TRIED, _SHARE = 256, 0.1
# Rows for which a tree is worth making.
_FEW_FOR_TREE = 256


class NearPoints:
    """Points in slots, all of them in use. Costs are in a unit of their own.

    Examples:
        >>> points = NearPoints(np.array([[0.0], [1.0], [3.0]]), np.ones(3))
        >>> found = points.nearest(np.array([0, 2]), 1)
        >>> print(found.index.ravel(), found.cost.ravel() / found.cost[0])
        [1 1] [1. 4.]
    """

    def __init__(self, mean: np.ndarray, weight: np.ndarray) -> None:
        """Take points `[m, n]` and their weights `[m]`."""
        # In units, powers of two, in which neither squares nor weights overflow.
        huge = np.max(np.abs(mean), initial=0.0) > 1e150
        self.mean = np.ldexp(mean.astype(float), -64 if huge else 0)
        self.weight = np.ldexp(weight.astype(float), -np.frexp(np.max(weight))[1])
        mean = self.mean
        # Products are of points less their median, which few points far away do not
        # move, so that squares cancel no more than they must; and scaled.
        self._center = np.median(mean, axis=0)
        # The square of the scale must be a number that is not 0.
        spread = np.max(np.abs(mean - self._center[None]), initial=0.0)
        self._scale = float(np.clip(spread, 1e-150, 1e150))
        self._float32_serves, self._by_tree, self._tree_settles = True, False, True
        self._threads = min(os.cpu_count() or 1, _MOST_THREADS)

    def costs(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return the costs of pairs of slots, `[p]`, the same in either order."""
        square = np.empty(len(first))
        for start in range(0, len(first), _PAIRS):
            part = slice(start, start + _PAIRS)
            gap = self.mean[first[part]] - self.mean[second[part]]
            square[part] = np.einsum("ij,ij->i", gap, gap)
        return square / (lightness(self.weight[first]) + lightness(self.weight[second]))

    def unite(self, first: np.ndarray, second: np.ndarray) -> None:
        """Put the unions of pairs of slots into the first of each."""
        a, b = self.weight[first], self.weight[second]
        # From the heavier part, which a light one far away hardly moves.
        heavy, light = np.where(a >= b, (first, second), (second, first))
        share = np.minimum(a, b) / (a + b)
        gap = self.mean[light] - self.mean[heavy]
        self.mean[first] = self.mean[heavy] + share[:, None] * gap
        self.weight[first] = a + b

    def keep(self, slots: np.ndarray) -> None:
        """Leave out all other slots."""
        self.mean, self.weight = self.mean[slots], self.weight[slots]

    def nearest(self, rows: np.ndarray, count: int) -> Neighbourhoods:
        """Find the nearest of some points among all others.

        Of those that tie at the end of a list a few that are as good as random: else
        all would list the same.

        Args:
            rows: Slots of the points, `[r]`.
            count: How many of each.
        """
        self._by_tree = serves(*self.mean.shape, loaded=self._by_tree)
        few = len(rows) < _FEW_FOR_TREE or not np.isfinite(self.mean).all()
        if few or not (self._by_tree and self._tree_settles):
            return self._by_products(rows, count)
        found = nearest_by_tree(
            self.mean, self.weight, self.costs, rows, count, self._threads
        )
        left = found.unsettled()
        self._tree_settles = len(left) <= len(rows) / 2
        if len(left):
            found.put(left, self._by_products(rows[left], count))
        return found

    def _by_products(self, rows: np.ndarray, count: int) -> Neighbourhoods:
        """Find the nearest by products of matrices."""
        found = Neighbourhoods.unknown(len(rows), count)
        left = np.arange(len(rows))
        if self._float32_serves:
            left = self._settle(found, rows, np.float32)
            tried = len(rows) >= _TRIED
            self._float32_serves = not (tried and len(left) > _SHARE * len(rows))
        if len(left):
            finer = Neighbourhoods.unknown(len(left), count)
            self._settle(finer, rows[left], np.float64)
            found.put(left, finer)
        return found

    def _settle(
        self, found: Neighbourhoods, rows: np.ndarray, dtype: type[np.floating]
    ) -> np.ndarray:
        """Find the nearest of slots by bounds of a type; return which are unsettled."""
        scaled = (self.mean - self._center[None]) / self._scale
        count = found.cost.shape[1]
        panels = Panels.of(scaled, self.weight, count, dtype)
        found.put(np.arange(len(rows)), self._searched(panels, rows, None))
        left = found.unsettled()
        # All that may cost no more than the least of those; all there are, if none.
        limit = np.min(found.cost[left], axis=1)
        if panels.coarse:
            some = np.isfinite(limit)
            left, limit = left[some], limit[some]
        if len(left):
            found.put(left, self._searched(panels, rows[left], limit))
        return found.unsettled()

    def _searched(
        self, panels: Panels, rows: np.ndarray, limit: np.ndarray | None
    ) -> Neighbourhoods:
        """The nearest of slots by products, of all that cost at most a limit if any."""
        found = Neighbourhoods.unknown(len(rows), panels.count)

        def search(part: slice) -> None:
            some, unit = rows[part], self._scale**2
            if limit is None:
                place, slot, bound = panels.nearest(some)
            else:
                place, slot, bound = panels.within(some, limit[part] / unit)
            cost = self.costs(some[place], slot)
            order = np.lexsort((tie_key(some[place], slot), cost, place))
            place, slot, cost = place[order], slot[order], cost[order]
            found.bound[part] = bound * unit
            found.enter(part.start + place, ranks(place), slot, cost)

        parts = list(panels.parts(len(rows)))
        if len(parts) == 1:
            search(parts[0])
            return found
        with ThreadPoolExecutor(self._threads) as pool:
            list(pool.map(search, parts))
        return found
