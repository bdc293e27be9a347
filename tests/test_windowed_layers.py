"""The windowed engine's layers: what each may import, and windows by themselves."""

import numpy as np
import pytest
from cost_table import (
    CostTable,
    gaussian_cost,
    of_counts,
    of_gaussians,
    poisson_cost,
)
from hostile_cases import leaves_of
from test_architecture import PACKAGE, imports

from bregjax.hierarchy._windowed.store.query import pairs_among, pairs_within
from bregjax.hierarchy._windowed.store.store import Store
from bregjax.hierarchy._windowed.windows.lives import Lives
from bregjax.hierarchy._windowed.windows.pace import Pace
from bregjax.hierarchy._windowed.windows.window import Ending, merge_window

HOME = "bregjax.hierarchy._windowed"
# A layer imports from itself and those before it; fallbacks see the first two.
BEFORE = {
    "store": set(),
    "neighbours": {"store"},
    "windows": set(),
    "fallbacks": {"store", "neighbours"},
}
LAYERS = sorted((PACKAGE / "hierarchy" / "_windowed").glob("*/*.py"))


def test_every_file_is_in_a_layer():
    assert {path.parent.name for path in LAYERS} == set(BEFORE)
    alone = (PACKAGE / "hierarchy" / "_windowed").glob("*.py")
    assert [path.name for path in alone] == ["__init__.py"]


@pytest.mark.parametrize("path", LAYERS, ids=lambda p: f"{p.parent.name}.{p.stem}")
def test_layers_import_downwards(path):
    layer = path.parent.name
    for name in imports(path):
        if name.startswith(HOME + "."):
            other = name.removeprefix(HOME + ".").split(".")[0]
            assert other == layer or other in BEFORE[layer], name
        if layer == "windows":
            assert name.split(".")[0] in {"bregjax", "collections", "dataclasses"} | {
                "enum",
                "heapq",
                "numpy",
                "typing",
            }
            assert not name.startswith("bregjax") or name.startswith(HOME)
        if layer == "neighbours":
            assert name.split(".")[0] != "jax"


# --- Windows, on a table of costs -----------------------------------------------------


def greedy(clusters, threshold):
    """Members of the unions that one merge at a time makes up to a threshold."""
    made = []
    while np.count_nonzero(clusters.alive) > 1:
        slots, nearest, cost = clusters.nearest()
        row = np.argmin(cost)
        if cost[row] > threshold:
            break
        union = clusters.merge(slots[[row]], nearest[[row]], threshold)
        made.append(clusters.members[union[0]])
    return made


def gaussians(rng, m, dim):
    """Gaussians of any weight and width: of all costs the least reducible."""
    weight = rng.integers(1, 30, m).astype(float)
    variance = np.exp(2 * rng.normal(size=(m, dim)) - 2)
    return of_gaussians(weight, 3 * rng.normal(size=(m, dim)), variance)


def test_what_a_window_keeps_is_greedy_s():
    verdicts = {Ending.GREEDY: 0, Ending.IN_PART: 0}
    late = some = 0
    for seed in range(120):
        sums = gaussians(np.random.default_rng(seed), 48, 1 + seed % 4)
        clusters = CostTable(sums, gaussian_cost)
        threshold = np.quantile(clusters.nearest()[2], 0.8)
        expected = greedy(CostTable(sums, gaussian_cost), threshold)
        window = merge_window(clusters, threshold)
        verdicts[window.ending] += 1
        kept = [clusters.members[union] for union in window.merges.union]
        if window.ending is Ending.GREEDY:
            assert kept == expected
            late += np.any(np.diff(window.merges.cost) < 0)
            continue
        assert 0 < len(kept) < window.tried
        assert kept == expected[: len(kept)]
        some += len(kept) > 3
        # The clusters are those after these merges, and go on as greedy does.
        assert np.count_nonzero(clusters.alive) == 48 - len(kept)
        assert greedy(clusters, threshold) == expected[len(kept) :]
    assert verdicts[Ending.GREEDY] > 50
    assert verdicts[Ending.IN_PART] > 5
    assert late > 5
    assert some > 3


