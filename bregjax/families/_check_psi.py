"""Tests of ψ by itself: finite, convex, overcomplete, separable."""

import numpy as np

from bregjax.families._distribution import Distribution
from bregjax.families._finding import Finding
from bregjax.families._landscape import Landscape, psi_gradients, psi_values

__all__ = ["check_chords", "check_psi", "check_separable", "check_start", "common_null"]

# What counts as rounding in float64, as a share of the size of what is compared. The
# faults that the tests look for are orders of magnitude larger.
_NULL = 1e-12  # of a curvature, times n
_BULGE = 1e-10  # by which ψ may lie above a chord
_DESCENT = 1e-8  # by which a slope may decrease along a segment
_NEGATIVE = 1e-6  # of a scaled eigenvalue of the Hessian
_KINK = 1e-8  # by which slopes may change along a direction without curvature
_COUPLED = 1e-9  # by which a slope may change with other coordinates
_COEFFICIENT = 1e-6  # of a coefficient of an overcomplete direction

_MOST_NAMED = 4  # overcomplete directions that a sentence names


def check_psi(family: Distribution, seen: Landscape, rng: np.random.Generator):
    """Test ψ alone.

    Returns:
        The findings, and the overcomplete directions `[r, n]`, with few and simple
        coefficients.
    """
    start = check_start(seen)
    if not start.passed:
        return [start], np.zeros((0, seen.points.shape[1]))
    null = common_null(seen)
    findings = [start, _check_convex(family, seen), _check_pieces(family, seen, null)]
    directions = _readable(null)
    findings.append(_describe_null(directions, seen.names))
    if seen.points.shape[1] > 1:
        findings.append(check_separable(family, seen, rng))
    return findings, directions


def check_start(seen: Landscape) -> Finding:
    """Test that ψ, ∇ψ and ∇²ψ are finite at the start."""
    bad = ~np.isfinite(seen.gradients[0])
    if not np.isfinite(seen.values[0]):
        return Finding(
            "start",
            passed=False,
            sentence=f"ψ is {seen.values[0]} at `natural_init`: choose a θ inside its "
            "domain.",
        )
    if bad.any():
        name = seen.names[int(np.argmax(bad))]
        return Finding(
            "start",
            passed=False,
            sentence=f"∇ψ is not finite at `natural_init` (in {name}), although ψ is: "
            "a `jnp.where` that guards the value does not guard the derivative. Guard "
            "the argument of the function that fails as well, or move the start.",
        )
    if not np.isfinite(seen.hessians[0]).all():
        return Finding(
            "start",
            passed=False,
            sentence="∇²ψ is not finite at `natural_init`, although ∇ψ is. Write ψ "
            "with functions that are twice differentiable there, or move the start.",
        )
    return Finding("start", passed=True, sentence="ψ and ∇ψ are finite at the start.")


_CONVEX = (
    "A log-partition function is convex on all of its domain: check its sign and its "
    "formula, and return inf outside the domain, jnp.where(inside, ψ, jnp.inf)."
)


def check_chords(family: Distribution, seen: Landscape) -> Finding:
    """Test convexity at midpoints of segments, and that gradients are monotone."""
    a, b = seen.points, np.roll(seen.points, -1, axis=0)
    middle = np.asarray(psi_values(family, (a + b) / 2))
    next_value = np.roll(seen.values, -1)
    if not np.isfinite(middle).all():
        return Finding(
            "convex",
            passed=False,
            sentence="ψ is not finite between two points where it is finite: its "
            f"domain is not convex. {_CONVEX}",
        )
    size = np.abs(seen.values) + np.abs(next_value) + np.abs(middle)
    bulge = middle - (seen.values + next_value) / 2 > _BULGE * (size + 1e-3)
    next_slope = np.roll(seen.gradients, -1, axis=0)
    steps = np.einsum("kn,kn->k", next_slope - seen.gradients, b - a)
    terms = np.einsum("kn,kn->k", np.abs(next_slope), np.abs(b - a))
    bulge |= steps < -_DESCENT * terms
    if bulge.any():
        return Finding(
            "convex",
            passed=False,
            sentence=f"ψ is not convex: on {bulge.sum()} of {len(bulge)} random "
            f"segments around the start it lies above its chord. {_CONVEX}",
        )
    return Finding("convex", passed=True, sentence="ψ lies below its chords.")


