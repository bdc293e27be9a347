"""What differs between versions of JAX in the equations of jaxprs."""

from typing import Any

__all__ = ["scan_split"]


def scan_split(eqn: Any, body: Any) -> tuple[int, int]:
    """Number of constants and number of carries of a scan.

    jax 0.12 keeps these numbers in private trees, but a scanned array has one axis more
    outside than in the body.
    """
    if "num_consts" in eqn.params:
        return eqn.params["num_consts"], eqn.params["num_carry"]
    rank = lambda var: len(var.aval.shape)
    carries = sum(
        rank(a) == rank(b) for a, b in zip(eqn.outvars, body.outvars, strict=True)
    )
    scanned = sum(
        rank(a) != rank(b) for a, b in zip(eqn.invars, body.invars, strict=True)
    )
    return len(eqn.invars) - carries - scanned, carries
