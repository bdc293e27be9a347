"""scikit-learn's Ward, the full tree with its distances."""

import numpy as np
import sklearn
from sklearn.cluster import AgglomerativeClustering

from harness.outcome import Outcome

VERSIONS = {"scikit-learn": sklearn.__version__}


def prepare(function: str, family: str):
    del function, family
    return _cluster


def _cluster(x: np.ndarray) -> Outcome:
    # For so few clusters the whole tree is made.
    model = AgglomerativeClustering(
        n_clusters=2, linkage="ward", compute_distances=True
    ).fit(x)
    return Outcome(model.distances_**2 / 4)