def _check_convex(family: Distribution, seen: Landscape) -> Finding:
    """Test convexity by chords, and by eigenvalues of the Hessian."""
    chords = check_chords(family, seen)
    if not chords.passed:
        return chords
    whole = seen.whole
    least = np.array([_scaled_eigh(h)[0].min() for h in seen.hessians[whole]])
    if (least < -_NEGATIVE).any():
        return Finding(
            "convex",
            passed=False,
            sentence=f"∇²ψ has a negative eigenvalue ({least.min():.2g} in units of "
            f"its diagonal) at {np.sum(least < -_NEGATIVE)} of {len(least)} points. "
            f"{_CONVEX}",
        )
    if not whole.all():
        return Finding(
            "convex",
            passed=False,
            sentence=f"∇²ψ is not finite at {np.sum(~whole)} of {len(whole)} points "
            "where ψ is: it overflows or a guard is missing. Write ψ so that its "
            "terms stay finite (log1p, expm1, logsumexp, softplus).",
        )
    return Finding(
        "convex",
        passed=True,
        sentence=f"ψ is convex at {len(whole)} points around the start.",
    )


def _scaled_eigh(hessian: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Eigenvalues and vectors of D⁻¹HD⁻¹, and the diagonal of D = diag(|H|)^½."""
    diagonal = np.abs(np.diagonal(hessian))
    scale = np.sqrt(np.where(diagonal > 0, diagonal, 1))
    scaled = hessian / scale / scale[:, None]
    values, vectors = np.linalg.eigh((scaled + scaled.T) / 2)
    return values, vectors, scale


def common_null(seen: Landscape) -> np.ndarray:
    """Orthonormal basis `[r, n]` of directions without curvature at any point."""
    whole = seen.whole
    diagonal = np.abs(np.diagonal(seen.hessians[0]))
    scale = np.where(diagonal > 0, diagonal, 1)
    total = np.zeros_like(seen.hessians[0])
    for hessian in seen.hessians[whole]:
        # Large Hessians are scaled down. Small ones are not scaled up, nor is their
        # rounding.
        total += hessian / max(1.0, np.max(np.abs(np.diagonal(hessian)) / scale))
    values, vectors, scale = _scaled_eigh(total)
    basis = vectors[:, values <= len(values) * _NULL].T / scale
    return np.linalg.qr(basis.T)[0].T


def _check_pieces(family: Distribution, seen: Landscape, null: np.ndarray) -> Finding:
    """Test that ψ has no linear pieces and no kinks.

    Directions without curvature must be the same at all points, and ∇ψ must not change
    along them.
    """
    sentence = (
        "ψ has linear pieces: along {} it has no curvature {}. Means and natural "
        "parameters do not correspond there. A log-partition function is smooth and, "
        "off its overcomplete directions, strictly convex."
    )
    whole = seen.whole
    for hessian in seen.hessians[whole]:
        values, vectors, scale = _scaled_eigh(hessian)
        flat = vectors[:, values <= len(values) * _NULL].T / scale
        if len(flat) > len(null):
            rest = flat - flat @ null.T @ null
            rest = rest[np.argmax(np.linalg.norm(rest, axis=1))]
            name = _combination(rest / np.abs(rest).max(), seen.names)
            where = "near one point and has it near others"
            return Finding(
                "pieces", passed=False, sentence=sentence.format(name, where)
            )
    if len(null):
        ends = np.concatenate([s * null for s in (-3.0, -1.0, 1.0, 3.0)])
        ends = ends[np.isfinite(psi_values(family, seen.points[0] + ends))]
        slopes = np.asarray(psi_gradients(family, seen.points[0] + ends))
        change = np.abs(np.sum((slopes - seen.gradients[0]) * ends, axis=1))
        size = np.sum(np.abs(seen.gradients[0]) + np.abs(slopes), axis=1)
        kinked = change > _KINK * size
        if kinked.any():
            move = ends[np.argmax(kinked)]
            name = _combination(move / np.abs(move).max(), seen.names)
            where = "although its slope changes: it has kinks"
            return Finding(
                "pieces", passed=False, sentence=sentence.format(name, where)
            )
    return Finding("pieces", passed=True, sentence="ψ has no linear pieces or kinks.")


def _readable(basis: np.ndarray) -> np.ndarray:
    """The reduced row echelon form, whose coefficients are few and simple."""
    rows, lead = basis.copy(), 0
    for column in range(basis.shape[1]):
        if lead == len(rows):
            break
        pivot = lead + int(np.argmax(np.abs(rows[lead:, column])))
        if abs(rows[pivot, column]) < _COEFFICIENT:
            continue
        rows[[lead, pivot]] = rows[[pivot, lead]]
        rows[lead] /= rows[lead, column]
        others = np.arange(len(rows)) != lead
        rows[others] -= np.outer(rows[others, column], rows[lead])
        lead += 1
    return np.where(np.abs(rows) < _COEFFICIENT, 0, rows)


def _combination(row: np.ndarray, names: tuple[str, ...]) -> str:
    """A linear combination in words: `θ[0] + θ[1] − 2 θ[2]`."""
    text = ""
    terms = [
        (c, name) for c, name in zip(row, names, strict=True) if abs(c) > _COEFFICIENT
    ]
    for coefficient, name in terms[:8]:
        size = f"{abs(coefficient):.3g}"
        sign = "−" if coefficient < 0 else "+"
        text += f" {sign} " + (name if size == "1" else f"{size} {name}")
    text = text.removeprefix(" + ").strip()
    return text + (" + …" if len(terms) > 8 else "")


def _describe_null(directions: np.ndarray, names: tuple[str, ...]) -> Finding:
    """Name the overcomplete directions of θ."""
    if not len(directions):
        return Finding(
            "overcomplete",
            passed=True,
            sentence="The parameters are minimal: no direction leaves the distribution "
            "as it is.",
        )
    named = [_combination(row, names) for row in directions[:_MOST_NAMED]]
    more = len(directions) - len(named)
    return Finding(
        "overcomplete",
        passed=True,
        sentence=f"The parameters are overcomplete in {len(directions)} "
        f"direction{'s' * (len(directions) > 1)}: θ moves along "
        f"{'; '.join(named)}{f'; and {more} more' if more else ''} without a change of "
        "the distribution. Costs do not depend on it.",
    )


def check_separable(
    family: Distribution, seen: Landscape, rng: np.random.Generator
) -> Finding:
    """Test that ∂ψ/∂θ_i depends on θ_i alone.

    Random coordinates take values of another point, and the slopes by the others must
    not change.
    """
    keep = rng.uniform(size=seen.points.shape) < 0.5
    mixed = np.where(keep, seen.points, np.roll(seen.points, -1, axis=0))
    slopes = np.asarray(psi_gradients(family, mixed))
    gap = np.abs(slopes - seen.gradients)
    size = np.abs(slopes) + np.abs(seen.gradients) + 1e-12
    known = np.isfinite(gap)
    holds = not (keep & known & (gap > _COUPLED * size)).any()
    if family.separable:
        return Finding(
            "separable",
            passed=holds,
            sentence="ψ is a sum over coordinates, as claimed."
            if holds
            else "ψ is not a sum over coordinates, against `separable=True`: a slope "
            "∂ψ/∂θ_i changes with other coordinates, and costs would be wrong. Leave "
            "`separable` out.",
        )
    return Finding(
        "separable",
        passed=True,
        sentence="ψ is a sum over coordinates: `separable=True` is true of it and "
        "faster."
        if holds
        else "ψ is not a sum over coordinates, and does not claim to be.",
    )
