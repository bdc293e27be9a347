"""Smoothing maps made from amounts, bandwidths and rules, with their checks."""

from typing import cast

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._checks import check_finite, check_weights, float_array, is_concrete
from bregjax._typing import Array, DataLike, PyTree
from bregjax.clusters import Moments
from bregjax.smoothing._maps import (
    Adding,
    Blur,
    Constraint,
    Mixing,
    PseudoCount,
)

__all__ = [
    "adding",
    "bernstein",
    "bernstein_amount",
    "blur",
    "mixing",
    "normal_reference",
    "pseudo_count",
]


Constraints = tuple[Constraint, ...]


def mixing(
    center: PyTree, amount: DataLike, *, center_constraint: Constraints | None = None
) -> Mixing:
    """Smooth by mixing: τ ↦ (1 − α) τ + α z, with z inside the mean domain.

    For a Gaussian leaf (mean x, covariance C) and a center (μ₀, S₀), in centered form:
    mean (1−α)x + αμ₀, covariance (1−α)C + αS₀ + α(1−α)(x−μ₀)(x−μ₀)ᵀ.

    Whether the center lies in the mean domain is checked where the family is known, by
    `Problem`.

    Args:
        center: z, in the form of the sufficient statistics of one row; `Moments` for
            Gaussians with a free covariance.
        amount: α, strictly between 0 and 1.
        center_constraint: A constraint for each leaf of the center; tuning leaves the
            center as it is if None.

    Returns:
        A map with leaves `center` and `amount`.

    Raises:
        ValueError: If `amount` is not strictly between 0 and 1.

    Examples:
        >>> import numpy as np
        >>> smoothing = mixing(np.array([0.5, 0.5]), 0.2)
        >>> smoothing
        mixing(center=0.5 each, amount=0.2)
        >>> print(smoothing(np.array([[1.0, 0.0]]), np.ones(1))[0])
        [[0.9 0.1]]

    References:
        Telgarsky and Dasgupta (2012), Theorem 5.2.
    """
    _check_amount("amount", amount, upper=1.0, scalar=True)
    return Mixing(_arrays(center), float_array(amount, "amount"), center_constraint)


def adding(
    center: PyTree,
    amount: DataLike = 1.0,
    *,
    center_constraint: Constraints | None = None,
) -> Adding:
    """Smooth by adding: τ ↦ τ + α z, for a mean domain that recedes along z.

    αz must lie in the recession cone of the mean domain, with cl(S) + αz inside its
    interior: for Gaussians (mean 0, covariance positive definite); for the exponential
    family and Poisson z > 0; for the gamma (log-mean −1, mean 0) and for the inverse
    Gaussian (mean 0, mean of 1/x 1), say. That is checked where the family is known, by
    `Problem`.

    Args:
        center: z, in the form that `mixing` takes.
        amount: α > 0.
        center_constraint: As for `mixing`.

    Returns:
        A map with leaves `center` and `amount`.

    Raises:
        ValueError: If `amount` is not positive, or a Gaussian center has a mean part
            (the mean domain does not recede along means) or is not positive definite.

    Examples:
        >>> import numpy as np
        >>> smoothing = adding(np.array([1.0, 1.0]), 0.1)
        >>> print(smoothing(np.array([[0.0, 3.0]]), np.ones(1))[0])
        [[0.1 3.1]]

    References:
        Telgarsky and Dasgupta (2012), Theorem 5.2.
    """
    _check_amount("amount", amount, scalar=True)
    if isinstance(center, Moments) and is_concrete(center):
        _check_gaussian_direction(center)
    return Adding(_arrays(center), float_array(amount, "amount"), center_constraint)


def pseudo_count(
    center: PyTree, count: DataLike, *, center_constraint: Constraints | None = None
) -> PseudoCount:
    """Smooth by pseudo-observations: weight w + n₀, statistic (w τ + n₀ z) / (w + n₀).

    The MAP estimate under a conjugate prior whose strength grows with the number of
    leaves of a cluster. A prior counted once a cluster would make merge costs negative.
    Whether the center lies in the mean domain is checked as for `mixing`.

    Args:
        center: z, in the form that `mixing` takes, inside the mean domain.
        count: n₀ > 0, in the units of the weights.
        center_constraint: As for `mixing`.

    Returns:
        A map with leaves `center` and `count`.

    Raises:
        ValueError: If `count` is not positive.

    Examples:
        >>> import numpy as np
        >>> smoothing = pseudo_count(np.array([0.5, 0.5]), 1.0)
        >>> statistics, weights = smoothing(np.array([[1.0, 0.0]]), np.ones(1))
        >>> print(statistics, weights)
        [[0.75 0.25]] [2.]

    References:
        Telgarsky and Dasgupta (2012), Section 5.
    """
    _check_amount("count", count, scalar=True)
    return PseudoCount(_arrays(center), float_array(count, "count"), center_constraint)


