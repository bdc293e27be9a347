"""The tables of `docs/windowed.md`, made again by the engine's parts."""

from pathlib import Path

import numpy as np
import pytest
from cost_table import CostTable, gaussian_cost, of_counts, of_gaussians, poisson_cost
from hostile_cases import leaves_of

from bregjax.hierarchy._windowed.neighbours.neighbours import Neighbours
from bregjax.hierarchy._windowed.store.store import Store
from bregjax.hierarchy._windowed.windows.lives import Lives
from bregjax.hierarchy._windowed.windows.pace import Pace
from bregjax.hierarchy._windowed.windows.schedule import WindowMerges, schedule
from bregjax.hierarchy._windowed.windows.window import Ending, _by_rounds, merge_window

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "windowed.md").read_text("utf-8")
X = np.array([[10, 5], [3, 0], [14, 8], [2, 12], [10, 10], [0, 10], [1, 5], [13, 5.0]])
NAMES = "ABCDEFGH"


def table(*columns):
    """A table of columns, each a heading and cells."""
    rows = list(zip(*columns, strict=True))
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(columns), *lines[1:]])


def three(values):
    return [f"{value:.3f}" for value in values]


@pytest.fixture
def clusters(x64):
    store = Store(*_model_screen_leaves(), 8)
    found = Neighbours.of(store)
    found.search()
    return found


def _model_screen_leaves():
    model, leaves = leaves_of(X, "poisson", smoothing=None)
    return model, model.screen(leaves), leaves


def names_of(merges, size):
    """The members of every slot, in a word."""
    words = dict(enumerate(NAMES[:size]))
    for first, second, union in sorted(
        zip(*merges[:3], strict=True), key=lambda m: m[2]
    ):
        words[union] = "".join(sorted(words[first] + words[second]))
    return words


def the_threshold(clusters):
    bounds = np.sort(clusters.bound[clusters.active])
    return bounds[int(Pace(reducible=False).share * len(bounds))]


def lives_of(merges, size):
    step = np.arange(1, len(merges.cost) + 1)
    birth, death = np.zeros(2 * size, int), np.full(2 * size, len(step) + 1)
    birth[merges.union] = step
    death[merges.first] = death[merges.second] = step
    return Lives.of(birth, death, merges.cost, merges.key)


def test_the_nearest(clusters):
    cost = clusters.near.bound[:2, :8]
    slot = clusters.near.slot[:2, :8]
    assert np.all(clusters.near.exact[:2, :8])
    named = [
        [f"{NAMES[s]} {c:.3f}" for s, c in zip(*level, strict=True)]
        for level in zip(slot, cost, strict=True)
    ]
    counts = [f"{int(a)}, {int(b)}" for a, b in X]
    shown = table(
        ["point", *NAMES],
        ["counts", *counts],
        ["nearest", *named[0]],
        ["next", *named[1]],
    )
    assert shown in PAGE, shown


def test_the_bounds_of_one_row(clusters):
    among = np.arange(clusters.store.capacity) < 8
    row = NAMES.index("G")
    (block,) = clusters.store.screened([(np.array([row]), among)])
    others = [k for k in range(8) if k != row]
    cost = clusters.store.costs(np.full(7, row), np.array(others))
    low = block.by_row[0, 0, others]
    assert np.all(low <= cost)
    shown = table(
        ["G with", *[NAMES[k] for k in others]],
        ["lower bound", *three(low)],
        ["cost", *three(cost)],
    )
    assert shown in PAGE, shown


