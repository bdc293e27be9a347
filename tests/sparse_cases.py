"""Small sparse tables, and problems of them beside those of the same dense rows."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from bregjax import Problem
from bregjax.convex import BinaryEntropy, NegativeEntropy, SquaredNorm
from bregjax.families import NegativeBinomial, SphericalGaussian
from bregjax.smoothing import adding, bernstein, mixing, pseudo_count

M, D = 16, 24  # one size for all tests: they share what compiles


def counts() -> np.ndarray:
    """Whole numbers with ties, equal rows, three columns of zeros, and no empty row."""
    rng = np.random.default_rng(4)
    x = rng.poisson(rng.gamma(0.5, 2, size=(M, D)) * (rng.random((M, D)) < 0.3))
    x[:, :3] = 0
    x[np.arange(M), 3 + np.arange(M)] += 1
    x[[5, 9]] = x[2]
    return x.astype(float)


def reals() -> np.ndarray:
    """The same entries moved, so that no two costs agree."""
    x = counts()
    return x * np.random.default_rng(5).uniform(0.6, 1.4, x.shape)


def rows_for(name: str, x: np.ndarray) -> np.ndarray:
    """Rows in [0, 1] where the family asks for them."""
    return x / (2 * x.max()) if name in BINARY else x


BINARY = ("bernoulli", "binary_entropy")
_UNEVEN = np.random.default_rng(6).dirichlet(np.full(D, 3.0))
_DISPERSIONS = np.random.default_rng(7).gamma(2.0, size=D) + 0.1

FAMILIES: dict[str, Any] = {
    "multinomial": "multinomial",
    "poisson": "poisson",
    "bernoulli": "bernoulli",
    "negative_binomial": NegativeBinomial(2.0),
    "dispersions": NegativeBinomial(_DISPERSIONS),
    "geometric": "geometric",
    "ward": "ward",
    "spherical_gaussian": SphericalGaussian(2.5),
    "negative_entropy": NegativeEntropy(),
    "squared_norm": SquaredNorm(),
    "binary_entropy": BinaryEntropy(),
}

SMOOTHINGS: dict[str, Any] = {
    "none": None,
    "mixing": mixing(np.full(D, 1 / D), 0.3),
    "mixing_uneven": mixing(_UNEVEN, 0.3),
    "bernstein": bernstein(D, 300.0),
    "adding": adding(np.ones(D), 0.1),
    "adding_uneven": adding(_UNEVEN, 2.0),
    "pseudo_count": pseudo_count(np.full(D, 1 / D), 0.5),
    "pseudo_count_uneven": pseudo_count(_UNEVEN, 0.5),
}

WEIGHTS: dict[str, Any] = {
    "ones": None,
    "whole": np.random.default_rng(8).integers(1, 4, M).astype(float),
    "real": np.random.default_rng(9).gamma(2.0, size=M) + 0.1,
}

ENTROPIC = ("multinomial", "poisson", "negative_entropy")


def is_taken(family: str, smoothing: str, weights: str) -> bool:
    """Whether sparse rows of such a problem are taken."""
    if smoothing.startswith("pseudo_count") and weights != "ones":
        return family in ENTROPIC
    # What is added must be a direction in which the mean domain goes on without end.
    return not (smoothing.startswith("adding") and family in (*BINARY, "multinomial"))


PROBLEMS = [
    (family, smoothing, weights)
    for family in FAMILIES
    for smoothing in SMOOTHINGS
    for weights in WEIGHTS
    if is_taken(family, smoothing, weights)
]


class Twins(NamedTuple):
    """The same problem, its rows sparse and dense."""

    sparse: Problem
    dense: Problem


def twins(x: np.ndarray, family: str, smoothing: str, weights: str) -> Twins:
    """Problems of the rows `x` of the family, smoothing and weights of these names."""
    rows = rows_for(family, x)
    options: dict[str, Any] = {
        "family": FAMILIES[family],
        "smoothing": SMOOTHINGS[smoothing],
        "weights": WEIGHTS[weights],
    }
    return Twins(
        Problem(scipy.sparse.csr_array(rows), **options), Problem(rows, **options)
    )


def at_entries(problem: Problem, dense: Any) -> np.ndarray:
    """The entries of a dense table where the sparse rows of a problem have theirs."""
    rows: Any = problem.x
    return np.asarray(dense)[rows.pattern.rows, rows.pattern.columns]
