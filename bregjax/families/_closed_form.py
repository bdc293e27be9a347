"""Solutions of conjugates from closed forms."""

import jax.numpy as jnp

from bregjax._result import Result
from bregjax._typing import Array, PyTree
from bregjax.convex import ConjugateSolution

__all__ = ["all_finite", "closed_form", "variance_conjugate"]


def closed_form(
    value: Array, natural: PyTree, *, inside: Array, closure: Array, valid: Array
) -> ConjugateSolution:
    """The solution of a conjugate from a closed form, with the codes of the solver.

    Args:
        value: ψ*(μ), with its limits on the boundary.
        natural: The maximiser θ; ±inf where only a limit attains the value.
        inside: Whether μ is inside the mean domain.
        closure: Whether μ is inside or on the boundary.
        valid: Whether μ is free of NaN and inf.
    """
    codes = jnp.where(
        inside, Result.CONVERGED, jnp.where(closure, Result.BOUNDARY, Result.OUTSIDE)
    )
    return ConjugateSolution(
        value=jnp.where(valid, jnp.where(closure, value, jnp.inf), jnp.nan),
        maximiser=natural,
        result=jnp.where(valid, codes, Result.INVALID).astype(jnp.int32),
        num_steps=jnp.zeros((), jnp.int32),
        residual=jnp.zeros_like(value),
    )


def all_finite(*arrays: Array) -> Array:
    """Whether every entry of every array is finite."""
    return jnp.stack([jnp.all(jnp.isfinite(array)) for array in arrays]).all()


def variance_conjugate(
    mu: Array, second: Array, mu_squared: Array, dim: int
) -> ConjugateSolution:
    """ψ*(μ, E x²) from the variances v = (E x² − μ²) / d."""
    noise = 4 * jnp.finfo(mu.dtype).eps * mu_squared
    spread = second - mu_squared
    inside = spread > noise
    variance = jnp.where(inside, spread, dim) / dim
    value = jnp.where(inside, -0.5 * dim * (1 + jnp.log(variance)), jnp.inf)
    return closed_form(
        jnp.sum(value),
        (mu / variance, -0.5 / variance),
        inside=jnp.all(inside),
        closure=jnp.all(spread >= -noise),
        valid=all_finite(mu, second),
    )
