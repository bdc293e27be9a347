"""Made and real data by kind; as a program it writes one array to a file.

    python -m harness.data KIND M N FILE.npy

Digits, mnist35 and spambase have sizes of their own; M and N are then only compared
with them.
"""

import importlib
import pathlib
import sys

import numpy as np

SHARED = pathlib.Path(__file__).parents[3] / "shared" / "data"


def blobs(m: int, n: int) -> np.ndarray:
    """Twenty round normal clusters, three deviations apart or so."""
    rng = np.random.default_rng(0)
    centers = 3 * rng.normal(size=(20, n))
    return centers[rng.integers(20, size=m)] + rng.normal(size=(m, n))


def uniform(m: int, n: int) -> np.ndarray:
    """Uniform in (0, 1], no clusters at all."""
    return 1 - np.random.default_rng(0).random((m, n))


def counts(m: int, n: int) -> np.ndarray:
    """Poisson counts of twenty profiles of gamma rates, 4 on average."""
    rng = np.random.default_rng(0)
    rates = 4 * rng.gamma(1.0, size=(20, n))
    return rng.poisson(rates[rng.integers(20, size=m)]).astype(float)


def positive_counts(m: int, n: int) -> np.ndarray:
    """Those counts, none below 1."""
    return np.maximum(counts(m, n), 1)


def digits(m: int, n: int) -> np.ndarray:
    """scikit-learn's digits, 1,797 × 64 grey values from 0 to 16."""
    return importlib.import_module("sklearn.datasets").load_digits().data[:m, :n]


def binary_digits(m: int, n: int) -> np.ndarray:
    """The same as zeros and ones."""
    return (digits(m, n) > 7).astype(float)


def mnist35(m: int, n: int) -> np.ndarray:
    """The training half of the digits 3 and 5, 1,984 × 49, from beside the project."""
    with np.load(SHARED / "mnist35.npz") as file:
        return file["X"][file["is_train"]].astype(float)[:m, :n]


def spambase(m: int, n: int) -> np.ndarray:
    """The training half of spambase, 2,301 × 57, from beside the project."""
    with np.load(SHARED / "spambase.npz") as file:
        return file["X"][file["is_train"]][:m, :n]


KINDS = {
    make.__name__: make
    for make in (
        blobs,
        uniform,
        counts,
        positive_counts,
        digits,
        binary_digits,
        mnist35,
        spambase,
    )
}


def make_data(kind: str, m: int, n: int) -> np.ndarray:
    """Rows `[m, n]` in float64.

    Raises:
        ValueError: If a data set has not so many.
    """
    x = np.ascontiguousarray(KINDS[kind](m, n), np.float64)
    if x.shape != (m, n):
        raise ValueError(f"{kind} has {x.shape[0]} × {x.shape[1]}, not {m} × {n}.")
    return x


if __name__ == "__main__":
    kind, m, n, path = sys.argv[1:]
    np.save(path, make_data(kind, int(m), int(n)))
