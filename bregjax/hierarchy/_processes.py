"""Several processes that share a mesh: what they agree about, and how they stop.

Each runs the same loop on its host and decides by the same numbers, so that all call
the same programs in the same order. A process whose arguments differ, or that leaves
the loop alone, has the others wait for it forever.
"""

import contextlib
import functools
import hashlib
import signal
import threading
import zlib
from collections.abc import Iterator

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from bregjax._problem import Problem
from bregjax._sparse_rows import SparseRows
from bregjax._typing import Array, PyTree
from bregjax.hierarchy._dendrogram import Dendrogram
from bregjax.hierarchy._interrupted import Report
from bregjax.hierarchy._windowed.store.placement import Placement

__all__ = [
    "check_same_arguments",
    "failing_together",
    "shows_progress",
    "stopping_together",
]


def check_same_arguments(
    mesh: Mesh | None,
    problem: Problem,
    start: Dendrogram | None,
    **options: object,
) -> None:
    """Raise ValueError in all processes of a mesh unless all call with the same.

    Args:
        mesh: Shared by processes, or not.
        problem: Known.
        start: The forest to begin with.
        **options: What else must be the same, as its repr shows it.

    Raises:
        ValueError: If this process has no device of the mesh, too.
    """
    if mesh is None or not Placement(mesh).spans_processes:
        return
    _check_takes_part(mesh)
    wide = jax.config.jax_enable_x64  # pyright: ignore[reportAttributeAccessIssue]
    parts = {
        "x": problem.x,
        "weights": problem.weights,
        "family": (type(problem.family).__name__, problem.family),
        "smoothing": (type(problem.smoothing).__name__, problem.smoothing),
        "start": "None" if start is None else start.children,
        "jax_enable_x64": repr(wide),
    } | {name: repr(option) for name, option in options.items()}
    digests = np.array([_digest(part) for part in parts.values()], np.uint32)
    shape = problem.num_points, problem.x.size // problem.num_points
    table = _gathered(mesh, np.append(shape, digests.ravel()))
    other = np.any(table != table[0], axis=1)
    if not other.any():
        return
    # All processes see the same table, and go on in the same way.
    device, processes = int(np.argmax(other)), _processes(mesh)
    unlike = table[0] != table[device]
    who = f"all processes of `mesh`; processes {processes[0]} and {processes[device]}"
    if unlike[:2].any():
        shapes = [f"{m:,} × {d}" for m, d in table[[0, device], :2]]
        raise ValueError(
            f"`x` must be the same in {who} have {shapes[0]} and {shapes[1]} numbers. "
            f"{_REMEDY}"
        )
    name = list(parts)[int(np.argmax(unlike[2::2] | unlike[3::2]))]
    if name in ("x", "weights"):
        where = _first_other_row(mesh, parts[name])
        raise ValueError(
            f"`{name}` must be the same in {who} differ {where}. {_REMEDY}"
        )
    shown = f"{start.num_merges} merges" if name == "start" and start else parts[name]
    shown = shown[1] if isinstance(shown, tuple) else shown
    raise ValueError(
        f"`{name}` must be the same in {who} differ, and process {jax.process_index()} "
        f"has {shown}. Make the same call in each process."
    )


_REMEDY = (
    "Pass the whole data in each process, read or drawn in the same way: the devices "
    "take their shares of the clusters."
)


def _check_takes_part(mesh: Mesh) -> None:
    me, processes = jax.process_index(), _processes(mesh)
    if me not in processes:
        raise ValueError(
            f"`mesh` must have a device of each process that calls; process {me} has "
            f"none, and processes {sorted(set(processes))} have all {mesh.size}. Take "
            "a mesh of jax.devices(), or call in those processes alone."
        )


def _processes(mesh: Mesh) -> list[int]:
    """The process of each device."""
    return [device.process_index for device in mesh.devices.flat]


def _digest(part: PyTree) -> np.ndarray:
    """Two words that tell arguments apart."""
    digest = hashlib.blake2b(digest_size=8)
    for leaf in jax.tree.leaves(part):
        if isinstance(leaf, str):
            digest.update(leaf.encode())
        else:
            digest.update(np.ascontiguousarray(leaf).data)
    return np.frombuffer(digest.digest(), np.uint32)


def _first_other_row(mesh: Mesh, rows: PyTree) -> str:
    """Where rows are not the same, in words; called in all processes."""
    if isinstance(rows, SparseRows):
        return "in their entries"
    rows = np.asarray(rows)
    table = _gathered(mesh, np.array([zlib.crc32(row.tobytes()) for row in rows]))
    row = int(np.argmax(np.any(table != table[0], axis=0)))
    shown = np.array2string(rows[row], threshold=8, edgeitems=3)
    return f"from row {row} on, which is {shown} in process {jax.process_index()}"


@contextlib.contextmanager
def failing_together(mesh: Mesh | None) -> Iterator[None]:
    """Have an error in one process raise ValueError in the others of a mesh."""
    if mesh is None or not Placement(mesh).spans_processes:
        yield
        return
    failed = True
    try:
        yield
        failed = False
    finally:
        # An error on its way goes on from here.
        table = _gathered(mesh, np.array([failed]))[:, 0]
    if table.any():
        process = _processes(mesh)[int(np.argmax(table))]
        raise ValueError(
            f"`mesh` is shared with process {process}, where `agglomerate` raised an "
            "error, so that it can't go on here. See what that process says."
        )


@contextlib.contextmanager
def stopping_together(
    mesh: Mesh | None, report: Report | None
) -> Iterator[Report | None]:
    """Have Ctrl-C in one process stop all after the same merge.

    A process that it reaches goes on until the engine next reports, where all say
    whether it has reached them. Pressed again it stops that process at once, and alone.

    Args:
        mesh: Shared by processes, or not.
        report: Called with the number of merges made so far.

    Yields:
        What an engine calls in place of `report`; itself where none is shared.
    """
    if mesh is None or not Placement(mesh).spans_processes:
        yield report
        return
    pressed = False

    def note(number: int, frame: object) -> None:
        nonlocal pressed
        if pressed:
            signal.default_int_handler(number, None)
        pressed = True

    def told(made: int) -> None:
        if report is not None:
            report(made)
        if _gathered(mesh, np.array([pressed])).any():
            raise KeyboardInterrupt

    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not usual or threading.current_thread() is not threading.main_thread():
        yield told
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield told
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if pressed:
        raise KeyboardInterrupt


def shows_progress(mesh: Mesh | None) -> bool:
    """Whether this process shows a bar: of those that share a mesh the first does."""
    return mesh is None or _processes(mesh)[0] == jax.process_index()


def _gathered(mesh: Mesh, words: np.ndarray) -> np.ndarray:
    """The words of the process of each device, `[p, n]`; called in all processes."""
    mine = words.astype(np.uint32)[None]
    rows = NamedSharding(mesh, PartitionSpec(mesh.axis_names))
    shape = mesh.size, len(words)
    all_ = jax.make_array_from_callback(shape, rows, lambda _: mine)
    return np.asarray(_everywhere(all_, Placement(mesh)))


@functools.partial(jax.jit, static_argnames="placement")
def _everywhere(values: Array, placement: Placement) -> Array:
    """What each device holds, on all devices."""
    collect = placement.spread(
        lambda mine, _: placement.collect(mine[0]), shared=1, result="same"
    )
    return collect(values, ())
