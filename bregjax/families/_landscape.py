"""Values and derivatives of ψ at its start and at random points around it."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from bregjax._typing import Array
from bregjax.families._distribution import Distribution

__all__ = ["Landscape", "glance", "psi_gradients", "psi_values", "survey"]

_RADII = (0.3, 1.0, 3.0)  # in units of 1 / (standard deviation of the statistic)
_LARGE = 200  # with more parameters fewer points are drawn


@dataclass(frozen=True)
class Landscape:
    """ψ, ∇ψ and ∇²ψ at the start (first) and at random points around it.

    Attributes:
        points: Raveled θ with finite ψ, `[k, n]`.
        values: `[k]`.
        gradients: `[k, n]`.
        hessians: `[k, n, n]`.
        names: Names of the n coordinates of θ.
    """

    points: np.ndarray
    values: np.ndarray
    gradients: np.ndarray
    hessians: np.ndarray
    names: tuple[str, ...]

    @property
    def whole(self) -> np.ndarray:
        """Whether the Hessian is finite, `[k]`."""
        return np.asarray(np.isfinite(self.hessians).all(axis=(1, 2)))


def psi_at(family: Distribution, theta: Array) -> Array:
    """ψ of a raveled θ, scalar."""
    _, unravel = ravel_pytree(family.natural_init)
    return family.log_partition(unravel(theta))


@jax.jit
def psi_values(family: Distribution, points: Array) -> Array:
    """ψ at points `[k, n]`."""
    return jax.vmap(lambda theta: psi_at(family, theta))(points)


@jax.jit
def psi_gradients(family: Distribution, points: Array) -> Array:
    """∇ψ at points `[k, n]`."""
    return jax.vmap(jax.grad(lambda theta: psi_at(family, theta)))(points)


@jax.jit
def _hessians(family: Distribution, points: Array) -> Array:
    hessian = jax.hessian(lambda theta: psi_at(family, theta))
    return jax.lax.map(hessian, points)


@jax.jit
def _curvatures(family: Distribution, start: Array) -> Array:
    """∂²ψ/∂θ_i² at one point, `[n]`."""
    slope = jax.grad(lambda theta: psi_at(family, theta))
    along = lambda axis: jax.jvp(slope, (start,), (axis,))[1] @ axis
    return jax.lax.map(along, jnp.eye(start.size, dtype=start.dtype))


def survey(family: Distribution, rng: np.random.Generator) -> Landscape:
    """Evaluate ψ, ∇ψ and ∇²ψ at the start and at random points of finite ψ."""
    start = _start_of(family)
    hessian = np.asarray(_hessians(family, start[None]))[0]
    points = _points_around(family, start, np.diagonal(hessian), rng)
    return _landscape(family, points, np.asarray(_hessians(family, points)))


def glance(family: Distribution, rng: np.random.Generator) -> Landscape:
    """Evaluate ψ and ∇ψ at the points of `survey`; Hessians are `[k, 0, 0]`."""
    start = _start_of(family)
    points = _points_around(family, start, np.asarray(_curvatures(family, start)), rng)
    return _landscape(family, points, np.zeros((len(points), 0, 0)))


def _start_of(family: Distribution) -> np.ndarray:
    return np.asarray(ravel_pytree(family.natural_init)[0], np.float64)


def _points_around(
    family: Distribution,
    start: np.ndarray,
    curvature: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """The start and random points at a few radii, halved until ψ is finite."""
    count = 24 if start.size <= _LARGE else 6
    usable = np.isfinite(curvature) & (curvature != 0)
    unit = np.where(usable, 1 / np.sqrt(np.where(usable, np.abs(curvature), 1)), 1)
    radii = np.resize(_RADII, count)[:, None]
    moves = np.zeros((count + 1, start.size))
    moves[1:] = radii * unit * rng.normal(size=(count, start.size))
    for _ in range(40):
        lost = ~np.isfinite(np.asarray(psi_values(family, start + moves)))
        if not lost[1:].any():
            break
        moves = np.where(lost[:, None], moves / 2, moves)
    return start + moves


def _landscape(
    family: Distribution, points: np.ndarray, hessians: np.ndarray
) -> Landscape:
    values = np.asarray(psi_values(family, points))
    gradients = np.asarray(psi_gradients(family, points))
    names = coordinate_names(family.natural_init)
    return Landscape(points, values, gradients, hessians, names)


def coordinate_names(natural: Any) -> tuple[str, ...]:
    """A name for each of the n coordinates of θ: `θ[0]`, `θ[1][2, 0]`."""
    names = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(natural):
        prefix = "θ" + jax.tree_util.keystr(path)
        for index in np.ndindex(np.shape(leaf)):
            place = ", ".join(map(str, index))
            names.append(f"{prefix}[{place}]" if index else prefix)
    return tuple(names)
