"""Diagnostics of a family: whether it is what it claims, and fits the data."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np

from bregjax._checks import is_concrete
from bregjax._result import Result
from bregjax._typing import ArrayLike, DataLike
from bregjax.families._check_data import DataView, check_data, check_precision
from bregjax.families._check_psi import check_psi
from bregjax.families._distribution import Distribution
from bregjax.families._finding import Finding
from bregjax.families._landscape import survey

__all__ = ["CheckReport", "Finding", "check_family"]


@dataclass(frozen=True)
class CheckReport:
    """The findings of `Family.check`; `print` them.

    Attributes:
        family: The name of the family's class.
        findings: A finding for each test that could be made, in order.
        rows_by_code: How many of at most 200 rows have statistics inside the mean
            domain ("CONVERGED"), on its boundary ("BOUNDARY"), outside ("OUTSIDE"), or
            where the solver failed.
        needs_smoothing: Whether rows lie where ψ* is +inf.
        overcomplete: Directions of θ that leave the distribution as it is, `[r, n]`.

    Examples:
        >>> start = Finding("start", passed=True, sentence="ψ is finite there.")
        >>> report = CheckReport("Mine", (start,))
        >>> print(report)
        Mine: sound.
          ok     start: ψ is finite there.
        >>> print(report["start"].passed)
        True
    """

    family: str
    findings: tuple[Finding, ...]
    rows_by_code: Mapping[str, int] = field(default_factory=dict)
    needs_smoothing: bool = False
    overcomplete: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))

    @property
    def ok(self) -> bool:
        """Whether all tests passed."""
        return all(finding.passed for finding in self.findings)

    def __getitem__(self, name: str) -> Finding:
        """The finding of the test of that name.

        Raises:
            KeyError: If that test was not made.
        """
        for finding in self.findings:
            if finding.name == name:
                return finding
        made = ", ".join(finding.name for finding in self.findings)
        raise KeyError(f"no finding {name!r}; made were {made}")

    def __str__(self) -> str:
        """A line for each finding, failures first."""
        failed = [finding for finding in self.findings if not finding.passed]
        passed = [finding for finding in self.findings if finding.passed]
        verdict = "sound" if self.ok else f"{len(failed)} to mend"
        lines = [f"{self.family}: {verdict}."]
        lines += [f"  FAILED {f.name}: {f.sentence}" for f in failed]
        lines += [f"  ok     {f.name}: {f.sentence}" for f in passed]
        return "\n".join(lines)


def check_family(
    family: Distribution, x: DataLike, *, key: ArrayLike = 0
) -> CheckReport:
    """Examine a family; see `Family.check`."""
    if not is_concrete((family, x, key)):
        raise TypeError(
            "`check` reads values and cannot run under `jit`, `grad` or `vmap`: call "
            "it eagerly, once, before the traced code."
        )
    name, rng = type(family).__name__, _generator(key)
    with jax.enable_x64(True):
        try:
            family = family.for_data(x)
            family.check_support(x)
        except ValueError as error:
            finding = Finding("statistic", passed=False, sentence=str(error))
            return CheckReport(name, (finding,))
        seen = survey(family, rng)
        findings, directions = check_psi(family, seen, rng)
        if not findings[0].passed:
            return CheckReport(name, tuple(findings))
        rows = np.asarray(family.as_rows(x), np.float64)
        on_data, view = check_data(family, rows, seen, rng)
        findings += on_data
        if view is None:
            return CheckReport(name, tuple(findings), overcomplete=directions)
        findings.append(check_precision(family, seen, view))
        return CheckReport(
            name,
            tuple(findings),
            rows_by_code=_count(view),
            needs_smoothing=_needs_smoothing(view),
            overcomplete=directions,
        )


def _count(view: DataView) -> dict[str, int]:
    codes, counts = np.unique(view.codes[: len(view.rows)], return_counts=True)
    return {
        Result(int(code)).name: int(count)
        for code, count in zip(codes, counts, strict=True)
    }


def _needs_smoothing(view: DataView) -> bool:
    edge = view.codes[: len(view.rows)] == Result.BOUNDARY
    return bool((edge & ~np.isfinite(view.values[: len(view.rows)])).any())


def _generator(key: ArrayLike) -> np.random.Generator:
    """A NumPy generator from a JAX key of either kind, or from an integer."""
    if isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        key = jax.random.key_data(key)
    entropy = np.asarray(key).ravel()
    return np.random.default_rng([int(part) for part in entropy])
