"""The host model of products that know how much of their columns was observed."""

from typing import Any

import numpy as np
from typing_extensions import override

from bregjax.clusters._block_statistics import BlockStatistics
from bregjax.clusters._host_model import HostModel
from bregjax.clusters._seen_state import TIE, Seen, SeenState, known_harmonic

__all__ = ["SeenHost"]


class SeenHost(HostModel):
    """The host model of `ObservedModel`, by that of the product, with its ties."""

    def __init__(
        self, columns: tuple[Seen, ...], weights: np.ndarray, product: HostModel
    ) -> None:
        """Wrap the host model of the product, with what each column counts."""
        self._columns, self._weights, self._product = columns, weights, product

    @override
    def leaves(
        self, statistics: tuple[BlockStatistics, ...], weights: np.ndarray
    ) -> SeenState:
        shares = [np.asarray(seen.of(statistics)) for seen in self._columns]
        there = np.concatenate(shares, axis=1) > 0
        seen = weights[:, None] * np.where(there, self._weights, 0)
        return _state(weights, seen, self._product.leaves(statistics, weights))

    @override
    def pool(self, a: SeenState, b: SeenState) -> SeenState:
        inner = self._product.pool(a.inner, b.inner)
        return SeenState(a.weight + b.weight, a.seen + b.seen, inner)

    @override
    def settle(self, state: SeenState) -> SeenState:
        return SeenState(state.weight, state.seen, self._product.settle(state.inner))

    @override
    def result(self, state: SeenState) -> np.ndarray:
        return self._product.result(state.inner)

    @override
    def merge_costs(self, a: SeenState, b: SeenState, union: SeenState) -> np.ndarray:
        return self._product.merge_costs(a.inner, b.inner, union.inner)

    @override
    def search_costs(self, a: SeenState, b: SeenState) -> tuple[np.ndarray, SeenState]:
        costs, inner = self._product.search_costs(a.inner, b.inner)
        weights = np.asarray(a.weight), np.asarray(b.weight)
        whole = np.sum(self._weights) * known_harmonic(*weights)
        both = known_harmonic(np.asarray(a.seen), np.asarray(b.seen))
        seen = np.sum(both, axis=-1)
        costs = costs + TIE * np.maximum(whole - seen, 0)
        return costs, SeenState(a.weight + b.weight, a.seen + b.seen, inner)

    @override
    def is_quick(self, leaves: SeenState) -> bool:
        return self._product.is_quick(leaves.inner)

    @override
    def noise(self, state: SeenState) -> np.ndarray:
        # The bounds of costs by others do not hold for what is added in ties.
        ties = TIE * np.sum(self._weights) * np.asarray(state.weight)
        return self._product.noise(state.inner) + ties


def _state(*fields: Any) -> SeenState:
    return SeenState(*fields)
