"""Built-in families by name."""

from bregjax.families._base import Family
from bregjax.families._bernoulli import Bernoulli
from bregjax.families._beta import Beta
from bregjax.families._categorical import Categorical
from bregjax.families._dirichlet import Dirichlet
from bregjax.families._exponential import Exponential
from bregjax.families._gamma import Gamma
from bregjax.families._gaussian import DiagonalGaussian, Gaussian, IsotropicGaussian
from bregjax.families._inverse_gaussian import InverseGaussian
from bregjax.families._ising import Ising
from bregjax.families._laplace import Laplace
from bregjax.families._multinomial import Multinomial
from bregjax.families._negative_binomial import Geometric, NegativeBinomial
from bregjax.families._poisson import Poisson
from bregjax.families._spherical_gaussian import SphericalGaussian
from bregjax.families._von_mises_fisher import VonMisesFisher

__all__ = ["FAMILIES", "named_family"]

FAMILIES: dict[str, type[Family]] = {
    "gaussian": Gaussian,
    "diagonal_gaussian": DiagonalGaussian,
    "spherical_gaussian": SphericalGaussian,
    "isotropic_gaussian": IsotropicGaussian,
    "multinomial": Multinomial,
    "categorical": Categorical,
    "bernoulli": Bernoulli,
    "poisson": Poisson,
    "negative_binomial": NegativeBinomial,
    "geometric": Geometric,
    "exponential": Exponential,
    "laplace": Laplace,
    "gamma": Gamma,
    "von_mises_fisher": VonMisesFisher,
    "inverse_gaussian": InverseGaussian,
    "beta": Beta,
    "dirichlet": Dirichlet,
    "ising": Ising,
}
"""The built-in families by the names that `family` may be, besides "ward"."""


# Names of SciPy's methods that have no merge cost here.
_LINKAGES = ("single", "complete", "average", "weighted", "centroid", "median")


def named_family(name: str) -> Family:
    """The built-in family of that name, with its defaults.

    Args:
        name: A key of `FAMILIES`, in any case, or "ward" for `SphericalGaussian`.

    Raises:
        ValueError: If no family has that name.

    Examples:
        >>> print(named_family("Negative-Binomial"))
        NegativeBinomial()
    """
    key = name.lower().replace("-", "_").replace(" ", "_")
    if key == "ward":
        key = "spherical_gaussian"
    if key in _LINKAGES:
        raise ValueError(
            f"`family` must be a family of distributions; got the linkage {name!r}, "
            f"which goes by distances: take scipy.cluster.hierarchy.linkage(x, {key!r})"
            '. Ward\'s method is here, as family="ward".'
        )
    if key not in FAMILIES:
        raise ValueError(
            f"`family` must be one of {', '.join(FAMILIES)}, or ward; got {name!r}."
        )
    return FAMILIES[key]()
