"""How many free parameters a family has: the rank of the Hessian of ψ."""

import numpy as np

from bregjax._checks import is_concrete, on_host
from bregjax.families._check_psi import check_start, common_null
from bregjax.families._distribution import Distribution
from bregjax.families._landscape import survey

__all__ = ["minimal_dimension"]


def minimal_dimension(family: Distribution) -> int:
    """The rank of ∇²ψ: the number of parameters of the family's minimal form.

    Directions count that have curvature at the start or at random points around it,
    as the rank may drop where θ is special.

    Raises:
        ValueError: If ψ or its derivatives are not finite at the start.
        TypeError: If the family has leaves that are traced.
    """
    if not is_concrete(family):
        raise TypeError(
            f"`num_parameters` of {type(family).__name__} is counted on the host, from "
            "known values: ask for it outside jit and vmap."
        )
    with on_host():
        seen = survey(family, np.random.default_rng(0))
        start = check_start(seen)
        if not start.passed:
            raise ValueError(f"`natural_init` must suit ψ. {start.sentence}")
        return seen.points.shape[1] - len(common_null(seen))
