"""Exponential families: built-in ones, and those that a user writes."""

from bregjax.families._base import Family as Family
from bregjax.families._bernoulli import Bernoulli as Bernoulli
from bregjax.families._beta import Beta as Beta
from bregjax.families._categorical import Categorical as Categorical
from bregjax.families._check import CheckReport as CheckReport
from bregjax.families._check import Finding as Finding
from bregjax.families._columnwise import Columnwise as Columnwise
from bregjax.families._dirichlet import Dirichlet as Dirichlet
from bregjax.families._exponential import Exponential as Exponential
from bregjax.families._exponential_family import ExponentialFamily as ExponentialFamily
from bregjax.families._gamma import Gamma as Gamma
from bregjax.families._gaussian import DiagonalGaussian as DiagonalGaussian
from bregjax.families._gaussian import Gaussian as Gaussian
from bregjax.families._gaussian import IsotropicGaussian as IsotropicGaussian
from bregjax.families._inverse_gaussian import InverseGaussian as InverseGaussian
from bregjax.families._ising import Ising as Ising
from bregjax.families._laplace import Laplace as Laplace
from bregjax.families._multinomial import Multinomial as Multinomial
from bregjax.families._named import FAMILIES as FAMILIES
from bregjax.families._named import named_family as named_family
from bregjax.families._negative_binomial import Geometric as Geometric
from bregjax.families._negative_binomial import NegativeBinomial as NegativeBinomial
from bregjax.families._poisson import Poisson as Poisson
from bregjax.families._spherical_gaussian import SphericalGaussian as SphericalGaussian
from bregjax.families._von_mises_fisher import VonMisesFisher as VonMisesFisher
