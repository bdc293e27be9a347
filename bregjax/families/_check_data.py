"""Tests of a family on data: the mean domain, the solver, the precision of ψ."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

from bregjax._result import Result
from bregjax._typing import Array
from bregjax.families._distribution import Distribution
from bregjax.families._finding import Finding
from bregjax.families._landscape import Landscape, psi_gradients, psi_values

__all__ = ["DataView", "check_data", "check_precision", "check_statistic"]

# How many rows, means of subsets and means of random θ are solved for.
_MOST_ROWS = 200
_SUBSETS = 8
_RANDOM_MEANS = 8

# Relative errors up to which a test passes, and what it guards.
_ROUND_TRIP = 1e-5  # of ∇ψ(θ(μ)): solutions in float64 are good to far less
_VALUE_ERROR = 1e-4  # of ψ in float32, relative to its terms: three digits are lost
_SLOPE_ERROR = 1e-3  # of ∇ψ in float32, relative to its size


@dataclass(frozen=True)
class DataView:
    """Solutions at statistics of rows, at means of subsets, at random means ∇ψ(θ).

    Attributes:
        rows: Indices of the rows, `[r]`.
        means: Mean parameters of rows, subsets and random θ, in this order, `[k, n]`.
        naturals: θ of these means, `[k, n]`.
        values: ψ* of these means, `[k]`.
        codes: `Result` codes, `[k]`.
        num_subsets: Number of subsets; the first subset is all the data.
    """

    rows: np.ndarray
    means: np.ndarray
    naturals: np.ndarray
    values: np.ndarray
    codes: np.ndarray
    num_subsets: int

    @property
    def usable(self) -> np.ndarray:
        """Whether θ is the natural parameter of the mean, `[k]`."""
        return (self.codes == Result.CONVERGED) & np.isfinite(self.naturals).all(axis=1)


@jax.jit
def _statistics(family: Distribution, x: Array) -> Array:
    return jax.vmap(lambda row: ravel_pytree(family.sufficient_statistics(row))[0])(x)


@jax.jit
def _solutions(family: Distribution, means: Array):
    _, unravel = ravel_pytree(family.natural_init)

    def solve(mean):
        solution = family.conjugate(unravel(mean))
        natural, _ = ravel_pytree(solution.maximiser)
        return natural, solution.value, solution.result

    return jax.vmap(solve)(means)


def check_data(
    family: Distribution, x: Any, seen: Landscape, rng: np.random.Generator
) -> tuple[list[Finding], DataView | None]:
    """Test the family on data; the view is None if T fails and nothing is solved."""
    fits, statistics = check_statistic(family, x)
    if not fits.passed:
        return [fits], None
    view = _view(family, statistics, seen, rng)
    findings = [fits, _describe_rows(family, x, view), _check_solver(view)]
    return [*findings, _check_round_trip(family, view)], view


def check_statistic(family: Distribution, x: Any) -> tuple[Finding, np.ndarray]:
    """Test that T is finite in every row; return T of the rows, too, `[m, n]`."""
    statistics = np.asarray(_statistics(family, x))
    bad = np.asarray(~np.isfinite(statistics).all(axis=1))
    if not bad.any():
        sentence = "T(x) fits θ and is finite in every row."
        return Finding("statistic", passed=True, sentence=sentence), statistics
    row = int(np.argmax(bad))
    finding = Finding(
        "statistic",
        passed=False,
        sentence=f"T(x) is not finite in {bad.sum()} of {len(bad)} rows, the first "
        f"of them row {row}, {np.asarray(x[row])}. Drop such rows, or write T so "
        "that it is finite on the sample space.",
    )
    return finding, statistics


def _view(
    family: Distribution,
    statistics: np.ndarray,
    seen: Landscape,
    rng: np.random.Generator,
) -> DataView:
    m = len(statistics)
    rows = np.sort(rng.permutation(m)[:_MOST_ROWS])
    subsets = [statistics.mean(axis=0)]
    for _ in range(_SUBSETS - 1):
        members = rng.permutation(m)[: max(2, (m + 1) // 2)]
        subsets.append(statistics[members].mean(axis=0))
    near = np.argsort(np.abs(seen.points - seen.points[0]).max(axis=1))[:_RANDOM_MEANS]
    means = np.concatenate([statistics[rows], np.stack(subsets), seen.gradients[near]])
    found = jax.tree.map(np.asarray, _solutions(family, means))
    return DataView(rows, means, *found, num_subsets=_SUBSETS)


def _describe_rows(family: Distribution, x: Any, view: DataView) -> Finding:
    """Test that rows lie in the mean domain, or that smoothing moves them there."""
    codes, values = view.codes[: len(view.rows)], view.values[: len(view.rows)]
    count = len(codes)
    outside = codes == Result.OUTSIDE
    if outside.any():
        row = int(view.rows[np.argmax(outside)])
        return Finding(
            "mean domain",
            passed=False,
            sentence=f"{outside.sum()} of {count} rows have statistics outside the "
            f"mean domain, where ψ* is +inf; the first is row {row}, "
            f"{np.asarray(x[row])}. "
            "No θ has such a mean: check the data against the family, and T against ψ.",
        )
    edge = codes == Result.BOUNDARY
    infinite = edge & ~np.isfinite(values)
    inside = np.sum(codes == Result.CONVERGED)
    if infinite.any():
        row = int(view.rows[np.argmax(infinite)])
        smoothing = family.default_smoothing(x, None)
        text = (
            f"{infinite.sum()} of {count} rows lie on the boundary of the mean domain, "
            f"where ψ* is +inf (the first is row {row}): smoothing is needed."
        )
        if smoothing is not None:
            name = type(smoothing).__name__
            text += f' smoothing="auto" does it, by {name}.'
        else:
            text += f" {family.smoothing_hint}."
        return Finding("mean domain", passed=smoothing is not None, sentence=text)
    if edge.any():
        return Finding(
            "mean domain",
            passed=True,
            sentence=f"{inside} of {count} rows lie inside the mean domain and "
            f"{edge.sum()} on its boundary, where ψ* is finite: no smoothing is "
            "needed.",
        )
    return Finding(
        "mean domain",
        passed=True,
        sentence=f"{inside} of {count} rows lie inside the mean domain: no smoothing "
        "is needed.",
    )


def _check_solver(view: DataView) -> Finding:
    """Test that no solve failed, and that random means, which are inside, converged."""
    failed = np.isin(view.codes, (Result.STEP_LIMIT, Result.STALLED, Result.INVALID))
    inside = np.arange(len(view.codes)) >= len(view.rows) + view.num_subsets
    failed |= inside & (view.codes != Result.CONVERGED)
    if not failed.any():
        return Finding(
            "solver",
            passed=True,
            sentence=f"The conjugate was found at all {len(failed)} means tried: of "
            "rows, of subsets and of random θ.",
        )
    first = int(np.argmax(failed))
    code = Result(int(view.codes[first]))
    return Finding(
        "solver",
        passed=False,
        sentence=f"The conjugate was not found at {failed.sum()} of {len(failed)} "
        f"means; the first is {view.means[first]} ({code.name}). Write ψ so that it "
        "neither overflows nor cancels; start nearer to the data; rescale the "
        "statistics.",
    )


def _check_round_trip(family: Distribution, view: DataView) -> Finding:
    """Test that ∇ψ(θ(μ)) = μ where θ was found."""
    solved = view.usable
    means = np.asarray(psi_gradients(family, view.naturals[solved]))
    size = np.abs(view.means[solved]) + np.abs(means) + 1e-12
    # A small component comes back only to the rounding of the largest component.
    size += 1e-3 * np.max(size, axis=1, keepdims=True, initial=0)
    gap = np.max(np.abs(means - view.means[solved]) / size, initial=0)
    passed = bool(gap < _ROUND_TRIP)
    return Finding(
        "round trip",
        passed=passed,
        sentence=f"∇ψ(θ(μ)) returns μ to {gap:.1e}, relative, at {solved.sum()} means."
        if passed
        else f"∇ψ(θ(μ)) misses μ by {gap:.1e}, relative: ψ, its gradient and its "
        "conjugate do not belong together. Check overrides and custom derivatives.",
    )


def check_precision(family: Distribution, seen: Landscape, view: DataView) -> Finding:
    """Test ψ and ∇ψ in float32 against float64, near θ of the data."""
    solved = view.naturals[view.usable]
    near = seen.points[seen.whole]
    points = np.concatenate([solved, near]).astype(np.float32)
    with jax.enable_x64(False):
        low_values = np.asarray(psi_values(family, points), np.float64)
        low_slopes = np.asarray(psi_gradients(family, points), np.float64)
    exact = points.astype(np.float64)
    values = np.asarray(psi_values(family, exact))
    slopes = np.asarray(psi_gradients(family, exact))
    inner = np.abs(slopes * exact).sum(axis=1)
    terms = 1e-3 + np.abs(values) + inner
    size = np.abs(slopes) + np.max(np.abs(slopes), axis=1, keepdims=True) + 1e-3
    off = np.abs(low_values - values) > _VALUE_ERROR * terms
    off |= (np.abs(low_slopes - slopes) > _SLOPE_ERROR * size).any(axis=1)
    lost = ~np.isfinite(low_values) | ~np.isfinite(low_slopes).all(axis=1)
    known = np.isfinite(values) & np.isfinite(slopes).all(axis=1)
    lost, off = lost & known, off & known & ~lost
    remedy = (
        "Trees from eager calls on a CPU are computed in float64; on an accelerator or "
        "under your own `jit` they would suffer. Write ψ with log1p, expm1, logsumexp "
        "or softplus, so that no term overflows or cancels."
    )
    if lost.any() or not known.all():
        where = points[np.argmax(lost | ~known)]
        kind = "float32" if lost.any() else "float64"
        return Finding(
            "precision",
            passed=False,
            sentence=f"ψ or ∇ψ overflows in {kind} at {np.sum(lost | ~known)} of "
            f"{len(points)} natural parameters, such as {where}. {remedy}",
        )
    if off.any():
        return Finding(
            "precision",
            passed=False,
            sentence=f"ψ or ∇ψ loses its digits in float32 at {off.sum()} of "
            f"{len(points)} natural parameters, such as {points[np.argmax(off)]}. "
            f"{remedy}",
        )
    return Finding(
        "precision",
        passed=True,
        sentence=f"ψ and ∇ψ agree in float32 and float64 at {len(points)} natural "
        "parameters.",
    )
