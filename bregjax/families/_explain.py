"""Quick diagnostics of a ψ, to explain why a solver failed."""

import jax
import numpy as np

from bregjax._checks import is_concrete
from bregjax._typing import DataLike
from bregjax.families._base import Family
from bregjax.families._check_data import check_statistic
from bregjax.families._check_psi import check_chords, check_separable, check_start
from bregjax.families._finding import Finding
from bregjax.families._landscape import Landscape, glance

__all__ = ["explain_failure"]

_WIDEST = 2000  # the most parameters for which ψ is tested


def explain_failure(family: Family, x: DataLike) -> str | None:
    """Find the first fault of a user's ψ by the quick tests of `Family.check`.

    Faults are sought in this order: T does not fit θ, or is not finite; ψ or ∇ψ is not
    finite at the start, or ψ not around the start; ψ is not convex; ψ is not separable
    although it claims to be. Two dozen random points and no solves: about a second,
    most of it compilation.

    Args:
        family: The family whose rows or costs failed.
        x: Data, a row a point.

    Returns:
        A sentence or two on the fault and the remedy, as in `Family.check`; None if no
        fault was found, if the family has a closed form, or if values are traced.
    """
    if not family.solves or not is_concrete((family, x)):
        return None
    with jax.enable_x64(True):
        try:
            family = family.for_data(x)
            family.check_support(x)
        except ValueError as error:
            return str(error)
        rows = np.asarray(family.as_rows(x), np.float64)
        finding = _first_fault(family, rows)
    return None if finding is None else finding.sentence


def _first_fault(family: Family, rows: np.ndarray) -> Finding | None:
    statistic, _ = check_statistic(family, rows)
    if not statistic.passed:
        return statistic
    rng = np.random.default_rng(0)
    seen = glance(family, rng)
    if seen.points.shape[1] > _WIDEST:
        return None
    for test in (check_start, _check_around):
        finding = test(seen)
        if not finding.passed:
            return finding
    finding = check_chords(family, seen)
    if finding.passed and family.separable and seen.points.shape[1] > 1:
        finding = check_separable(family, seen, rng)
    return None if finding.passed else finding


def _check_around(seen: Landscape) -> Finding:
    """Test that ψ and ∇ψ are finite on all sides of the start."""
    lost = ~np.isfinite(seen.values) | ~np.isfinite(seen.gradients).all(axis=1)
    return Finding(
        "start",
        passed=not lost.any(),
        sentence=f"ψ or ∇ψ is not finite in {lost.sum()} of {len(lost)} random "
        "directions around `natural_init`, however near: choose a θ inside the domain "
        "of ψ, and guard the arguments of functions that fail there, not their values "
        "alone.",
    )
