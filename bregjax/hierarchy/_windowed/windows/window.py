"""A window: merges by rounds up to a threshold, kept if they are what greedy makes."""

import enum
from typing import NamedTuple

import numpy as np

from bregjax.hierarchy._windowed.windows.check import num_greedy
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
    IN_PART = "its first merges are, and kept; greedy would have gone on otherwise"
    NO_ROOM = "there was no room for its unions; undone"
    LONG = "its rounds did not end; undone"
    EMPTY = "no pair was within the threshold"


class Window(NamedTuple):
    """A window of merges.

    Attributes:
        ending: What became of it.
        merges: The merges that are kept, in the order that greedy makes them.
        tried: How many merges it tried.
        rounds: How many rounds these took.
    """

    ending: Ending
    merges: WindowMerges
    tried: int
    rounds: int


def merge_window(
    clusters: LivingClusters, threshold: float, *, reducible: bool = False
) -> Window:
    """Merge all that greedy merges before its least cost exceeds a threshold.

    Of the rounds' merges those are kept that are greedy's, up to the first that is not;
    the clusters are restored to those before it.

    Args:
        clusters: The living clusters.
        threshold: Up to which cost to merge.
        reducible: Whether costs are, so that merges need no check.
    """
    before = clusters.snapshot()
    ending, rounds = _by_rounds(clusters, threshold, limited=not reducible)
    merges = WindowMerges.joined([WindowMerges.none(), *rounds])
    tried = len(merges.cost)
    if ending is Ending.GREEDY:
        merges = merges.ordered(schedule(merges))
        kept = tried if reducible else num_greedy(merges, clusters)
        if kept < tried:
            clusters.restore(before)
            merges = _made_again(clusters, merges.first_ones(kept))
            ending = Ending.IN_PART
    elif rounds:
        clusters.restore(before)
        merges = WindowMerges.none()
    return Window(ending, merges, tried, len(rounds))


def _made_again(clusters: LivingClusters, merges: WindowMerges) -> WindowMerges:
    """Make merges again that were undone, in rounds; return them with their slots."""
    # Where each slot's cluster lies now; −1 until it is made.
    now = np.arange(np.max(merges.union, initial=-1) + 1)
    now[merges.union] = -1
    parts = np.stack([merges.first, merges.second])
    left = np.arange(len(merges.cost))
    while len(left):
        ready = np.all(now[parts[:, left]] >= 0, axis=0)
        first, second = now[parts[:, left[ready]]]
        now[merges.union[left[ready]]] = clusters.merge(first, second, -np.inf)
        left = left[~ready]
    first, second = now[parts]
    return merges._replace(first=first, second=second, union=now[merges.union])


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
