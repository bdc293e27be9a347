"""The engines by name, the choice among them, and what memory they take.

An engine finds the topology of the tree, without gradients; costs, and their
derivatives, come from `replay`. "matrix" and "recompute" are pairs of pure functions,
for use inside `jit` too (`PureEngine`); the others are loops on the host around
programs.
"""

from collections.abc import Callable

from bregjax.clusters import HostModel
from bregjax.hierarchy._engine_matrix import matrix
from bregjax.hierarchy._engine_recompute import recompute
from bregjax.hierarchy._memory import available_memory
from bregjax.hierarchy._pure_engine import PureEngine

__all__ = [
    "ENGINES",
    "PURE_ENGINES",
    "check_memory",
    "engine_name",
    "fits",
    "numbers_needed",
]

PURE_ENGINES: dict[str, PureEngine] = {
    "matrix": matrix,
    "recompute": recompute,
}
ENGINES = ("mutual", "numpy", *PURE_ENGINES, "windowed", "sparse", "graph")
"""What `engine` may be in `agglomerate`, besides "auto"."""

# Up to so many points at least the matrix engine is the faster, of all families.
_FEW_POINTS = 1000
# The same where costs are solved for and a table bounds them.
_FEW_SOLVED = 300
# And where bounds take as long as costs: their matrix takes half a gigabyte then.
_FEW_UNSCREENED = 8000
# Numbers in the states of pairs and unions that a `HostModel` has at work or keeps.
_HOST_NUMBERS = 2**24

# The share of the memory there is that an engine may take.
_SHARE = 0.8

_GIB = 2**30


def engine_name(
    name: str,
    num_points: int,
    host: HostModel | None = None,
    *,
    screened: bool = True,
    traced: bool = False,
) -> str:
    """The name of an engine, "auto" resolved.

    Args:
        name: "auto" or a name in `ENGINES`.
        num_points: Number of points m.
        host: The cluster model, where its costs are solved for.
        screened: Whether lower bounds of costs are cheaper than costs.
        traced: Whether the call is inside a transformation, where no host loop runs.

    Raises:
        ValueError: If there is no such engine, it can't run inside a transformation, or
            it has no lower bounds of costs to go by.
    """
    if name not in ("auto", *ENGINES):
        raise ValueError(
            f"`engine` must be one of auto, {', '.join(ENGINES)}; got {name!r}."
        )
    if name == "graph":
        raise ValueError(
            '`engine` must not be "graph" without `connectivity`, whose engine it is. '
            'Take "auto".'
        )
    if name == "sparse":
        raise ValueError(
            '`engine` must not be "sparse" inside jit, vmap or grad, or with a mesh: '
            "it loops on the host."
        )
    if traced and name in ("windowed", "numpy", "mutual"):
        raise ValueError(
            '`engine` must be "matrix" or "recompute" inside jit, vmap or grad; got '
            f'"{name}", which loops on the host. Or call `agglomerate` outside, and '
            "`replay` on its tree inside."
        )
    bounded = host is None or host.has_screen
    if name == "windowed" and not bounded:
        raise ValueError(
            '`engine` must be "matrix", which is faster here, or "recompute" for costs '
            'that are solved for and that no table bounds; got "windowed".'
        )
    if name != "auto":
        return name
    few = _FEW_SOLVED
    if host is None:
        few = _FEW_POINTS if screened else _FEW_UNSCREENED
    return "matrix" if traced or not bounded or num_points <= few else "windowed"


def numbers_needed(
    engine: str,
    num_points: int,
    state: int,
    pair: int,
    *,
    solves: bool = False,
    share: float = 1.0,
) -> int:
    """Numbers that an engine, and the replay of its tree, hold at once, about.

    Args:
        engine: A name in `ENGINES`.
        num_points: Number of points m, with padding.
        state: Numbers in the state of one cluster.
        pair: Numbers that the cost of one pair works on.
        solves: Whether costs are solved for, see `HostModel`.
        share: Share of the clusters of "windowed" that is in this memory.
    """
    extra = _HOST_NUMBERS if solves else 0
    if engine == "windowed":
        # The leaves, the pool and two copies of it, each with room for half as many
        # unions; features, as many numbers, likewise; bounds of a block of rows. Rows
        # and leaves are whole in each process, and bounds on each device.
        dealt = share * num_points * (8 * state + pair)
        return num_points * (3 * state + 512) + int(dealt) + extra
    # Nodes, settled ones, the parts and unions of merges that costs are replayed on,
    # and one row of pairs at work.
    replayed = num_points * (10 * state + pair) + extra
    if engine == "mutual":
        # Points twice, in products' order too; blocks of bounds, of 64 rows on each of
        # eight threads, float32.
        return replayed + num_points * (4 * state + 256) + 2**23
    # Which of the lower bounds are exact takes a byte each.
    pairs = num_points**2 + (num_points**2 // 8 if solves else 0)
    return replayed if engine in ("recompute", "graph") else replayed + pairs


def fits(engine: str, num_points: int, state: int, pair: int, itemsize: int) -> bool:
    """Whether an engine fits into memory; see `check_memory`."""
    needed = numbers_needed(engine, num_points, state, pair) * itemsize
    return needed <= _SHARE * available_memory()


def check_memory(
    engine: str,
    num_points: int,
    state: int,
    pair: int,
    itemsize: int,
    *,
    solves: bool = False,
    share: float = 1.0,
) -> None:
    """Raise ValueError if an engine would not fit into memory.

    Args:
        engine: A name in `ENGINES`.
        num_points: Number of points m, with padding.
        state: Numbers in the state of one cluster.
        pair: Numbers that the cost of one pair works on.
        itemsize: Bytes of a number.
        solves: Whether costs are solved for, see `HostModel`.
        share: Share of the clusters of "windowed" that is in this memory.
    """
    bytes_of = lambda name, m: (
        numbers_needed(name, m, state, pair, solves=solves, share=share) * itemsize
    )
    available = available_memory()
    fits_in = lambda name, m: bytes_of(name, m) <= _SHARE * available
    if fits_in(engine, num_points):
        return
    needed = bytes_of(engine, num_points)
    other = (
        f' engine="windowed" needs {bytes_of("windowed", num_points) / _GIB:.1f} GiB.'
        if engine == "matrix" and not solves and fits_in("windowed", num_points)
        else ""
    )
    raise ValueError(
        f'The engine "{engine}" needs {needed / _GIB:.1f} GiB for {num_points:,} '
        f"points and {available / _GIB:.1f} GiB are there: up to "
        f"{_most(lambda m: fits_in(engine, m), num_points):,} points fit.{other} Merge "
        "duplicates into weights, cluster a sample, or take a family with fewer "
        "numbers a cluster."
    )


def _most(fits: Callable[[int], bool], too_many: int) -> int:
    """The most points that fit, by bisection."""
    low, high = 0, too_many
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
