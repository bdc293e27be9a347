"""What cluster models need of an exponential family."""

from typing import Protocol

import numpy as np

from bregjax._typing import Array, PyTree
from bregjax.convex import ConjugateSolution

__all__ = ["Potential"]


class Potential(Protocol):
    """A log-partition function ψ, and what helps to solve for its conjugate.

    Families are potentials. A cluster model built on a potential never asks for the
    statistics or the density of a family.

    Examples:
        >>> import bregjax as bj
        >>> potential: Potential = bj.Poisson(dim=2)
        >>> print(potential.separable, potential.solves)
        True False
    """

    @property
    def natural_init(self) -> PyTree:
        """A natural parameter inside dom ψ, where solvers start."""
        ...

    @property
    def separable(self) -> bool:
        """Whether ψ is a sum over the coordinates of θ."""
        ...

    @property
    def solves(self) -> bool:
        """Whether `conjugate` runs the solver, because ψ* has no closed form."""
        ...

    def log_partition(self, natural: PyTree) -> Array:
        """ψ(θ), scalar; +inf or NaN outside its domain."""
        ...

    def conjugate(
        self, mean: PyTree, *, start: PyTree | None = None
    ) -> ConjugateSolution:
        """ψ*(μ), the natural parameter that attains ψ*(μ), and a result code."""
        ...

    def natural_guess(self, means: np.ndarray) -> np.ndarray | None:
        """Natural parameters to start solves for raveled means `[..., n]` from."""
        ...
