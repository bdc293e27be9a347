"""Trees under constraints, beside scikit-learn and ruptures; prints a Markdown table.

Run from the repository: `python benchmarks/constraints.py`, each case in a process of
its own, or the cases whose names are given. It needs scikit-learn and ruptures beside
bregjax. Seconds are of processor time; "first" is the first call in a process, after
the imports. Series are of a hundred segments of unequal lengths, each with a mean and a
covariance of its own; what is right of the change points are those within three frames
of a true one. The other method for series is ruptures' BottomUp with CostNormal, which
has the same model, and begins with equal pieces of about as many frames as a covariance
needs; for Ward's it is scikit-learn's.
"""

import subprocess
import sys
import time

import numpy as np
import ruptures
from sklearn.cluster import AgglomerativeClustering
from sklearn.feature_extraction.image import grid_to_graph
from sklearn.neighbors import kneighbors_graph

import bregjax as bj

SEGMENTS = 100


def series(frames, columns):
    """Frames and the places where segments begin, but for the first."""
    rng = np.random.default_rng(0)
    lengths = rng.dirichlet(np.full(SEGMENTS, 5.0))
    starts = np.round(frames * np.cumsum(lengths)[:-1]).astype(int)
    parts = [
        rng.normal(size=(len(part), columns)) @ rng.normal(size=(columns, columns))
        + rng.normal(size=columns)
        for part in np.split(np.empty(frames), starts)
    ]
    return np.concatenate(parts), starts


def image(side, channels=3):
    """A noisy picture of bands, a row a pixel."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:side, :side]
    bands = [
        30 * ((x // (side // 5 + c) + y // (side // 4)) % 4) for c in range(channels)
    ]
    return np.stack(bands, axis=-1).reshape(-1, channels) + rng.normal(
        0, 8, (side * side, channels)
    )


def points(count):
    """Points in groups, and the graph of the ten nearest of each."""
    rng = np.random.default_rng(0)
    x = (
        rng.normal(size=(count, 8))
        + 3 * rng.normal(size=(30, 8))[rng.integers(30, size=count)]
    )
    return x, kneighbors_graph(x, 10, include_self=False)


def scikit_learn(x, graph):
    AgglomerativeClustering(1, connectivity=graph, linkage="ward").fit(x)


def bottom_up(x, min_size):
    algorithm = ruptures.BottomUp(model="normal", jump=1, min_size=min_size).fit(x)
    return np.array(algorithm.predict(n_bkps=SEGMENTS - 1)[:-1])


def right(found, starts):
    """The share of true change points that have one within three frames."""
    gaps = np.abs(found[None] - starts[:, None]).min(axis=1)
    return float(np.mean(gaps <= 3))


def begins(labels):
    """Where segments begin, but for the first."""
    return np.flatnonzero(np.diff(labels)) + 1


def timed(function, *args, **options):
    """Seconds of processor time, which other work on the machine adds little to."""
    start = time.process_time()
    found = function(*args, **options)
    return time.process_time() - start, found


def on_series(frames, columns):
    x, starts = series(frames, columns)
    tree = lambda: bj.agglomerate(x, family="gaussian", connectivity="chain")
    quality = lambda tree: right(begins(tree.cut(SEGMENTS)), starts)
    other = lambda: bottom_up(x, columns + 1)
    return tree, quality, other, lambda found: right(found, starts)


def on_image(side, family):
    x, graph = image(side), grid_to_graph(side, side)
    other = (lambda: scikit_learn(x, graph)) if family == "ward" else None
    tree = lambda: bj.agglomerate(x, family=family, connectivity=graph)
    return tree, None, other, None


def on_points(count, family):
    x, graph = points(count)
    other = (lambda: scikit_learn(x, graph)) if family == "ward" else None
    tree = lambda: bj.agglomerate(x, family=family, connectivity=graph)
    return tree, None, other, None


def on_links(count, linked):
    rng = np.random.default_rng(0)
    x, _ = points(count)
    label = rng.permutation(np.repeat(np.arange(count // linked), linked))
    order = np.argsort(label, kind="stable").reshape(-1, linked)
    must = np.stack(np.broadcast_arrays(order[:, :1], order[:, 1:]), -1).reshape(-1, 2)
    cannot = order[:-1, 0][:, None] * [1, 0] + order[1:, 0][:, None] * [0, 1]
    tree = lambda: bj.agglomerate(
        x, family="gaussian", must_link=must, cannot_link=cannot[::5]
    )
    return tree, None, None, None


CASES = {
    "chain, 2,000 × 5, gaussian": lambda: on_series(2_000, 5),
    "chain, 10,000 × 5, gaussian": lambda: on_series(10_000, 5),
    "chain, 10,000 × 10, gaussian": lambda: on_series(10_000, 10),
    "image, 100 × 100 × 3, ward": lambda: on_image(100, "ward"),
    "image, 100 × 100 × 3, diagonal_gaussian": lambda: on_image(
        100, "diagonal_gaussian"
    ),
    "image, 200 × 200 × 3, ward": lambda: on_image(200, "ward"),
    "10 neighbours, 10,000 × 8, ward": lambda: on_points(10_000, "ward"),
    "10 neighbours, 10,000 × 8, gaussian": lambda: on_points(10_000, "gaussian"),
    "links by fives, 5,000 × 8, gaussian": lambda: on_links(5_000, 5),
}


def measure(name):
    """Print a line of the table."""
    tree, quality, other, other_quality = CASES[name]()
    first, found = timed(tree)
    again, _ = timed(tree)
    cells = [name, f"{first:.1f}", f"{again:.1f}", str(found.num_inversions(rtol=1e-9))]
    cells.append("" if quality is None else f"{quality(found):.2f}")
    if other is None:
        cells += ["", ""]
    else:
        seconds, theirs = timed(other)
        share = "" if other_quality is None else f"{other_quality(theirs):.2f}"
        cells += [f"{seconds:.1f}", share]
    print("| " + " | ".join(cells) + " |", flush=True)


def main():
    names = sys.argv[1:] or list(CASES)
    if len(names) == 1:
        measure(names[0])
        return
    print("| case | first s | again s | inversions | right | other s | right |")
    print("|---|---|---|---|---|---|---|")
    for name in names:
        subprocess.run([sys.executable, __file__, name], check=True)


if __name__ == "__main__":
    main()
