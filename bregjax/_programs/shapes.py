"""Primitives that move numbers about, and that reduce along axes, by NumPy."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from bregjax._programs.elementwise import Run, Unknown

__all__ = ["BUILDERS"]


def _broadcast(eqn: Any) -> Run:
    shape, places = eqn.params["shape"], eqn.params["broadcast_dimensions"]
    sizes = [1] * len(shape)
    for axis, place in enumerate(places):
        sizes[place] = eqn.invars[0].aval.shape[axis]
    sizes = tuple(sizes)
    if sizes == shape:
        return lambda x: np.reshape(x, shape)
    return lambda x: np.broadcast_to(np.reshape(x, sizes), shape)


def _reshape(eqn: Any) -> Run:
    """All that change the shape alone: reshape, squeeze, expand_dims."""
    if eqn.params.get("dimensions") is not None and eqn.primitive.name == "reshape":
        raise Unknown("reshape with another order of dimensions")
    shape = eqn.outvars[0].aval.shape
    return lambda x: np.reshape(x, shape)


def _transpose(eqn: Any) -> Run:
    permutation = eqn.params["permutation"]
    return lambda x: np.transpose(x, permutation)


def _slice(eqn: Any) -> Run:
    strides = eqn.params["strides"] or (None,) * len(eqn.params["start_indices"])
    limits = zip(
        eqn.params["start_indices"], eqn.params["limit_indices"], strides, strict=True
    )
    part = tuple(slice(*limit) for limit in limits)
    return lambda x: x[part]


def _dynamic_slice(eqn: Any) -> Run:
    sizes = eqn.params["slice_sizes"]
    shape = eqn.invars[0].aval.shape

    def run(x: np.ndarray, *starts: Any) -> np.ndarray:
        return x[_window(starts, sizes, shape)]

    return run


def _dynamic_update_slice(eqn: Any) -> Run:
    shape, sizes = (operand.aval.shape for operand in eqn.invars[:2])

    def run(x: np.ndarray, update: np.ndarray, *starts: Any) -> np.ndarray:
        x = np.array(x)
        x[_window(starts, sizes, shape)] = update
        return x

    return run


def _window(
    starts: tuple[Any, ...], sizes: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[slice, ...]:
    """A window that begins at `starts`, moved where it would reach outside."""
    inside = (
        min(max(int(start), 0), all_ - size)
        for start, size, all_ in zip(starts, sizes, shape, strict=True)
    )
    return tuple(slice(k, k + n) for k, n in zip(inside, sizes, strict=True))


def _concatenate(eqn: Any) -> Run:
    axis = eqn.params["dimension"]
    return lambda *parts: np.concatenate(parts, axis=axis)


def _stack(eqn: Any) -> Run:
    axis = eqn.params["axis"]
    return lambda *parts: np.stack(parts, axis=axis)


def _split(eqn: Any) -> Run:
    axis, stops = eqn.params["axis"], np.cumsum(eqn.params["sizes"])[:-1]
    return lambda x: np.split(x, stops, axis=axis)


def _unstack(eqn: Any) -> Run:
    axis = eqn.params["axis"]
    return lambda x: list(np.moveaxis(x, axis, 0))


def _searchsorted(eqn: Any) -> Run:
    """The only one of the primitives of its kind that has a form here (jax 0.12)."""
    primitive = eqn.params.get("_prim")
    if type(primitive).__name__ != "SearchSorted" or eqn.invars[0].aval.ndim != 1:
        raise Unknown(f"{eqn.primitive.name} of {primitive}")
    sides: tuple[Literal["left", "right"], ...] = ("left", "right")
    named: list[Literal["left", "right"]] = [
        side for side in sides if f"side={side}" in str(primitive)
    ]
    if len(named) != 1:
        raise Unknown(f"a search on which side? {primitive}")
    side = named[0]
    dtype = eqn.outvars[0].aval.dtype
    return lambda x, values: [np.searchsorted(x, values, side).astype(dtype)]


def _pad(eqn: Any) -> Run:
    widths = eqn.params["padding_config"]
    if any(min(width) < 0 for width in widths):
        raise Unknown("pad with negative widths")
    shape = eqn.outvars[0].aval.shape
    inside = tuple(
        slice(low, size - high, step + 1)
        for (low, high, step), size in zip(widths, shape, strict=True)
    )

    def run(x: np.ndarray, value: Any) -> np.ndarray:
        out = np.full(shape, value)
        out[inside] = x
        return out

    return run


def _rev(eqn: Any) -> Run:
    axes = eqn.params["dimensions"]
    return lambda x: np.flip(x, axes)


def _iota(eqn: Any) -> Run:
    shape, axis = eqn.params["shape"], eqn.params["dimension"]
    sizes = [1] * len(shape)
    sizes[axis] = shape[axis]
    row = np.arange(shape[axis], dtype=eqn.params["dtype"]).reshape(sizes)
    return lambda: np.broadcast_to(row, shape)


def _sort(eqn: Any) -> Run:
    axis, keys = eqn.params["dimension"], eqn.params["num_keys"]
    if len(eqn.invars) == 1:
        return lambda x: (np.sort(x, axis=axis, kind="stable"),)

    def run(*operands: np.ndarray) -> tuple[np.ndarray, ...]:
        order = np.lexsort(operands[:keys][::-1], axis=axis)
        return tuple(np.take_along_axis(x, order, axis) for x in operands)

    return run


def _reduction(function: Callable[..., Any]) -> Callable[[Any], Run]:
    def build(eqn: Any) -> Run:
        axes = eqn.params["axes"]
        dtype = eqn.outvars[0].aval.dtype
        if not axes:
            return lambda x: x
        shape = eqn.invars[0].aval.shape
        if function in _EXTREMES and not all(shape[axis] for axis in axes):
            start = _extreme(np.dtype(dtype), _EXTREMES[function])
            return lambda x: function(x, axis=axes, initial=start)
        if function in (np.add.reduce, np.multiply.reduce):
            return lambda x: function(x, axis=axes, dtype=dtype)
        return lambda x: function(x, axis=axes)

    return build


def _extreme(dtype: np.dtype, sign: int) -> Any:
    """The number of a type that all others are beyond, on the side of −sign."""
    if dtype.kind == "f":
        return -sign * np.inf
    if dtype.kind == "b":
        return sign < 0
    info = np.iinfo(dtype)
    return info.min if sign > 0 else info.max


_EXTREMES = {np.maximum.reduce: 1, np.minimum.reduce: -1}


def _where(function: Callable[..., Any]) -> Callable[[Any], Run]:
    def build(eqn: Any) -> Run:
        (axis,), dtype = eqn.params["axes"], eqn.params["index_dtype"]
        return lambda x: function(x, axis=axis).astype(dtype)

    return build


def _cumulative(function: Callable[..., Any]) -> Callable[[Any], Run]:
    def build(eqn: Any) -> Run:
        axis = eqn.params["axis"]
        # NumPy adds up narrow whole numbers in wide ones, if not told.
        dtype = np.dtype(eqn.outvars[0].aval.dtype)
        run = lambda x: function(x, axis=axis, dtype=dtype)
        if not eqn.params["reverse"]:
            return run
        return lambda x: np.flip(run(np.flip(x, axis)), axis)

    return build


def _dot_general(eqn: Any) -> Run:
    """A sum of products over some axes, by letters: the batch axes come first."""
    (sum_a, sum_b), (batch_a, batch_b) = eqn.params["dimension_numbers"]
    rank_a, rank_b = (len(operand.aval.shape) for operand in eqn.invars)
    dtype = np.dtype(eqn.outvars[0].aval.dtype)
    wide = np.result_type(*(operand.aval.dtype for operand in eqn.invars), dtype)
    free_a = [k for k in range(rank_a) if k not in (*sum_a, *batch_a)]
    free_b = [k for k in range(rank_b) if k not in (*sum_b, *batch_b)]
    sizes = eqn.invars[0].aval.shape, eqn.invars[1].aval.shape
    batch = tuple(sizes[0][k] for k in batch_a)
    count = lambda which, axes: int(np.prod([sizes[which][k] for k in axes]))
    shape_a = (*batch, count(0, free_a), count(0, sum_a))
    shape_b = (*batch, count(1, sum_b), count(1, free_b))
    order_a, order_b = (*batch_a, *free_a, *sum_a), (*batch_b, *sum_b, *free_b)
    out = eqn.outvars[0].aval.shape

    def run(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        a = np.reshape(np.transpose(a, order_a), shape_a).astype(wide, copy=False)
        b = np.reshape(np.transpose(b, order_b), shape_b).astype(wide, copy=False)
        return np.reshape(np.matmul(a, b), out).astype(dtype, copy=False)

    return run


BUILDERS: dict[str, Callable[[Any], Run]] = {
    "argmax": _where(np.argmax),
    "argmin": _where(np.argmin),
    "broadcast_in_dim": _broadcast,
    "call_hi_primitive": _searchsorted,
    "concatenate": _concatenate,
    "cumlogsumexp": _cumulative(np.logaddexp.accumulate),
    "cummax": _cumulative(np.maximum.accumulate),
    "cummin": _cumulative(np.minimum.accumulate),
    "cumprod": _cumulative(np.multiply.accumulate),
    "cumsum": _cumulative(np.add.accumulate),
    "dot_general": _dot_general,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "expand_dims": _reshape,
    "iota": _iota,
    "pad": _pad,
    "reduce_and": _reduction(np.bitwise_and.reduce),
    "reduce_max": _reduction(np.maximum.reduce),
    "reduce_min": _reduction(np.minimum.reduce),
    "reduce_or": _reduction(np.bitwise_or.reduce),
    "reduce_prod": _reduction(np.multiply.reduce),
    "reduce_sum": _reduction(np.add.reduce),
    "reshape": _reshape,
    "rev": _rev,
    "slice": _slice,
    "sort": _sort,
    "split": _split,
    "squeeze": _reshape,
    "stack": _stack,
    "transpose": _transpose,
    "unstack": _unstack,
}
