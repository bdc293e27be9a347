"""Convex functions, one-sided derivatives and conjugates."""

from bregjax._result import Result as Result
from bregjax.convex._base import ConvexFunction as ConvexFunction
from bregjax.convex._base import SeparableFunction as SeparableFunction
from bregjax.convex._categories import BinaryEntropy as BinaryEntropy
from bregjax.convex._categories import Logistic as Logistic
from bregjax.convex._categories import LogSumExp as LogSumExp
from bregjax.convex._categories import SimplexEntropy as SimplexEntropy
from bregjax.convex._conjugation import Conjugate as Conjugate
from bregjax.convex._conjugation import ConjugateSolution as ConjugateSolution
from bregjax.convex._conjugation import conjugate as conjugate
from bregjax.convex._determinant import (
    LogDeterminantConjugate as LogDeterminantConjugate,
)
from bregjax.convex._determinant import NegativeLogDeterminant as NegativeLogDeterminant
from bregjax.convex._functions import Burg as Burg
from bregjax.convex._functions import BurgConjugate as BurgConjugate
from bregjax.convex._functions import Mahalanobis as Mahalanobis
from bregjax.convex._functions import NegativeEntropy as NegativeEntropy
from bregjax.convex._functions import SquaredNorm as SquaredNorm
from bregjax.convex._functions import SumExp as SumExp
from bregjax.convex._negative_binomial import (
    NegativeBinomialCumulant as NegativeBinomialCumulant,
)
from bregjax.convex._negative_binomial import (
    NegativeBinomialEntropy as NegativeBinomialEntropy,
)
from bregjax.convex._numerical import NumericalConjugate as NumericalConjugate
from bregjax.convex._one_sided import (
    define_directional_derivative as define_directional_derivative,
)
from bregjax.convex._one_sided import directional_derivative as directional_derivative
from bregjax.convex._operations import Affine as Affine
from bregjax.convex._operations import Scaled as Scaled
from bregjax.convex._operations import SeparableSum as SeparableSum
from bregjax.convex._operations import Sum as Sum
from bregjax.convex._operations import Tilted as Tilted
from bregjax.convex._polyhedral import L1Norm as L1Norm
from bregjax.convex._polyhedral import Max as Max
from bregjax.convex._polyhedral import MaxNorm as MaxNorm
from bregjax.convex._polyhedral import SimplexIndicator as SimplexIndicator
from bregjax.convex._polyhedral import UnitBallIndicator as UnitBallIndicator
from bregjax.convex._remainder import bregman_remainder as bregman_remainder
from bregjax.convex._sphere import SphereCumulant as SphereCumulant
from bregjax.convex._sphere import SphereEntropy as SphereEntropy
