"""The states of Gaussian clusters."""

from dataclasses import dataclass

from bregjax._pytree import register_pytree
from bregjax._typing import Array
from bregjax.clusters._moments import Moments

__all__ = ["GaussianState"]


@register_pytree
@dataclass(frozen=True)
class GaussianState:
    """States that hold weights, means and covariances.

    Attributes:
        weight: `[k]`.
        moments: Means and covariances Σ, `[k, ...]`.
        log_det: log det Σ, `[k]`.

    Examples:
        >>> import jax.numpy as jnp
        >>> moments = Moments(jnp.array([[0.0]]), jnp.array([[2.0]]), "diagonal")
        >>> state = GaussianState(jnp.ones(1), moments, jnp.log(jnp.array([2.0])))
        >>> print(state.log_det.round(3))
        [0.693]
    """

    weight: Array
    moments: Moments
    log_det: Array
