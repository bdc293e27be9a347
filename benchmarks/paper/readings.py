"""What the paper leaves open about its trees, as choices with names.

A reading is a mapping from the name of a choice to what is chosen; what it does not
name is as in `DEFAULTS`. `tree_of` makes the tree of a method under a reading.
"""

from collections.abc import Mapping

import numpy as np
import scipy.sparse as sp
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import pdist, squareform

import bregjax as bj
from bregjax.smoothing import bernstein, mixing

Reading = Mapping[str, object]

DEFAULTS = {
    # Of all sets.
    "split": 0,  # which half, see data.load
    "order": 0,  # 0 for the rows as they are, else a seed of their permutation
    # Of points.
    "scaling": "raw",  # or "standardised", "0 to 1", "÷ 255", "log(x + 0.1)"
    "deviation": "ddof 1",  # or "ddof 0", "robust" (median deviation / 0.6745)
    "exponent": "d + 4",  # or "5", the rule of one dimension for each column
    "one bandwidth": "mean, varying columns",  # see `_one_bandwidth`
    "added": "h²",  # or "h", to the variances
    "factor": 1.0,  # of the bandwidths so found
    # Of documents.
    "distances of": "counts",  # or "frequencies", "occurrence"
    "weights": "1",  # or "length"
    "N": "documents",  # or "words", "mean length"
    "n": "vocabulary",  # or "used words"
    "bound": "δ 0.05",  # or another δ, or "1/N + √(p(1−p)/N)"
    "α": "by the bound",  # or a number
}

FAMILIES = {
    "km": "ward",
    "dg-nd": "diagonal_gaussian",
    "g-n": "gaussian",
    "multi": "multinomial",
}


def choice(reading: Reading, name: str) -> object:
    """What a reading chooses."""
    return reading.get(name, DEFAULTS[name])


def tree_of(x, method: str, reading: Reading) -> bj.Dendrogram:
    """The tree of one column of Table 1.

    Args:
        x: Points `[m, d]`, or counts of documents in a CSR matrix.
        method: A column of Table 1.
        reading: Choices other than the defaults.
    """
    if method in ("c-link", "s-link"):
        distances = _distances(x, reading)
        name = {"c": "complete", "s": "single"}[method[0]]
        return bj.Dendrogram.from_linkage(linkage(distances, name))
    return bj.agglomerate(problem_of(x, method, reading))


def problem_of(x, method: str, reading: Reading) -> bj.Problem:
    """What to cluster and by what, for methods other than linkages."""
    if method == "multi":
        return _documents(x, reading)
    x = scaled(x, str(choice(reading, "scaling")))
    smoothing = None if method == "km" else bj.blur(bandwidths(x, method, reading))
    return bj.Problem(x, family=FAMILIES[method], smoothing=smoothing)


def scaled(x: np.ndarray, scaling: str) -> np.ndarray:
    """Points in other units; a column without variation becomes 0."""
    low, high = x.min(axis=0), x.max(axis=0)
    flat = low == high
    if scaling == "raw":
        return x
    if scaling == "÷ 255":
        return x / 255
    if scaling == "log(x + 0.1)":
        return np.log(x + 0.1)
    if scaling == "0 to 1":
        return (x - low) / np.where(flat, 1, high - low)
    if scaling == "standardised":
        return np.where(flat, 0, x - x.mean(axis=0)) / np.where(flat, 1, x.std(axis=0))
    raise ValueError(f"no scaling is called {scaling!r}")


def bandwidths(x: np.ndarray, method: str, reading: Reading) -> np.ndarray:
    """Bandwidths by the normal reference rule: `[d]` for dg-nd, a scalar for g-n."""
    m, d = x.shape
    if choice(reading, "exponent") == "5":
        d = 1
    factor = (4 / ((d + 2) * m)) ** (1 / (d + 4))
    deviation = _deviations(x, str(choice(reading, "deviation")))
    flat = x.min(axis=0) == x.max(axis=0)
    if method == "g-n":
        each = factor * np.where(flat, 0, deviation)
        found = _one_bandwidth(each, ~flat, factor * x.std(), reading)
    else:
        found = factor * np.where(flat, 1, deviation)
    found = np.sqrt(found) if choice(reading, "added") == "h" else found
    return float(str(choice(reading, "factor"))) * found


