"""The package under test, by its public names; counts the programs compiled."""

import dataclasses
import functools
import platform

import jax
import jax.numpy as jnp
import numpy as np

import bregjax as bj
from harness.outcome import Outcome

VERSIONS = {
    "bregjax": bj.__version__,
    "jax": jax.__version__,
    "python": platform.python_version(),
}
ASKS_FOR_SMALLER = True

_COMPILED = "/jax/core/compile/backend_compile_duration"


def zero_truncated_poisson(theta):
    """ψ of a Poisson count given that it is not 0, in a form that does not overflow."""
    rate = jnp.exp(theta)
    return jnp.sum(rate + jnp.log(-jnp.expm1(-rate)))


def identity(row):
    return row


def family_of(name: str, n: int):
    if name != "zero_truncated_poisson":
        return name
    return bj.ExponentialFamily(
        zero_truncated_poisson, identity, jnp.zeros(n), separable=True
    )


def narrowed(x: np.ndarray, factor: float):
    """The rule's bandwidths of all columns, times a factor."""
    return bj.blur(factor * bj.normal_reference(x, per_coordinate=True).bandwidth)


class _Compilations:
    """Seconds of the compilations since last asked."""

    def __init__(self) -> None:
        self._seconds: list[float] = []
        jax.monitoring.register_event_duration_secs_listener(self._listen)

    def _listen(self, event: str, duration_secs: float, **kwargs: str | int) -> None:
        del kwargs
        if event == _COMPILED:
            self._seconds.append(duration_secs)

    def take(self) -> dict:
        seconds, self._seconds = self._seconds, []
        return {"compilations": len(seconds), "compile_s": sum(seconds)}


def prepare(engine: str, family: str):
    """A function that clusters rows with one engine."""
    return functools.partial(_cluster, engine, family, _Compilations())


def _cluster(
    engine: str, family: str, compilations: _Compilations, x: np.ndarray
) -> Outcome:
    family, _, factor = family.partition("@")
    tree, info = bj.agglomerate(
        x,
        family=family_of(family, x.shape[1]),
        smoothing=narrowed(x, float(factor)) if factor else "auto",
        engine=engine,
        return_info=True,
    )
    details = {
        **dataclasses.asdict(info),
        **compilations.take(),
        "jax_device": jax.devices()[0].device_kind,
    }
    return Outcome(np.asarray(tree.merge_costs), details)
