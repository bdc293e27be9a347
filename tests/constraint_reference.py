"""Constrained greedy agglomeration one merge at a time, in plain Python and NumPy."""

import itertools

import numpy as np


class Rules:
    """Who may merge, told from sets of rows alone."""

    def __init__(self, m, edges=None, must=(), cannot=(), k=1):
        """Pairs of rows `[e, 2]` each; edges None where all may."""
        self.m, self.k = m, k
        self.edges = None if edges is None else {frozenset(e) for e in edges}
        self.cannot = {frozenset(pair) for pair in cannot}
        group = list(range(m))
        for a, b in must:
            group = [group[a] if g == group[b] else g for g in group]
        self.group = group

    def linking(self, alive):
        """Whether some links are still to be merged."""
        groups = [self.group[min(rows)] for rows in alive]
        return len(set(groups)) < len(groups)

    def may(self, a, b, *, linking):
        if linking:
            return self.group[min(a)] == self.group[min(b)]
        between = [frozenset(pair) for pair in itertools.product(a, b)]
        joined = self.edges is None or any(pair in self.edges for pair in between)
        return joined and not any(pair in self.cannot for pair in between)


def greedy(cost, rules):
    """Children and costs; of ties the pair with the smallest rows.

    Args:
        cost: Of two tuples of rows.
        rules: Who may merge.
    """
    alive: dict[tuple[int, ...], int] = {(i,): i for i in range(rules.m)}
    children, costs = [], []
    while len(alive) > rules.k:
        linking = rules.linking(alive)
        pairs = [
            pair
            for pair in itertools.combinations(sorted(alive), 2)
            if rules.may(*pair, linking=linking)
        ]
        if not pairs:
            break
        found = {pair: cost(*pair) for pair in pairs}
        a, b = min(pairs, key=lambda pair: (found[pair], min(pair[0]), min(pair[1])))
        children.append(sorted((alive.pop(a), alive.pop(b))))
        costs.append(found[a, b])
        alive[tuple(sorted(a + b))] = rules.m + len(children) - 1
    return np.array(children).reshape(-1, 2), np.array(costs)


def excess(cost, rules, tree):
    """By how much the worst merge costs more than the least that may be at its time.

    Fails where a merge may not be made, or one more could be at the end.
    """
    rows = [(i,) for i in range(rules.m)]
    alive, worst = set(rows), 0.0
    for a, b in np.asarray(tree.children).tolist():
        linking = rules.linking(alive)
        pairs = [
            pair
            for pair in itertools.combinations(sorted(alive), 2)
            if rules.may(*pair, linking=linking)
        ]
        own = tuple(sorted((rows[a], rows[b])))
        assert own in pairs
        worst = max(worst, float(cost(*own) - min(cost(*pair) for pair in pairs)))
        alive -= {rows[a], rows[b]}
        rows.append(tuple(sorted(rows[a] + rows[b])))
        alive.add(rows[-1])
    assert len(alive) >= rules.k
    if len(alive) > rules.k:
        pairs = itertools.combinations(sorted(alive), 2)
        assert not any(rules.may(*pair, linking=rules.linking(alive)) for pair in pairs)
    return worst


def cost_of(f, points, weights):
    """Merge costs by values of ψ*: of two tuples of rows, kept.

    Args:
        f: ψ* of one mean parameter.
        points: Those of the rows.
        weights: Of the rows.
    """
    weights = [float(weight) for weight in weights]
    values: dict = {}

    def value(rows):
        """W f(mean) of a set of rows."""
        if rows not in values:
            weight = sum(weights[i] for i in rows)
            total = weights[rows[0]] * points[rows[0]]
            for i in rows[1:]:
                total = total + weights[i] * points[i]
            values[rows] = weight * f(total * (1 / weight))
        return values[rows]

    return lambda a, b: value(a) + value(b) - value(tuple(sorted(a + b)))
