"""The data sets of the paper's experiments, and some more to try tuning on.

Read from `../shared/data` beside the repository, glass from the package, and four sets
from scikit-learn. A set whose file is absent is None, and what needs it is left out.
"""

import functools
import pathlib
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from sklearn import datasets

from bregjax.datasets import load_glass

SHARED = pathlib.Path(__file__).parents[3] / "shared" / "data"

EUCLIDEAN = ("glass", "spam", "mnist35")
TEXT = ("20n-e", "20n-h", "20n-b")
MORE_EUCLIDEAN = ("iris", "wine", "breast_cancer", "digits")
MORE_COUNTS = ("bbcsport", "baron_mouse1")

_GROUPS = {
    "20n-e": ("news_hockey_crypt",),
    "20n-h": ("news_atheism_religion",),
    "20n-b": ("news_hockey_crypt", "news_atheism_religion"),
}


@dataclass(frozen=True)
class Labelled:
    """Rows with their known classes.

    Attributes:
        x: Data `[m, d]`: an array, or a SciPy CSR matrix of counts.
        classes: Integers, `[m]`.
    """

    x: np.ndarray | sp.csr_matrix
    classes: np.ndarray

    def take(self, rows: np.ndarray) -> "Labelled":
        """The rows of these numbers, in this order."""
        return Labelled(self.x[rows], self.classes[rows])


@functools.lru_cache(maxsize=4)
def load(name: str, split: int = 0) -> Labelled | None:
    """The rows that the paper's trees are of, or None where the file is absent.

    Args:
        name: One of the names above.
        split: Of spam and mnist35: 0 for the training half as given, other numbers for
            a half drawn with that seed. Other sets have only split 0.
    """
    if name == "glass":
        glass = load_glass()
        return Labelled(glass.x, glass.classes)
    if name in MORE_EUCLIDEAN:
        bunch = getattr(datasets, f"load_{name}")()
        return Labelled(bunch.data, bunch.target)
    if name in _GROUPS:
        return _text(_GROUPS[name])
    if name in MORE_COUNTS:
        return _text((name,))
    half = {"spam": _spam_half, "mnist35": _digits_half}[name]
    file = SHARED / {"spam": "spambase.npz", "mnist35": "mnist35.npz"}[name]
    return half(np.load(file), split) if file.exists() else None


def load_halves(name: str) -> tuple[Labelled, Labelled] | None:
    """The training half and the test half of mnist35 or of a pair of news groups."""
    if name == "mnist35":
        file = SHARED / "mnist35.npz"
        if not file.exists():
            return None
        arrays = np.load(file)
        whole = Labelled(arrays["X"].astype(float), arrays["y"])
        is_train = arrays["is_train"]
    else:
        (group,) = _GROUPS[name]
        file = SHARED / f"{group}.npz"
        if not file.exists():
            return None
        with np.load(file) as arrays:
            whole, is_train = (
                Labelled(sp.load_npz(file), arrays["y"]),
                arrays["is_train"],
            )
    rows = np.flatnonzero
    return whole.take(rows(is_train)), whole.take(rows(~is_train))


def _spam_half(arrays, split: int) -> Labelled:
    """2,301 of the 4,601 points."""
    rows = np.flatnonzero(arrays["is_train"])
    if split:
        rows = np.random.default_rng(split).permutation(4601)[:2301]
    return Labelled(arrays["X"], arrays["y"]).take(rows)


def _digits_half(arrays, split: int) -> Labelled:
    """992 threes and 992 fives of the training set of MNIST."""
    if not split:
        rows = np.flatnonzero(arrays["is_train"])
        return Labelled(arrays["X"].astype(float), arrays["y"]).take(rows)
    rng = np.random.default_rng(split)
    in_training = ~arrays["from_mnist_test_all"]
    drawn = [
        rng.permutation(np.flatnonzero(in_training & (arrays["y_all"] == digit)))[:992]
        for digit in (3, 5)
    ]
    rows = np.sort(np.concatenate(drawn))
    return Labelled(arrays["X_all"].astype(float), arrays["y_all"]).take(rows)


def _text(names: tuple[str, ...]) -> Labelled | None:
    """The training documents of several files below each other."""
    files = [SHARED / f"{name}.npz" for name in names]
    if not all(file.exists() for file in files):
        return None
    parts = [_documents(file) for file in files]
    classes, known = [], 0
    for part in parts:
        classes.append(part.classes + known)
        known += int(part.classes.max()) + 1
    x = sp.vstack([part.x for part in parts], format="csr")
    return Labelled(x, np.concatenate(classes))


def _documents(file: pathlib.Path) -> Labelled:
    with np.load(file) as arrays:
        classes = arrays["y"]
        chosen = arrays["is_train"] if "is_train" in arrays else slice(None)
    return Labelled(sp.load_npz(file)[chosen], classes[chosen])
