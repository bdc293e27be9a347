"""The engine for expensive costs: a matrix of lower bounds, made exact where least.

Leaving out a term lowers a minimum of a sum of terms that are not negative, and costs
telescope, so that for every Bregman cost (Δ(i, j) is known, as i and j have merged)

    Δ(ij, k) ≥ max(Δ(i, k), Δ(j, k)) − Δ(i, j)
    Δ(ij, k) ≥ ½ (Δ(i, k) + Δ(j, k) − Δ(i, j))

and lower bounds may stand for Δ(i, k) and Δ(j, k). After a merge the row of the union
is filled by arithmetic on two rows, and a cost is evaluated only where its bound is the
least of all. With m = 500 points in 10 dimensions that is about 22 costs a merge.

Worked example: points 0, 1, 3, 7 on a line, Δ(a, b) = w_a w_b (a − b)² / 2 (w_a + w_b).
The matrix begins with 0.25, 2.25, 12.25; 1, 9; 4. Points 0 and 1 merge at 0.25. For
their union and 3 the bounds are max(2.25, 1) − 0.25 = 2 and ½ (2.25 + 1 − 0.25) = 1.5;
for 7 they are 12 and 10.5. The least entry is now the bound 2, so the cost is
evaluated: 2.0833, which is less than all others, and that pair merges next.

Where a model has rough costs, an entry goes from a bound to a rough cost, less what
that may be off; and to the cost only if two pairs may each be the next. With 5 ± 0.001
and 7 ± 0.001 the first pair merges at a cost of at most 5.001, whatever it is; beside
5.0005 ± 0.001 it has to be computed.
"""

import numpy as np

from bregjax._typing import PyTree
from bregjax.clusters import HostModel
from bregjax.clusters._host_model import rows_of
from bregjax.hierarchy._bounded.run import BoundedInfo, BoundedRun
from bregjax.hierarchy._interrupted import Interrupted, Report

__all__ = ["BoundedInfo", "bounded"]

# Slots are left out once less than this share is in use, and more than so many.
_SHARE, _FEW = 0.65, 32


def bounded(
    host: HostModel,
    leaves: PyTree,
    labels: np.ndarray,
    report: Report | None = None,
    *,
    apart: np.ndarray | None = None,
    num_clusters: int = 1,
    start: np.ndarray | None = None,
) -> tuple[np.ndarray, PyTree, BoundedInfo]:
    """Exact greedy agglomeration by a matrix of lower bounds.

    A cluster lives in the slot of its first leaf. Time: m²/2 costs, or bounds where the
    model has rough costs, then a few dozen a merge (hundreds where the data have no
    groups), and O(m) arithmetic for each row looked at. Memory: m² numbers and bytes.

    Ties: equal points before all others; of pairs of equal cost the one whose first
    slot is least merges first, then the one whose second slot is. NaN costs come last.
    Deterministic.

    Args:
        host: The cluster model.
        leaves: Settled states of the points, `[m, ...]`, NumPy arrays.
        labels: Numbers of points, `[m]`, equal only where points are equal and cost 0
            to merge.
        report: Is called with the number of merges made so far, from time to time.
        apart: Pairs of points that never share a cluster, whose labels are of one point
            each, `[q, 2]`; none if None.
        num_clusters: How many clusters to stop at (equal points merge regardless).
        start: The first merges, `[s, 2]`, of which nothing is reported. Unless they are
            those of a run that was stopped, equal points have no place before others.

    Returns:
        Children `[t, 2]`, int32, t = m − 1 unless it stopped early; states of all nodes
        `[m + t]`, as the search left them; and what was done.

    Raises:
        Interrupted: By Ctrl-C.
    """
    m = len(labels)
    run = BoundedRun(host, leaves, m, report if start is None else None)
    try:
        run.merge_equals(labels)
        if start is not None and not run.agrees(start):
            run = BoundedRun(host, leaves, m, None)
        run.search(apart)
        if start is not None:
            run.make(start[m - run.left :], report)
        while run.left > num_clusters:
            if not run.merge_many(run.left - num_clusters):
                pair = run.front()
                if pair is None:
                    break
                run.merge(*pair)
            if _FEW < run.left < _SHARE * run.num_slots:
                run.compact()
    except KeyboardInterrupt as stop:
        raise Interrupted(run.children[: m - run.left], m) from stop
    count = m - run.left
    return run.children[:count], rows_of(run.nodes, slice(m + count)), run.info
