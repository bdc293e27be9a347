"""How well trees and labels agree, with known classes and with each other."""

from bregjax.metrics._labels import adjusted_rand as adjusted_rand
from bregjax.metrics._labels import fowlkes_mallows as fowlkes_mallows
from bregjax.metrics._purity import dendrogram_purity as dendrogram_purity
from bregjax.metrics._trees import bakers_gamma as bakers_gamma
from bregjax.metrics._trees import cophenetic_correlation as cophenetic_correlation
from bregjax.metrics._trees import robinson_foulds as robinson_foulds

__all__ = [
    "adjusted_rand",
    "bakers_gamma",
    "cophenetic_correlation",
    "dendrogram_purity",
    "fowlkes_mallows",
    "robinson_foulds",
]


def __dir__() -> list[str]:
    return __all__
