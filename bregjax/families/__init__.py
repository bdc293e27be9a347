"""Exponential families: built-in ones, and those that a user writes."""

from bregjax.clusters.natural_model import NaturalModel as NaturalModel
from bregjax.families.base import Family as Family
from bregjax.families.bernoulli import Bernoulli as Bernoulli
from bregjax.families.beta import Beta as Beta
from bregjax.families.categorical import Categorical as Categorical
from bregjax.families.check import CheckReport as CheckReport
from bregjax.families.check import Finding as Finding
from bregjax.families.columnwise import Columnwise as Columnwise
from bregjax.families.dirichlet import Dirichlet as Dirichlet
from bregjax.families.exponential import Exponential as Exponential
from bregjax.families.exponential_family import ExponentialFamily as ExponentialFamily
from bregjax.families.gamma import Gamma as Gamma
from bregjax.families.gaussian import DiagonalGaussian as DiagonalGaussian
from bregjax.families.gaussian import Gaussian as Gaussian
from bregjax.families.gaussian import IsotropicGaussian as IsotropicGaussian
from bregjax.families.inverse_gaussian import InverseGaussian as InverseGaussian
from bregjax.families.ising import Ising as Ising
from bregjax.families.laplace import Laplace as Laplace
from bregjax.families.multinomial import Multinomial as Multinomial
from bregjax.families.named import FAMILIES as FAMILIES
from bregjax.families.named import named_family as named_family
from bregjax.families.negative_binomial import Geometric as Geometric
from bregjax.families.negative_binomial import NegativeBinomial as NegativeBinomial
from bregjax.families.poisson import Poisson as Poisson
from bregjax.families.spherical_gaussian import SphericalGaussian as SphericalGaussian
from bregjax.families.von_mises_fisher import VonMisesFisher as VonMisesFisher