@pytest.mark.parametrize("kind", ["engine", "table"])
def test_the_window(kind, clusters):
    threshold = the_threshold(clusters)
    assert f"fifth least bound, {threshold:.3f}" in PAGE
    if kind == "table":
        clusters = CostTable(of_counts(X), poisson_cost)
    window = merge_window(clusters, threshold + 1e-9)
    assert window.ending is Ending.GREEDY
    merges, words = window.merges, names_of(window.merges, 8)
    order = np.argsort(merges.union)
    pairs = [
        f"{words[u]} + {words[v]}"
        for u, v in zip(merges.first, merges.second, strict=True)
    ]
    shown = table(
        ["round", *(str(r) for r in merges.round[order])],
        ["merge", *(pairs[k] for k in order)],
        ["cost", *(f"{c:.4f}" for c in merges.cost[order])],
    )
    assert shown in PAGE, shown
    lives = lives_of(merges, 8)
    own = np.arange(len(pairs)) + 1
    parts = np.stack([merges.first, merges.second])
    greatest = np.max([lives.limit(part) for part in parts], axis=0)
    late = ["late" if g > c else "" for g, c in zip(greatest, merges.cost, strict=True)]
    assert late.count("late") == 1
    shown = table(
        ["step", *map(str, own)],
        ["merge", *pairs],
        ["cost", *(f"{c:.4f}" for c in merges.cost)],
        ["greatest cost in its parts' lives", *(f"{g:.4f}" for g in greatest)],
        ["", *late],
    )
    assert shown in PAGE, shown


def test_the_late_part_against_all(clusters):
    window = merge_window(clusters, the_threshold(clusters) + 1e-9)
    words, row = names_of(window.merges, 8), NAMES.index("G")
    lives = lives_of(window.merges, 8)
    others = np.array([k for k in words if k != row and "G" not in words[k]])
    others = others[words_order(others, words)]
    partner = next(k for k in others if words[k] == "DF")
    others = others[others != partner]
    cost = clusters.store.costs(np.full(len(others), row), others)
    end = np.minimum(lives.death[row], lives.death[others])
    rank = lives.rank(np.maximum(lives.birth[row], lives.birth[others]), end)
    limit = lives.cost[rank]
    assert np.all(cost > limit)
    among = np.isin(np.arange(clusters.store.capacity), others)
    (block,) = clusters.store.screened([(np.array([row]), among)])
    _, column = block.pairs_within(lives.limit(np.array([row])))
    assert [words[k] for k in column] == ["F"]
    shown = table(
        ["G with", *(words[k] for k in others)],
        ["cost", *three(cost)],
        ["greatest while both live", *three(limit)],
    )
    assert shown in PAGE, shown


def words_order(others, words):
    return sorted(
        range(len(others)), key=lambda k: (len(words[others[k]]), words[others[k]])
    )


def test_a_window_that_is_kept_in_part():
    weight = np.array([10.0, 2, 3, 11, 23, 14])
    mean = np.array([0.1089, -4.1841, 4.5027, 2.6587, 1.7901, 1.6101])
    variance = np.array([0.3238, 0.0330, 0.0138, 0.1514, 0.2213, 0.0557])
    sums = of_gaussians(weight, mean[:, None], variance[:, None])
    names = "ABUVYZ"
    clusters = CostTable(sums, gaussian_cost)
    before = clusters.snapshot()
    tried = tried_merges(clusters, 15.31)
    words = dict(enumerate(names))
    for first, second, union in sorted(
        zip(*tried[:3], strict=True), key=lambda m: m[2]
    ):
        words[union] = "".join(sorted(words[first] + words[second]))
    made = [
        f"{words[u]} + {words[v]}"
        for u, v in zip(tried.first, tried.second, strict=True)
    ]
    shown = table(
        ["step", *map(str, range(1, len(made) + 1))],
        ["merge", *made],
        ["cost", *three(tried.cost)],
    )
    assert shown in PAGE, shown
    u, v = (np.array([names.index(k)]) for k in "UV")
    intruder = clusters.costs(u, v)[0]
    assert f"U with V costs {intruder:.3f}" in PAGE
    assert tried.cost[0] < intruder < tried.cost[1]
    clusters.restore(before)
    window = merge_window(clusters, 15.31)
    assert window.ending is Ending.IN_PART
    assert window.tried == 3
    assert np.array_equal(window.merges.cost, tried.cost[:1])


def tried_merges(clusters, threshold):
    """What a window's rounds merge, in the order of its schedule."""
    _, rounds = _by_rounds(clusters, threshold, limited=True)
    merges = WindowMerges.joined(rounds)
    return merges.ordered(schedule(merges))
