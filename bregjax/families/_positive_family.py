"""The base class of families of positive columns, whose clusters hold scatters."""

import abc
from typing import Any

import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from bregjax._typing import Array
from bregjax.clusters import ScatterModel
from bregjax.clusters._scatters import Scatters, ScatterState, Spread
from bregjax.families._vector_family import VectorFamily
from bregjax.smoothing import normal_reference

__all__ = ["PositiveFamily", "log_bandwidth", "log_of_rows"]


class PositiveFamily(VectorFamily):
    """Support, leaves and densities that gamma and inverse Gaussian columns share."""

    @property
    @abc.abstractmethod
    def spread(self) -> Spread:
        """The kind of the scatter, see `Scatters`."""

    @property
    @override
    def columnwise(self) -> bool:
        return True

    @override
    def leaf_statistics(self, x: Array) -> Scatters:
        """Give each row a scatter of 0."""
        x = jnp.asarray(x, dtype=float)
        return Scatters(x, jnp.zeros_like(x), self.spread)

    @override
    def cluster_model(self) -> ScatterModel:
        return ScatterModel(self.spread)

    @override
    def density_parameters(self, clusters: ScatterState) -> ScatterState:
        return clusters

    @override
    def log_densities(self, row: Array, parameters: ScatterState) -> Array:
        """log p(x; τ_k), from differences of x and the means."""
        positive = jnp.all(row > 0)
        row = jnp.where(positive, row, 1)
        values = self.cluster_model().log_densities(row, parameters)
        return jnp.where(positive, values, -jnp.inf)

    @override
    def support(self, x: np.ndarray) -> tuple[np.ndarray, str, str]:
        name, remedy = type(self).__name__, "Drop such rows or shift the column"
        return x > 0, f"must be positive for {name}", remedy


def log_of_rows(x: Array) -> Array:
    """log x, computed by NumPy if x is a NumPy array."""
    return np.log(x) if isinstance(x, np.ndarray) else jnp.log(x)  # pyright: ignore[reportReturnType]


def log_bandwidth(x: Array, weights: Array | None) -> Array:
    """Normal-reference bandwidths of the logarithms of columns, `[d]`.

    Bandwidths of log(x / x_0), with x_0 the first cell, which varies as log x does.
    Near x_0 the logarithm is log1p((x − x_0) / x_0), so that columns of any small
    variation keep their digits.
    """
    xp: Any = np if isinstance(x, np.ndarray) else jnp
    first = xp.take_along_axis(x, xp.argmax(~xp.isnan(x), axis=0)[None], 0)
    change = (x - first) / first
    near = xp.abs(change) < 0.5
    logs = xp.where(near, xp.log1p(xp.where(near, change, 0)), xp.log(x / first))
    return normal_reference(logs, per_coordinate=True, weights=weights).bandwidth