def blur(bandwidth: DataLike) -> Blur:
    """Smooth Gaussian leaves by a kernel: every covariance gets H added.

    `adding` with z = (0, H), by the bandwidth.

    Args:
        bandwidth: h scalar for H = h² I, `[d]` for H = diag(h²), or a factor B `[d, d]`
            for H = B Bᵀ; in the units of the data.

    Returns:
        A map with the leaf `bandwidth`.

    Raises:
        ValueError: If a scalar or vector bandwidth is not positive, or a matrix is not
            square.

    Examples:
        >>> print(blur([0.5, 2.0]).bandwidth)
        [0.5 2. ]
    """
    shape = np.shape(bandwidth)
    if len(shape) > 2 or (len(shape) == 2 and shape[0] != shape[1]):
        raise ValueError(
            "`bandwidth` must be a scalar, one number a column, or a square factor of "
            f"the kernel's covariance; got shape {shape}."
        )
    if len(shape) < 2:
        _check_amount("bandwidth", bandwidth)
    return Blur(float_array(bandwidth, "bandwidth"))


def normal_reference(
    x: DataLike, *, per_coordinate: bool = False, weights: DataLike | None = None
) -> Blur:
    """Normal-reference bandwidths for kernel smoothing: Example 5.4.

    h_k = s_k (4 / ((d + 2) m))^(1 / (d + 4)), s_k the standard deviation of column k
    (ddof 1). With weights, m is their sum and s_k the deviation of rows repeated that
    often. A constant column has no scale of its own: its h is 1 (on which the costs of
    `per_coordinate` do not depend) and is left out of the mean. Cells of NaN are
    missing: s_k and m are those of the cells that the column has.

    Args:
        x: Data `[m, d]`, NaN where a cell is missing.
        per_coordinate: True for the paper's `-nd`, one bandwidth h_k a column; False
            for its `-n`, the mean of the h_k for all columns.
        weights: Weights of rows as counts, `[m]`; 1 each by default.

    Returns:
        The map of `blur` with bandwidth `[d]`, or scalar.

    Raises:
        ValueError: If `x` is not a matrix or infinite, or weights add up to 1 or less.

    Examples:
        >>> import numpy as np
        >>> x = np.array([[0.0, 0.0], [2.0, 20.0]])
        >>> print(normal_reference(x, per_coordinate=True).bandwidth.round(4))
        [ 1.2599 12.5992]
        >>> print(normal_reference(x).bandwidth)
        6.9296

    References:
        Bowman and Azzalini (1997), Section 2.4.2; Telgarsky and Dasgupta (2012),
        Example 5.4.
    """
    shape = np.shape(x)
    if len(shape) != 2 or shape[0] == 0:
        raise ValueError(
            f"`x` must be a matrix with a row a point; got shape {shape}. Reshape one "
            "column to x[:, None]."
        )
    if is_concrete(x):
        check_finite("x", x, missing=True)
    if weights is not None:
        check_weights(weights, shape[0])
        if is_concrete(weights) and shape[0] > 1 and not np.sum(weights) > 1:
            raise ValueError(
                f"`weights` count as numbers of rows here; got a sum of "
                f"{float(np.sum(weights)):g}, and a deviation needs more than 1. Scale "
                "the weights, or give the smoothing explicitly."
            )
    weights = np.ones(shape[0]) if weights is None else weights
    xp = np if is_concrete((x, weights)) else jnp
    x, weights = float_array(x), float_array(weights, "weights")

    seen = ~xp.isnan(x)
    total = weights @ seen.astype(x.dtype)
    some = xp.where(total > 0, total, 1)
    # Overflow and underflow here come again in the costs, whose error names them.
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        centered = x - (weights @ xp.where(seen, x, 0) / some)[None]
        centered = xp.where(seen, centered, 0)
        # The second centering takes out the rounding of the first.
        centered = centered - (weights @ centered / some)[None]
        centered = xp.where(seen, centered, 0)
        variance = weights @ centered**2 / xp.where(total > 1, total - 1, 1)
    high = xp.max(xp.where(seen, x, -np.inf), axis=0)
    low = xp.min(xp.where(seen, x, np.inf), axis=0)
    constant = high <= low
    scale = xp.sqrt(xp.where(constant, 1, variance))
    d = shape[1]
    bandwidth = scale * (4 / ((d + 2) * some)) ** (1 / (d + 4))
    if per_coordinate:
        return Blur(cast(Array, xp.where(constant, 1.0, bandwidth)))
    varying = xp.sum((~constant).astype(bandwidth.dtype))
    mean = xp.sum(xp.where(constant, 0, bandwidth)) / xp.maximum(varying, 1)
    return Blur(cast(Array, xp.where(varying == 0, 1.0, mean)))


