"""Estimators for scikit-learn; needs scikit-learn (extra `sklearn`).

    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from bregjax.sklearn import BregmanAgglomerative
    >>> x = [[0.0, 10.0], [1.0, 12.0], [7.0, 11.0], [8.0, 10.0], [9.0, 12.0]]
    >>> pipe = make_pipeline(StandardScaler(), BregmanAgglomerative(n_clusters=2))
    >>> print(pipe.fit_predict(x))
    [1 1 0 0 0]
    >>> print(pipe.predict([[0.5, 11.0]]))
    [1]

Conventions are scikit-learn's: arguments are kept as they are until `fit`, what is
learnt has a name that ends in an underscore, `random_state` stands for randomness, and
scores are better the larger. What is computed is what the functions of `bregjax`
compute, and `problem_` and the attributes beside it go into these functions.
"""

from bregjax.sklearn._agglomerative import BregmanAgglomerative as BregmanAgglomerative
from bregjax.sklearn._features import DendrogramFeatures as DendrogramFeatures
from bregjax.sklearn._kmeans import BregmanKMeans as BregmanKMeans
from bregjax.sklearn._mixture import (
    ExponentialFamilyMixture as ExponentialFamilyMixture,
)
