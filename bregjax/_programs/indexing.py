"""Gather and scatter by NumPy's indexing.

Both speak of windows: of an operand `[r, c]`, with an index (i, j) for each window and
`slice_sizes` (1, c), each window is the row i from column j on. NumPy indexes by a
number for every entry, so that the corner of a window and the place inside it are added
up, axis by axis: for the row i the numbers are i + (0) and j + (0, 1, …, c − 1).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bregjax._programs.elementwise import Run, Unknown

__all__ = ["BUILDERS"]


def _gather(eqn: Any) -> Run:
    numbers, sizes = eqn.params["dimension_numbers"], eqn.params["slice_sizes"]
    operand, indices = (variable.aval for variable in eqn.invars)
    rank = len(eqn.outvars[0].aval.shape)
    absent = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    inside = [axis for axis in range(operand.ndim) if axis not in absent]
    windows = _Windows(
        operand.shape,
        sizes,
        batch_rank=indices.ndim - 1,
        inside=inside,
        of_index=numbers.start_index_map,
        batched=numbers.operand_batching_dims,
        batch_axes=numbers.start_indices_batching_dims,
    )
    batch = [axis for axis in range(rank) if axis not in numbers.offset_dims]
    # NumPy has the batch axes first.
    order = np.argsort([*batch, *numbers.offset_dims])
    fills = _mode(eqn) == "FILL_OR_DROP"
    value = eqn.params.get("fill_value")
    if value is None:
        value = _filling(np.dtype(operand.dtype))

    def run(x: np.ndarray, index: np.ndarray) -> np.ndarray:
        places, outside = windows.places(index)
        found = x[places]
        if fills and outside.any():
            found = np.where(windows.beside(outside), value, found).astype(x.dtype)
        return np.transpose(found, order)

    return run


def _scatter(name: str | None, combine: np.ufunc | None) -> Callable[[Any], Run]:
    """Scatter with an operation, of a primitive's name; None, to put in place."""

    def build(eqn: Any) -> Run:
        if not _is_plain(eqn, name):
            raise Unknown("scatter with a function of its own")
        numbers = eqn.params["dimension_numbers"]
        operand, indices, updates = (variable.aval for variable in eqn.invars)
        absent = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
        inside = [axis for axis in range(operand.ndim) if axis not in absent]
        sizes = [1] * operand.ndim
        for axis, place in zip(inside, numbers.update_window_dims, strict=True):
            sizes[axis] = updates.shape[place]
        windows = _Windows(
            operand.shape,
            sizes,
            batch_rank=indices.ndim - 1,
            inside=inside,
            of_index=numbers.scatter_dims_to_operand_dims,
            batched=numbers.operand_batching_dims,
            batch_axes=numbers.scatter_indices_batching_dims,
        )
        axes = range(updates.ndim)
        batch = [axis for axis in axes if axis not in numbers.update_window_dims]
        order = (*batch, *numbers.update_window_dims)
        clips = _mode(eqn) == "CLIP"

        def run(x: np.ndarray, index: np.ndarray, update: np.ndarray) -> np.ndarray:
            x = np.array(x)
            places, outside = windows.places(index)
            update = np.transpose(update, order)
            if not clips and outside.any():
                there = np.broadcast_to(~windows.beside(outside), update.shape)
                places = tuple(np.broadcast_to(p, update.shape)[there] for p in places)
                update = update[there]
            if combine is None:
                x[places] = update
            else:
                combine.at(x, places, update)
            return x

        return run

    return build


def _is_plain(eqn: Any, name: str | None) -> bool:
    """Whether what a scatter calls is a primitive; if None, takes the update."""
    jaxpr = eqn.params.get("update_jaxpr")
    if jaxpr is None:
        return True
    old, new = jaxpr.invars
    (out,) = jaxpr.outvars
    if name is None:
        return not jaxpr.eqns and out is new
    if len(jaxpr.eqns) != 1:
        return False
    (step,) = jaxpr.eqns
    operands = [*map(id, step.invars)] == [id(old), id(new)]
    return step.primitive.name == name and operands and step.outvars[0] is out


class _Windows:
    """Where the entries of windows of an operand lie, batch axes first."""

    def __init__(
        self,
        shape: Sequence[int],
        sizes: Sequence[int],
        *,
        batch_rank: int,
        inside: Sequence[int],
        of_index: Sequence[int],
        batched: Sequence[int],
        batch_axes: Sequence[int],
    ) -> None:
        """Note the form of the windows.

        Args:
            shape: Of the operand.
            sizes: Of a window, for each axis of the operand.
            batch_rank: How many axes the windows are dealt out along.
            inside: Axes of the operand that a window keeps.
            of_index: The axis of the operand that each number of an index is for.
            batched: Axes of the operand that go along with the batch.
            batch_axes: The axes of the batch that those go along with.
        """
        self._shape, self._sizes = shape, sizes
        self._batch_rank, self._rank = batch_rank, batch_rank + len(inside)
        self._inside = list(inside)
        self._of_index = list(of_index)
        self._batch = dict(zip(batched, batch_axes, strict=True))

    def places(self, index: np.ndarray) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        """Numbers along each axis, to broadcast; and which windows reach outside."""
        outside = np.zeros(index.shape[:-1], bool)
        found = []
        for axis, size in enumerate(self._sizes):
            last = self._shape[axis] - size
            if axis in self._batch:
                along = self._batch[axis]
                place = _along(np.arange(self._shape[axis]), along, self._rank)
            elif axis in self._of_index:
                corner = index[..., self._of_index.index(axis)].astype(np.int64)
                outside |= (corner < 0) | (corner > last)
                place = self.beside(np.clip(corner, 0, last))
            else:
                place = np.zeros((1,) * self._rank, np.int64)
            if axis in self._inside:
                position = self._batch_rank + self._inside.index(axis)
                place = place + _along(np.arange(size), position, self._rank)
            found.append(place)
        return tuple(found), outside

    def beside(self, of_window: np.ndarray) -> np.ndarray:
        """Values of windows, with axes of one for the places inside."""
        return of_window.reshape(of_window.shape + (1,) * len(self._inside))


def _along(values: np.ndarray, axis: int, rank: int) -> np.ndarray:
    return values.reshape([-1 if k == axis else 1 for k in range(rank)])


def _mode(eqn: Any) -> str:
    name = getattr(eqn.params["mode"], "name", None)
    if name is None:
        raise Unknown("indexing without a mode")
    return name


def _filling(dtype: np.dtype) -> Any:
    """What stands for entries outside: NaN, and the extreme whole number."""
    if np.issubdtype(dtype, np.inexact):
        return np.nan
    if np.issubdtype(dtype, np.bool_):
        return True
    info = np.iinfo(dtype)
    return info.min if np.issubdtype(dtype, np.signedinteger) else info.max


BUILDERS: dict[str, Callable[[Any], Run]] = {
    "gather": _gather,
    "scatter": _scatter(None, None),
    "scatter-add": _scatter("add", np.add),
    "scatter_add": _scatter("add", np.add),
    "scatter-max": _scatter("max", np.maximum),
    "scatter_max": _scatter("max", np.maximum),
    "scatter-min": _scatter("min", np.minimum),
    "scatter_min": _scatter("min", np.minimum),
    "scatter-mul": _scatter("mul", np.multiply),
    "scatter_mul": _scatter("mul", np.multiply),
}
