"""Random rows of clusters, from the states of any built-in family's cluster model."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from numpy.random import Generator

from bregjax._checks import on_host
from bregjax._typing import PyTree
from bregjax.clusters import MeanState, NaturalState
from bregjax.clusters._gamma_entropy import shape_of_scatter
from bregjax.clusters._gaussian_state import GaussianState
from bregjax.clusters._rooted_gaussian import RootedState
from bregjax.clusters._scatters import ScatterState
from bregjax.clusters._seen_state import SeenState
from bregjax.families._blocks import state_of_block
from bregjax.families._categorical import Categorical
from bregjax.families._product import Product
from bregjax.families._samplers import normal_rows, sample_rows

__all__ = ["sample_clusters"]


def sample_clusters(
    family: Any, states: PyTree, counts: np.ndarray, generator: Generator
) -> np.ndarray:
    """Draw rows of clusters, cluster by cluster, categories by their names.

    Args:
        family: The family, all that it takes from data known.
        states: States of its cluster model, `[k, ...]`, of known values.
        counts: How many rows of each cluster, `[k]`.
        generator: NumPy's source of randomness.

    Returns:
        `[Σ counts, d]`: objects where levels are names or booleans, else floats.

    Raises:
        ValueError: If a family is not built in.
    """
    if not isinstance(family, Product):
        return _named(family, _block(family, states, counts, generator))
    inner = states.inner if isinstance(states, SeenState) else states
    blocks, parts = family.blocks(), []
    for b, block in enumerate(blocks):
        state = state_of_block(blocks, b, inner)
        if block.by_cell:
            with on_host():
                state = jax.tree.map(np.asarray, block.form.filled(state))
            if block.form.doubles:
                state = MeanState(state.weight, state.mean[:, 1::2])
        parts.append(
            _named(block.family, _block(block.family, state, counts, generator))
        )
    kind = object if any(part.dtype == object for part in parts) else float
    rows = np.empty((int(np.sum(counts)), len(family.names)), kind)
    for block, part in zip(blocks, parts, strict=True):
        rows[:, block.places] = part
    return rows


def _block(
    family: Any, states: PyTree, counts: np.ndarray, generator: Generator
) -> np.ndarray:
    """Rows of clusters of a family that is no product, as numbers."""
    parts = []
    for k in np.flatnonzero(counts):
        one = jax.tree.map(lambda leaf, k=k: np.asarray(leaf)[k], states)
        parts.append(_cluster(family, one, int(counts[k]), generator))
    return np.concatenate(parts)


def _cluster(family: Any, state: Any, count: int, generator: Generator) -> np.ndarray:
    """Rows of one cluster, whose state may have a further axis of columns by cell."""
    if isinstance(state, GaussianState | RootedState):
        mean = np.asarray(state.moments.mean)
        covariance = np.asarray(state.moments.covariance)
        if state.moments.form == "full":
            return normal_rows(mean, covariance, count, generator)
        return normal_rows(mean.ravel(), covariance.ravel(), count, generator)
    return sample_rows(family, _natural(family, state), count, generator)


def _natural(family: Any, state: Any) -> PyTree:
    """θ of one cluster, in the structure of `family.natural_init`."""
    with on_host():
        if isinstance(state, ScatterState):
            return _of_scatter(state)
        if isinstance(state, MeanState):
            return family.conjugate(state.mean.reshape(-1)).maximiser
        if isinstance(state, NaturalState):
            return _of_natural(family, np.asarray(state.natural))
    raise ValueError(
        f"`family` must be a built-in one to draw rows from; got {family!r}. Draw from "
        "the means of the clusters yourself."
    )


def _of_scatter(state: ScatterState) -> tuple[np.ndarray, np.ndarray]:
    mean = np.asarray(state.statistics.location).ravel()
    scatter = np.asarray(state.statistics.scatter).ravel()
    if state.statistics.spread == "log":
        shape = np.asarray(shape_of_scatter(jnp.asarray(scatter)), float)
        return shape - 1, -shape / mean
    return -0.5 / (scatter * mean**2), -0.5 / scatter


def _of_natural(family: Any, natural: np.ndarray) -> PyTree:
    if natural.ndim == 2:  # a pair of numbers in each column
        return natural[:, 0], natural[:, 1]
    return ravel_pytree(family.natural_init)[1](jnp.asarray(natural))


def _named(family: Any, rows: np.ndarray) -> np.ndarray:
    """Rows with the levels of categories in the place of codes."""
    if not isinstance(family, Categorical):
        return rows
    levels = [np.array(column, dtype=object) for column in family.levels or ()]
    columns = [
        known[codes.astype(int)] for known, codes in zip(levels, rows.T, strict=True)
    ]
    named = np.stack(columns, axis=1)
    numbers = all(_is_number(level) for known in levels for level in known)
    return named.astype(float) if numbers else named


def _is_number(level: Any) -> bool:
    return isinstance(level, int | float) and not isinstance(level, bool)
