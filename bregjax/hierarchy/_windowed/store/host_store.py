"""The store by NumPy, of clusters whose costs squared distances bound."""

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from bregjax.clusters._root_distances import RootDistances
from bregjax.clusters._rooted_entropies import Entropies, entropy_costs
from bregjax.hierarchy._mutual.panels import _less_norms as less_norms, lightness
from bregjax.hierarchy._windowed.store.prefetch import Prefetch
from bregjax.hierarchy._windowed.store.two_least import as_limit

_WIDE = 256
_ROWS = (8, 64)
_BLOCK = 2**20
_MANY = 2**13
cnt2=[0]
cnt2=[0]
cnt2=[0]
cnt2=[0]
cnt2=[0]


@dataclass
class Shapes:
    block: int
    near: int


class HostStore:
    has_closer = False
    host = None
    reducible = False
    dtype = np.dtype(float)

    def __init__(self, host, weight, mean, robust):
        m, n = mean.shape
        self.size = self.used = m
        self.robust = robust
        capacity = -(-(m + m // 2 + 1) // _WIDE) * _WIDE
        slots = np.minimum(np.arange(capacity), m - 1)
        self._unit = float(np.mean(mean)) or 1.0
        mean = mean / self._unit
        self._distances = RootDistances.of(mean)
        points = self._distances.points(mean)
        self._center = np.median(points, axis=0)
        self.screen_dtype = np.dtype(np.float32)
        self._heavy = np.max(weight)
        weight = (weight / self._heavy)[slots]
        self.clusters = Entropies.of(weight, mean[slots])
        self.features = self._features(self.clusters.mean, np.float32)
        self.right = self._arranged(self.features)
        self.light = lightness(weight).astype(np.float32)
        rows = int(np.clip(_BLOCK // capacity, *_ROWS))
        self.shapes = Shapes(rows, 8 if m > _MANY else 4)
        self._prefetch = Prefetch(threaded=True)
        self._capacity = capacity

    @property
    def capacity(self):
        return self._capacity

    @property
    def room(self):
        return self.capacity - self.used

    def _features(self, mean, dtype):
        points = self._distances.points(mean) - self._center
        out = np.empty((len(points), points.shape[1] + 2), dtype)
        out[:, :-2] = points
        out[:, -2] = less_norms(points, dtype)
        out[:, -1] = 1
        return out

    def _arranged(self, features):
        chunks = features.reshape(-1, _WIDE, features.shape[1])
        return np.ascontiguousarray(chunks.swapaxes(1, 2))

    def screened(self, parts):
        return self._prefetch.map(lambda part: self._block(*part), parts)

    def _block(self, rows, among):
        used = int(np.max(np.flatnonzero(among), initial=-1)) + 1
        chunks = -(-used // _WIDE)
        left = self.features[rows]
        left[:, :-2] *= -2
        left = left[:, [*range(left.shape[1] - 2), -1, -2]]
        low = np.matmul(left[None], self.right[:chunks])
        d = self._distances
        light = self.light[: chunks * _WIDE].reshape(chunks, 1, _WIDE)
        mine = self.light[rows][None, :, None]
        np.maximum(low, 0, out=low)
        share = np.maximum(light, mine)
        share *= np.float32(d.beta / d.alpha)
        share += light
        share += mine
        share *= np.float32(d.alpha * (1 + 1e-6))
        low /= share
        gone = np.where(among[: chunks * _WIDE], 0, np.inf).astype(low.dtype)
        low += gone.reshape(chunks, 1, _WIDE)
        low[rows[rows < chunks * _WIDE] // _WIDE, np.flatnonzero(rows < chunks * _WIDE), rows[rows < chunks * _WIDE] % _WIDE] = np.inf
        return HostBlock(rows, among, low, self.shapes.near)

    def sharper(self, block, left):
        return None

    def costs(self, first, second, limit=np.inf):
        cost, error = entropy_costs(self.clusters, first, second)
        close = np.flatnonzero(~(error <= 2**-30 * cost))
        if len(close):
            cost[close] = self.robust(self, first[close], second[close])
        return cost

    def lower(self, first, second):
        cnt2[0] += len(first)
        return self.costs(first, second)

    def settled(self, first, second, low):
        return low

    def append(self, first, second):
        some = slice(self.used, self.used + len(first))
        c = self.clusters
        a, b = c.weight[first], c.weight[second]
        heavy, light = np.where(a >= b, (first, second), (second, first))
        share = (np.minimum(a, b) / (a + b))[:, None]
        mean = c.mean[heavy] + share * (c.mean[light] - c.mean[heavy])
        new = Entropies.of(a + b, mean)
        for name in ("weight", "mean", "own", "size"):
            getattr(c, name)[some] = getattr(new, name)
        features = self._features(mean, self.screen_dtype)
        self.features[some] = features
        self.light[some] = lightness(new.weight)
        slots = np.arange(some.start, some.stop)
        self.right[slots // _WIDE, :, slots % _WIDE] = features
        self.used = some.stop
        return slots

    def compact(self, slots):
        other, moved = self.copied(slots)
        vars(self).update(vars(other))
        return moved

    def copied(self, slots):
        other = copy.copy(self)
        index = np.zeros(self.capacity, int)
        index[: len(slots)] = slots
        c = self.clusters
        other.clusters = Entropies(*(getattr(c, name)[index] for name in ("weight", "mean", "own", "size")))
        other.features = self.features[index]
        other.right = self._arranged(other.features)
        other.light = self.light[index]
        other.used = len(slots)
        return other, np.arange(len(slots))


@dataclass
class HostBlock:
    rows: np.ndarray
    among: np.ndarray
    low: np.ndarray
    near: int

    def _pairs(self, true):
        flat = np.flatnonzero(true)
        chunk, rest = np.divmod(flat, self.low.shape[1] * _WIDE)
        place, column = np.divmod(rest, _WIDE)
        return place, chunk * _WIDE + column

    def pairs_within(self, limit):
        limit = np.minimum(as_limit(limit, self.low.dtype), np.finfo(self.low.dtype).max)
        return self._pairs(self.low <= limit[None, :, None])

    def pairs_within_columns(self, limit):
        limit = np.minimum(as_limit(limit[: self.low.shape[0] * _WIDE], self.low.dtype), np.finfo(self.low.dtype).max)
        if not (limit > -np.inf).any():
            return np.zeros((2, 0), int)
        return self._pairs(self.low <= limit.reshape(-1, 1, _WIDE))

    def leading(self):
        least = np.min(self.low, axis=0)
        count = min(self.near, _WIDE - 1)
        group = np.argpartition(least, count, axis=1)[:, :count]
        place = np.repeat(np.arange(len(self.rows)), count)
        group = group.ravel()
        chunk = np.argmin(self.low[:, place, group], axis=0)
        real = self.low[chunk, place, group] < np.inf
        return place[real], (chunk * _WIDE + group)[real]

    def following(self, limit, turn):
        return None