@pytest.mark.parametrize("seed", range(6))
def test_the_first_step_after_a_pair(seed):
    rng = np.random.default_rng(seed)
    w = int(rng.integers(1, 12))
    cost = rng.integers(0, 5, w).astype(float)
    key = rng.integers(0, 3, w).astype(np.uint32)
    nothing = np.zeros(0, int)
    lives = Lives.of(nothing, nothing, cost, key)
    begin, end = rng.integers(0, w + 2, (2, 60))
    pair = rng.integers(0, 5, 60) + rng.choice([0, 0.5], 60)
    pair_key = rng.integers(0, 3, 60).astype(np.uint32)
    found = lives.first_after(begin, end, pair, pair_key)
    for k in range(60):
        steps = [
            step
            for step in range(begin[k] + 1, min(end[k], w) + 1)
            if (cost[step - 1], key[step - 1]) > (pair[k], pair_key[k])
        ]
        assert found[k] == (steps[0] if steps else w + 1)


def test_a_threshold_below_all_costs_makes_nothing():
    window = merge_window(
        CostTable(of_counts(np.array([[1.0], [2.0]])), poisson_cost), 1e-9
    )
    assert window.ending is Ending.EMPTY
    assert window.rounds == 0


def test_without_room_nothing_is_made():
    clusters = CostTable(of_counts(np.arange(1.0, 9.0)[:, None]), poisson_cost)
    clusters.members += [frozenset()] * 7
    window = merge_window(clusters, 1.0)
    assert window.ending is Ending.NO_ROOM
    assert len(clusters.members) == 15
    assert np.count_nonzero(clusters.alive) == 8


def test_the_pace_falls_with_failures_and_recovers():
    pace = Pace(reducible=False)
    first = pace.share
    pace.stepped_back(100)
    assert pace.share < first
    assert pace.singly == 8
    pace.stepped_back(10)
    assert pace.singly == 16
    for _ in range(40):
        pace.greedy()
    assert pace.share > first
    assert pace.before_next(1000) == 0
    pace.inverting = True
    assert pace.before_next(1000) == 0
    assert pace.before_next(50) == 64
    assert not pace.is_costly(1000, 5000)
    pace.undone(5000, np.dtype(np.float32))
    assert pace.is_costly(1000, 5000)
    patient = Pace(reducible=False, expensive=True)
    for rows, costly in ((1000, False), (200, True)):
        patient.undone(rows, np.dtype(np.float32))
        assert patient.is_costly(1000, rows) == costly


# --- The query ------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["ward", "poisson"])
def test_the_query_gives_all_pairs_within_and_no_other(family, x64, rng):
    m, count = 300, 150
    x = rng.poisson(4, (m, 4)) + rng.random((m, 4))
    model, leaves = leaves_of(x, family)
    store = Store(model, model.screen(leaves), leaves, m)
    rows = rng.permutation(m)[:count]
    among = (np.arange(store.capacity) < m) & (rng.random(store.capacity) < 0.8)
    cost = np.full((count, m), np.inf)
    row, other = (v.ravel() for v in np.indices((count, m)))
    valid = among[other] & (other != rows[row])
    cost[row[valid], other[valid]] = store.costs(rows[row[valid]], other[valid])
    limit = np.quantile(cost, 0.1, axis=1)
    slots = rng.permutation(np.union1d(np.flatnonzero(among), rows))
    closer = lambda u, v: np.where((u + v) % 3 == 0, -np.inf, np.median(limit) / 2)
    for limit_of in (None, closer):
        most = np.broadcast_to(limit[:, None], cost.shape)
        if limit_of is not None:
            most = closer(rows[:, None], np.arange(m)[None])
            limit = np.maximum(limit, np.median(limit) / 2)
        expected = {(rows[i], j): cost[i, j] for i, j in np.argwhere(cost <= most)}
        for found in (
            pairs_within(store, rows, among, limit, limit_of),
            pairs_within(store, rows, lambda _: among, limit, limit_of),
            pairs_among(store, slots, rows, among, limit, limit_of),
        ):
            parts = [np.concatenate(values) for values in zip(*found, strict=True)]
            pairs = list(zip(*parts[:2], strict=True))
            assert len(pairs) == len(set(pairs))
            assert dict(zip(pairs, parts[2], strict=True)) == expected
