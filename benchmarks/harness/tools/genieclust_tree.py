"""genieclust: a tree from the minimum spanning tree. Not Ward; the speed to envy."""

import genieclust
import numpy as np

from harness.outcome import Outcome

VERSIONS = {"genieclust": genieclust.__version__}


def prepare(function: str, family: str):
    del function, family
    return _cluster


def _cluster(x: np.ndarray) -> Outcome:
    genieclust.Genie(n_clusters=1).fit(x)
    return Outcome()