def bernstein(
    num_categories: int, sample_size: DataLike, *, delta: float = 0.05
) -> Mixing:
    """Mix proportions towards the uniform ones by a Bernstein bound: Example 5.3.

    With probability 1 − δ the share of a category of probability p = 1/n in a sample of
    size N exceeds p by no more than b = √(2 p (1 − p) L / N) + L / (3 N), L = ln(1/δ).
    The amount is α = n b / (1 + n b): an empty category gets α / n = b / (1 + n b).

    Args:
        num_categories: n, the number of categories.
        sample_size: N, the size of the whole sample (fixed, never a cluster's): the
            number of rows, as in the paper's experiments, or of all that they count,
            with which the amount is smaller.
        delta: δ in (0, 1).

    Returns:
        The map of `mixing` towards (1/n, …, 1/n). `tune_smoothing` tunes its center as
        well as its amount; `mixing(center, amount)` keeps the center.

    Raises:
        ValueError: If n < 2, N is not positive or δ is not in (0, 1).

    Examples:
        >>> smoothing = bernstein(2, 100)
        >>> print(smoothing.center, smoothing.amount)
        [0.5 0.5] 0.2093

    References:
        Telgarsky and Dasgupta (2012), Example 5.3, with the constants of Bernstein's
        inequality.
    """
    if num_categories < 2:
        raise ValueError(f"`num_categories` must be at least 2; got {num_categories}.")
    _check_amount("sample_size", sample_size)
    _check_amount("delta", delta, upper=1.0)
    uniform = np.full(num_categories, 1 / num_categories)
    amount = bernstein_amount(num_categories, sample_size, delta=delta)
    return Mixing(uniform, amount, (Constraint.SIMPLEX,))


def bernstein_amount(
    num_categories: int, sample_size: DataLike, *, delta: float
) -> Array:
    """The α of `bernstein`, with its arguments.

    Examples:
        >>> print(bernstein_amount(2, 100, delta=0.05))
        0.2093
    """
    p = 1 / num_categories
    size = float_array(sample_size)
    log_term = np.log(1 / delta)
    bound = (2 * p * (1 - p) * log_term / size) ** 0.5 + log_term / (3 * size)
    return num_categories * bound / (1 + num_categories * bound)


def _arrays(tree: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: float_array(leaf, "center"), tree)


def _check_amount(
    name: str, value: DataLike, *, upper: float = np.inf, scalar: bool = False
) -> None:
    if scalar and np.ndim(value) != 0:
        raise ValueError(
            f"`{name}` must be one number for all points; got shape {np.shape(value)}."
        )
    if not is_concrete(value):
        return
    array = np.asarray(float_array(value, name))
    if np.all(array > 0) and np.all(array < upper):
        return
    rule = "positive" if upper == np.inf else f"strictly between 0 and {upper:g}"
    raise ValueError(f"`{name}` must be {rule}; got {array}.")


def _check_gaussian_direction(center: Moments) -> None:
    mean, covariance = np.asarray(center.mean), np.asarray(center.covariance)
    if np.any(mean != 0):
        raise ValueError(
            "`center` must have mean 0 to be added to Gaussians (their mean domain "
            f"recedes only along covariances); got mean {mean}. Use mixing to move "
            "means."
        )
    values = np.linalg.eigvalsh(covariance) if center.form == "full" else covariance
    if not np.all(values > 0):
        raise ValueError(
            "`center` must have a positive definite covariance; its smallest "
            f"eigenvalue is {np.min(values):g}."
        )
