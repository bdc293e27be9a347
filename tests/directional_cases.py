"""Functions of four numbers with kinks, and points and directions that meet them."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

WEIGHTS = np.array([3.0, 2.0, 1.0, 0.5])

POINTS = np.array(
    [
        [0.0, 0.0, 0.0, 0.0],
        [1.0, 1.0, 2.0, 2.0],
        [0.0, -1.0, 1.0, 0.0],
        [-1.0, -1.0, -1.0, 2.0],
        [0.3, -0.7, 1.9, -2.2],
    ]
)
GENERIC = 4
DIRECTIONS = np.concatenate(
    [
        np.random.default_rng(7).normal(size=(3, 4)),
        [[1.0, 1.0, 0.0, -1.0], [0.0, -1.0, 2.0, 0.0]],
    ]
)


@jax.custom_jvp
def _custom_jvp(x):
    return jnp.sum(jnp.abs(x))


@_custom_jvp.defjvp
def _custom_jvp_rule(primals, tangents):
    return _custom_jvp(*primals), jnp.sign(primals[0]) @ tangents[0]


@jax.custom_vjp
def _custom_vjp(x):
    return jnp.sum(jnp.abs(x))


_custom_vjp.defvjp(lambda x: (_custom_vjp(x), x), lambda x, g: (g * jnp.sign(x),))


def _steps(a):
    """A loop whose number of steps depends on the argument, with |·| inside."""
    going = lambda state: state[0] < a
    body = lambda state: (state[0] + 1, state[1] + jnp.abs(state[0] - a))
    return lax.while_loop(going, body, (-3.0 * jnp.ones_like(a), 0.0 * a))[1]


def _symmetric(x):
    return jnp.stack([jnp.stack([x[0], x[1]]), jnp.stack([x[1], x[2]])])


SEGMENTS = np.array([0, 1, 0, 1])

# Continuous functions.
CONTINUOUS = {
    "l1": lambda x: jnp.sum(jnp.abs(x)),
    "max": jnp.max,
    "min": jnp.min,
    "relu": lambda x: WEIGHTS @ jax.nn.relu(x),
    "difference and max": lambda x: jnp.abs(x[0] - x[1]) + jnp.max(x),
    "top 2 of sort": lambda x: jnp.sum(jnp.sort(x)[-2:]),
    "sort, descending": lambda x: jnp.sort(x, descending=True) @ WEIGHTS,
    "argsort": lambda x: x[jnp.argsort(x)] @ WEIGHTS,
    "argsort of a map": lambda x: x[jnp.argsort(2 * x + 1)] @ WEIGHTS,
    "ranks": lambda x: jnp.argsort(jnp.argsort(x)).astype(x.dtype) @ x,
    "top_k": lambda x: lax.top_k(x, 2)[0] @ WEIGHTS[:2],
    "top_k of squares": lambda x: lax.top_k(x**2, 2)[0] @ WEIGHTS[:2],
    "top_k, indices": lambda x: jnp.sum(x[lax.top_k(x, 2)[1]]),
    "where >": lambda x: jnp.sum(jnp.where(x > 0, 2 * x, -x)),
    "where >=": lambda x: WEIGHTS @ jnp.where(x >= 0, 2 * x, x),
    "where, pair": lambda x: jnp.where(x[0] > x[1], 2 * x[0] - x[1], x[1]),
    "where of squares": lambda x: jnp.where(jnp.sum(x**2) > 0, jnp.sum(x), 0.0),
    "median": jnp.median,
    "quantile": lambda x: jnp.quantile(x, 0.3),
    "clip": lambda x: WEIGHTS @ jnp.clip(x, -1.0, 1.0),
    "norm 1": lambda x: jnp.linalg.norm(x, 1),
    "norm 2": jnp.linalg.norm,
    "norm inf": lambda x: jnp.linalg.norm(x, jnp.inf),
    "root of squares": lambda x: WEIGHTS @ jnp.sqrt(x**2),
    "half power": lambda x: jnp.sum(x**2) ** 0.5,
    "logsumexp": jax.scipy.special.logsumexp,
    "logaddexp": lambda x: WEIGHTS @ jnp.logaddexp(x, x[::-1]),
    "softmax": lambda x: WEIGHTS @ jax.nn.softmax(x),
    "leaky relu": lambda x: WEIGHTS @ jax.nn.leaky_relu(x),
    "elu": lambda x: WEIGHTS @ jax.nn.elu(x, 2.0),
    "relu6": lambda x: WEIGHTS @ jax.nn.relu6(6 + x),
    "softplus": lambda x: WEIGHTS @ jax.nn.softplus(x),
    "huber": lambda x: jnp.sum(
        jnp.where(jnp.abs(x) <= 1, 0.5 * x**2, jnp.abs(x) - 0.5)
    ),
    "hinge, jit": lambda x: jax.jit(lambda z: jnp.sum(jnp.maximum(0, 1 - z)))(x),
    "cond": lambda x: lax.cond(
        x[0] > x[1], lambda z: 2 * z[0] - z[1], lambda z: z[1], x
    ),
    "switch": lambda x: lax.switch(
        jnp.argmax(x[:3]), [lambda z: z[0], lambda z: z[1], lambda z: z[2]], x
    ),
    "scan": lambda x: lax.scan(
        lambda c, y: (jnp.maximum(c, y), jnp.abs(c - y)), 0.0 * x[0], x
    )[1].sum(),
    "scan of norms": lambda x: lax.scan(
        lambda c, y: (c + jnp.sqrt(y @ y), None), 0.0 * x[0], x.reshape(2, 2)
    )[0],
    "fori": lambda x: lax.fori_loop(
        0, 4, lambda i, c: jnp.maximum(c, x[i]) + jnp.abs(x[i]), 0.0 * x[0]
    ),
    "custom_jvp": _custom_jvp,
    "custom_vjp": _custom_vjp,
    "remat": jax.checkpoint(lambda x: jnp.sum(jnp.abs(x))),
    "cummax": lambda x: lax.cummax(x) @ WEIGHTS,
    "cummin of squares": lambda x: lax.cummin(x**2, reverse=True) @ WEIGHTS,
    "argmax": lambda x: x[jnp.argmax(x)],
    "argmin": lambda x: x[jnp.argmin(x)],
    "sign": lambda x: jnp.sum(jnp.sign(x) * x),
    "ptp": jnp.ptp,
    "nanmax": jnp.nanmax,
    "prod": jnp.prod,
    "vmap inside": lambda x: jnp.sum(
        jax.vmap(lambda a: jnp.where(a > 0, a, -2 * a))(x)
    ),
    "cond under vmap": lambda x: jnp.sum(
        jax.vmap(lambda a: lax.cond(a > 0, lambda: 2 * a, lambda: -a))(x)
    ),
    "segment max": lambda x: WEIGHTS[:2] @ jax.ops.segment_max(x, SEGMENTS, 2),
    "segment min": lambda x: WEIGHTS[:2] @ jax.ops.segment_min(x, SEGMENTS, 2),
    "max pool": lambda x: jnp.sum(
        lax.reduce_window(x, -jnp.inf, lax.max, (2,), (1,), "VALID")
    ),
    "gradient of a square": lambda x: (
        WEIGHTS @ jax.grad(lambda z: jnp.sum(jnp.maximum(z, 0) ** 2))(x)
    ),
    "eigenvalues": lambda x: WEIGHTS[:2] @ jnp.linalg.eigvalsh(_symmetric(x)),
    "nuclear norm": lambda x: jnp.sum(jnp.abs(jnp.linalg.eigvalsh(_symmetric(x)))),
    "singular values": lambda x: (
        WEIGHTS[:2] @ jnp.linalg.svd(x.reshape(2, 2), compute_uv=False)
    ),
    "matrix nuclear norm": lambda x: jnp.linalg.norm(x.reshape(2, 2), "nuc"),
    "norm of a row": lambda x: jnp.linalg.norm(x[:2][None], "nuc"),
    "determinant": lambda x: jnp.linalg.det(_symmetric(x) + 2 * jnp.eye(2)),
    "solve": lambda x: (
        jnp.linalg.solve(jnp.outer(x, x) + jnp.eye(4), jnp.abs(x)) @ WEIGHTS
    ),
    "sinc": lambda x: WEIGHTS @ jnp.sinc(x),
    "removable": lambda x: WEIGHTS @ jnp.where(x == 0, 1, jnp.expm1(x) / x),
    "bessel": lambda x: WEIGHTS @ jax.scipy.special.i0e(x),
    "bessel, no kink": lambda x: WEIGHTS @ jax.scipy.special.i0(x),
    "standard deviation": jnp.std,
}

# Functions with jumps: the slope of the piece that the ray enters.
JUMPS = {
    "floor": lambda x: WEIGHTS @ ((x - jnp.floor(x)) * x),
    "ceil": lambda x: WEIGHTS @ (jnp.ceil(x) * x),
    "round": lambda x: WEIGHTS @ (jnp.round(x / 2) * x),
    "integer cast": lambda x: WEIGHTS @ jnp.abs(x - x.astype(int)),
    "mod": lambda x: WEIGHTS @ (jnp.mod(x, 1.0) * x),
    "payload of a sort": lambda x: WEIGHTS @ lax.sort((x, 2 * x[::-1]), num_keys=1)[1],
    "while": lambda x: _steps(x[0]),
    "while under vmap": lambda x: WEIGHTS @ jax.vmap(_steps)(x),
}
