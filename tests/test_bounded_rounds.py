"""Many merges at a time: only those that one at a time would make, in that order."""

import itertools
from typing import Any

import jax
import numpy as np
import pytest

import bregjax as bj
from bregjax._evaluation import working
from bregjax.clusters._closed_host import ClosedHost
from bregjax.clusters._gaussian_host import GaussianHost
from bregjax.clusters._moments import Moments
from bregjax.clusters._rough_costs import RoughCosts
from bregjax.hierarchy._bounded import rounds as rounds_module
from bregjax.hierarchy._bounded.bound_matrix import (
    BOUND,
    COST,
    ROUGH,
    BoundMatrix,
    telescoped,
    telescoped_rows,
)
from bregjax.hierarchy._bounded.rounds import Rounds
from bregjax.hierarchy._bounded.run import BoundedRun
from bregjax.hierarchy._bounded.speculation import Speculation
from bregjax.hierarchy._engine_bounded import bounded
from bregjax.hierarchy._host_costs import closed_host, host_leaves


class AnyCosts(RoughCosts):
    """Sets of points that cost what `cost` says: no law relates one to another.

    Rough costs are off by up to `error`, bounds are any share of costs.
    """

    room = 8

    def __init__(self, m, seed, error):
        self.sets = [frozenset([k]) for k in range(m)] + [frozenset()] * self.room
        self.size, self.seed, self.error = m, seed, error

    def cost(self, a, b):
        """Dearer for larger sets, mostly."""
        union = hash((self.seed, tuple(sorted(a | b)), len(a) * len(b)))
        rng = np.random.default_rng(union % 2**32)
        return len(a | b) * rng.uniform(0.4, 1.0)

    def _share(self, a, b):
        return np.random.default_rng(hash((a, b)) % 2**32).uniform(0.3, 1.0)

    def first_bounds(self):
        bounds = np.zeros((self.size, self.size))
        for i, j in itertools.combinations(range(self.size), 2):
            cost = self.cost(self.sets[i], self.sets[j])
            bounds[i, j] = bounds[j, i] = cost * self._share(i, j)
        return bounds, np.inf

    def costs(self, low, high):
        pairs = [(self.sets[i], self.sets[j]) for i, j in zip(low, high, strict=True)]
        costs = np.array([self.cost(a, b) for a, b in pairs])
        off = np.array([self._share(a | b, 1) for a, b in pairs]) - 0.5
        return costs + self.error * off, np.full(len(costs), self.error)

    def unite(self, low, high):
        for k, (i, j) in enumerate(zip(low, high, strict=True)):
            self.sets[self.size + k] = self.sets[i] | self.sets[j]
        return np.arange(self.size, self.size + len(low))

    def take(self, slots):
        for k, slot in enumerate(slots):
            self.sets[slot] = self.sets[self.size + k]

    def raise_bounds(self, unions, others, limit, out):
        for row, union in enumerate(range(unions.start, unions.stop)):
            a = self.sets[self.size + union]
            for column, other in enumerate(range(others.start, others.stop)):
                b = self.sets[other]
                bound = self.cost(a, b) * self._share(a | b, len(a) * len(b))
                if not a & b and out[row, column] < min(limit[row, column], bound):
                    out[row, column] = bound

    def keep(self, slots):
        raise NotImplementedError

    def pool(self, a, b):
        raise NotImplementedError


def one_at_a_time(model, m):
    """Merges of sets, the cheapest pair of all each time; None where two tie."""
    sets, merges = [frozenset([k]) for k in range(m)], []
    while len(sets) > 1:
        pairs = [(a, b) for k, a in enumerate(sets) for b in sets[:k]]
        costs = np.array([model.cost(a, b) for a, b in pairs])
        a, b = pairs[int(np.argmin(costs))]
        merges.append(frozenset([a, b]))
        sets = [c for c in sets if c not in (a, b)] + [a | b]
    return merges


@pytest.mark.parametrize("error", [1e-12, 3e-3, 0.01])
@pytest.mark.parametrize("seed", range(6))
def test_rounds_make_the_merges_of_one_at_a_time(seed, error, monkeypatch):
    """Costs know no law, so that a union often comes before what is next without it."""
    monkeypatch.setattr(
        rounds_module,
        "telescoped_rows",
        lambda a, b, _: np.where(a + b < np.inf, 0, a + b),
    )
    m = 40
    model = AnyCosts(m, seed, error)
    expected = one_at_a_time(model, m)
    pairs = BoundMatrix(model.first_bounds()[0], BOUND)
    pairs.look(np.arange(m))
    rounds, merges, many = Rounds(model, pairs), [], 0
    while len(merges) < m - 1:
        found = rounds.find(m - 1 - len(merges))
        if found is None:
            # One that is certain, found by force.
            first, second = expected[len(merges)]
            low, high = sorted((model.sets.index(first), model.sets.index(second)))
            found = Speculation(np.array([low]), np.array([high]), np.zeros(1), m)
            model.unite(found.low, found.high)
            parts = pairs.rows(np.array([low, high]))
            found.bound[0, parts.sum(axis=0) == np.inf] = np.inf
            found.between[0] = np.inf
        else:
            many += len(found.low)
        for low, high in zip(found.low, found.high, strict=True):
            assert low < high
            merges.append(frozenset([model.sets[low], model.sets[high]]))
        model.take(found.low)
        pairs.join(found.low, found.high, *found.rows())
    assert merges == expected
    assert many > (30 if error < 1e-3 else 0)
    assert rounds.evaluated > 0


