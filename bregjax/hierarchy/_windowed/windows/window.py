"""A window: merges by rounds up to a threshold, kept if they are what greedy makes."""

import enum
from typing import NamedTuple

import numpy as np

from bregjax.hierarchy._windowed.windows.check import least_intruder
from bregjax.hierarchy._windowed.windows.clusters import LivingClusters
from bregjax.hierarchy._windowed.windows.schedule import WindowMerges, schedule

__all__ = ["Ending", "Window", "merge_window"]

# A window of more rounds is given up: unions come ever nearer to the rest, which one
# merge at a time makes in less time. Windows that were greedy's took up to 7 at 10,000
# rows. On the three sets of `pace` half takes 1.0, 0.8 and 0.9 of the time, double 1.0,
# 1.4 and 1.0.
_MANY_ROUNDS = 24


class Ending(enum.Enum):
    """What became of a window: only what is greedy's, or nothing, is kept."""

    GREEDY = "its merges are those that greedy makes"
    NOT_GREEDY = "greedy would have merged otherwise; undone"
    NO_ROOM = "there was no room for its unions; undone"
    LONG = "its rounds did not end; undone"
    EMPTY = "no pair was within the threshold"


class Window(NamedTuple):
    """A window of merges.

    Attributes:
        ending: What became of it.
        merges: Its merges, in the order that greedy makes them if they are greedy's.
        rounds: How many rounds it took.
        intruder: Least cost of a pair that comes before a step at which it lives.
    """

    ending: Ending
    merges: WindowMerges
    rounds: int
    intruder: float = np.inf


def merge_window(
    clusters: LivingClusters, threshold: float, *, reducible: bool = False
) -> Window:
    """Merge all that greedy merges before its least cost exceeds a threshold.

    If the rounds' merges are not greedy's, the clusters are restored instead.

    Args:
        clusters: The living clusters.
        threshold: Up to which cost to merge.
        reducible: Whether costs are, so that merges need no check.
    """
    before = clusters.snapshot()
    ending, rounds = _by_rounds(clusters, threshold, limited=not reducible)
    merges, intruder = WindowMerges.joined([WindowMerges.none(), *rounds]), np.inf
    if ending is Ending.GREEDY:
        merges = merges.ordered(schedule(merges))
        intruder = np.inf if reducible else least_intruder(merges, clusters)
        ending = ending if intruder == np.inf else Ending.NOT_GREEDY
    if ending not in (Ending.GREEDY, Ending.EMPTY):
        clusters.restore(before)
    return Window(ending, merges, len(rounds), intruder)


def _by_rounds(
    clusters: LivingClusters, threshold: float, *, limited: bool
) -> tuple[Ending, list[WindowMerges]]:
    """Merge round by round all pairs within a threshold, each the other's nearest.

    The ending is GREEDY, subject to the check, if no pair within it is left.
    """
    rounds: list[WindowMerges] = []
    while True:
        clusters.refresh(threshold)
        first, second, cost, key, mutual = clusters.mutual(threshold)
        if not len(first):
            return Ending.GREEDY if rounds else Ending.EMPTY, rounds
        if limited and len(rounds) > _MANY_ROUNDS:
            return Ending.LONG, rounds
        if len(first) > clusters.room:
            return Ending.NO_ROOM, rounds
        union = clusters.merge(first, second, threshold)
        which = np.full(len(union), len(rounds) + 1)
        rounds.append(WindowMerges(first, second, union, cost, key, which, mutual))