def _deviations(x: np.ndarray, kind: str) -> np.ndarray:
    """Standard deviations of columns."""
    plain = x.std(axis=0, ddof=0 if kind == "ddof 0" else 1)
    if kind != "robust":
        return plain
    median = np.median(np.abs(x - np.median(x, axis=0)), axis=0)
    # Half of the values of a sparse column are 0, and then so is the median.
    return np.where(median > 0, median / 0.6745, plain)


def _one_bandwidth(
    each: np.ndarray, varies: np.ndarray, pooled: float, reading: Reading
) -> np.ndarray:
    """One bandwidth for all columns, from those of each and that of all entries."""
    kind = choice(reading, "one bandwidth")
    varying = each[varies]
    return np.asarray(
        {
            "mean, varying columns": lambda: varying.mean(),
            "mean, all columns": lambda: each.mean(),
            "√ of the mean square": lambda: np.sqrt((varying**2).mean()),
            "geometric mean": lambda: np.exp(np.log(varying).mean()),
            "median": lambda: np.median(varying),
            "smallest": lambda: varying.min(),
            "largest": lambda: varying.max(),
            "deviation of all entries": lambda: pooled,
        }[str(kind)]()
    )


def _distances(x, reading: Reading) -> np.ndarray:
    """Condensed distances: l² of points, l¹ of documents."""
    if not sp.issparse(x):
        return pdist(scaled(x, str(choice(reading, "scaling"))))
    kind = choice(reading, "distances of")
    x = x.astype(float)
    if kind == "frequencies":
        x = sp.diags(1 / np.asarray(x.sum(axis=1)).ravel()) @ x
    elif kind == "occurrence":
        x.data[:] = 1
    return squareform(_cityblock(x), checks=False)


def _cityblock(x: sp.csr_matrix) -> np.ndarray:
    """l¹ distances of rows without negative entries: Σ a + Σ b − 2 Σ min(a, b)."""
    total = np.asarray(x.sum(axis=1)).ravel()
    shared = np.zeros((x.shape[0], x.shape[0]))
    columns = x.tocsc()
    for start, end in zip(columns.indptr[:-1], columns.indptr[1:], strict=True):
        rows, values = columns.indices[start:end], columns.data[start:end]
        shared[np.ix_(rows, rows)] += np.minimum.outer(values, values)
    distances = total[:, None] + total[None, :] - 2 * shared
    # Equal documents are at no distance, which rounding of frequencies hides.
    return np.where(distances < 1e-12 * (1 + total[:, None]), 0, distances)


def _documents(x: sp.csr_matrix, reading: Reading) -> bj.Problem:
    length = np.asarray(x.sum(axis=1)).ravel().astype(float)
    used = np.diff(x.tocsc().indptr) > 0
    if choice(reading, "n") == "used words":
        x = x[:, used]
    weights = length if choice(reading, "weights") == "length" else None
    return bj.Problem(
        x,
        family="multinomial",
        smoothing=_smoothing(x.shape[1], length, reading),
        weights=weights,
    )


def _smoothing(n: int, length: np.ndarray, reading: Reading):
    """Mixing with the uniform proportions, by a bound or a given share."""
    share, bound = choice(reading, "α"), str(choice(reading, "bound"))
    size = sample_size(length, choice(reading, "N"))
    if share != "by the bound":
        return mixing(np.full(n, 1 / n), float(share))
    if bound.startswith("δ"):
        return bernstein(n, size, delta=float(bound[2:]))
    b = 1 / size + np.sqrt((1 - 1 / n) / n / size)
    return mixing(np.full(n, 1 / n), n * b / (1 + n * b))


def sample_size(length: np.ndarray, kind: object) -> float:
    """N of the bound, from the lengths of documents."""
    named = {
        "documents": float(len(length)),
        "words": float(length.sum()),
        "mean length": float(length.mean()),
    }
    return named[str(kind)]


def describe(reading: Reading) -> str:
    """A reading in words."""
    named = [f"{name}: {value}" for name, value in reading.items()]
    return "; ".join(named) or "default"