@pytest.mark.parametrize(("cost", "left"), [(2.5, 2), (3.5, 3), (1.2, 1), (0.5, 1)])
def test_the_worked_example(cost, left):
    """A union at 1.5 or more from a point that merges third, at 3."""

    class OneCost(AnyCosts):
        def costs(self, low, high):
            np.testing.assert_array_equal([low, high], [[6], [4]])
            return np.array([cost]), np.array([1e-9])

    model = OneCost(6, 0, 0)
    low, high = np.array([[0, 2, 4], [1, 3, 5]])
    found = Speculation(low, high, np.array([1.0, 2.0, 3.0]), 6)
    found.bound[:] = 10
    found.bound[0, 4] = min(cost, 1.5)
    # Of a point that has merged, and of one that merges before.
    found.bound[0, [0, 2]], found.bound[2, 2] = 0.1, 0.1
    found.bound[0, 2] = 2.5
    found.between[:] = 10
    assert found.decide(model) == 1
    assert len(found.low) == len(found.bound) == left


TABLES = {
    "one cloud": lambda rng: rng.normal(size=(150, 5)),
    "groups": lambda rng: (
        rng.normal(size=(200, 3)) + 6 * rng.integers(4, size=(200, 1))
    ),
    "heavy tails": lambda rng: rng.standard_t(1.5, size=(150, 2)),
    "line": lambda rng: rng.normal(size=(120, 1)),
    "half a grid": lambda rng: np.round(rng.normal(size=(120, 2)), 1),
}


@pytest.mark.parametrize("name", TABLES)
def test_trees_of_gaussians_are_those_of_one_at_a_time(name, rng, monkeypatch):
    x = TABLES[name](rng)
    weights = rng.gamma(0.5, size=len(x)) + 1e-3
    smoothing = bj.blur(0.2 * np.std(x, axis=0))
    problem = bj.Problem(x, family="gaussian", weights=weights, smoothing=smoothing)
    rounds = []
    many = BoundedRun.merge_many

    def noted(run, most):
        before = run.left
        found = many(run, most)
        rounds.append(before - run.left)
        return found

    with working(problem) as copy:
        host = closed_host(copy.family.cluster_model())
        leaves = host_leaves(host, copy)
        labels = np.arange(len(x))
        monkeypatch.setattr(BoundedRun, "merge_many", noted)
        tree = bounded(host, leaves, labels)[0]
        monkeypatch.setattr(BoundedRun, "merge_many", lambda run, most: False)
        np.testing.assert_array_equal(tree, bounded(host, leaves, labels)[0])
    assert max(rounds) > 5
    assert sum(rounds) > len(x) // 2


def test_bounds_of_many_unions_are_those_of_each(rng):
    a, b = rng.gamma(1.0, size=(2, 5, 40))
    a[:, 3], b[:, 4] = np.inf, np.inf
    cost = rng.gamma(0.3, size=5)
    each = [telescoped(*rows, np.zeros(40)) for rows in zip(a, b, cost, strict=True)]
    found = np.maximum(telescoped_rows(a.copy(), b, cost[:, None]), 0)
    np.testing.assert_allclose(found, each, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("apart", [1.0, 1e-7, 0.0])
@pytest.mark.parametrize("dim", [1, 3, 21])
def test_gaussians_on_the_host_cost_what_the_model_says(dim, apart, rng):
    """Digits too: clusters that differ by 1e-7 cost about 1e-14."""
    count = 30
    factor = rng.normal(size=(dim, dim)) + 2 * np.eye(dim)
    shift = apart * rng.normal(size=(2, count, dim, dim))
    factors = factor + shift
    covariance = factors @ factors.swapaxes(-1, -2)
    mean = apart * rng.normal(size=(2, count, dim))
    weights = rng.uniform(0.1, 9, (2, count))
    model = bj.Gaussian().cluster_model()
    with jax.enable_x64(True):
        costs = []
        for host in (GaussianHost(model), ClosedHost(model)):
            a, b = (
                host.settle(host.leaves(Moments(m, c), w))
                for m, c, w in zip(mean, covariance, weights, strict=True)
            )
            costs.append(host.merge_costs(a, b, host.pool(a, b)))
    np.testing.assert_allclose(costs[0], costs[1], rtol=1e-10, atol=0)
    assert np.all(costs[0] > 0) == (apart > 0)


def test_what_has_no_factor_is_left_to_the_model():
    """A covariance that is not positive definite; the other pair has a cost."""
    model = bj.Gaussian().cluster_model()
    covariance: Any = np.array([np.eye(2), np.diag([1.0, -1.0])])
    mean: Any = np.array([[0.0, 0.0], [1.0, 0.0]])
    moments = Moments(mean, covariance)
    with jax.enable_x64(True):
        host = GaussianHost(model)
        states = host.leaves(moments, np.ones(2))
        assert np.isfinite(states.log_det).tolist() == [True, False]
        assert np.isfinite(host.settle(states).log_det).tolist() == [True, False]
        costs = host.merge_costs(states, states, states)
    assert costs[0] == 0
    assert not np.isfinite(costs[1])


def test_a_pair_that_may_cost_as_much_is_in_the_way():
    """1 ± 0.2 comes before 1.1 or after it; before 1.3 for certain."""

    class FewCosts(AnyCosts):
        def costs(self, low, high):
            return np.full(len(low), 1.0), np.full(len(low), 0.2)

    for other, count in ((1.1, None), (1.3, 1)):
        bound = np.full((4, 4), 9.0)
        bound[0, 1] = bound[1, 0] = 0.8
        bound[2, 3] = bound[3, 2] = other
        pairs = BoundMatrix(bound, COST)
        pairs.kind[:2, :2] = ROUGH
        pairs.look(np.arange(4))
        rounds = Rounds(FewCosts(4, 0, 0.2), pairs)
        # The other two rows are not looked at.
        rounds._rows = 2
        found = rounds.find(3)
        assert (found and len(found.low)) == count
