"""What criteria say about numbers of clusters, and how it prints."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from bregjax.families._summary import aligned
from bregjax.partition import SoftClustering

__all__ = ["Criterion", "NumClusters"]

Criterion = Literal["bic", "icl", "held_out", "gap"]

# Kass and Raftery (1995) call a difference of BIC of 6 to 10 strong evidence, and one
# of less than 2 not worth more than a bare mention.
_STRONG = 6.0
# Gaps of more than this share of the largest are no smaller to speak of.
_ALIKE = 0.8
# Numbers of clusters that are printed on either side of the best.
_SHOWN = 12

_NEAR = {
    "bic": "within 6 of",
    "icl": "within 6 of",
    "held_out": "within 3 nats of",
    "gap": "at least four fifths of",
}
_NAMES = {"bic": "BIC", "icl": "ICL", "held_out": "held-out likelihood", "gap": "gap"}


@dataclass(frozen=True, eq=False, repr=False)
class NumClusters:
    """Criteria for 1 to K clusters; `print` them, or ask `.num_clusters`.

    Attributes:
        numbers: k = 1, 2, … K; of a forest from the number of its trees on.
        num_parameters: Free parameters of a mixture of k clusters, k p + k − 1 with p
            those of the family, `[K]`.
        log_likelihood: Σ w log Σ_c π_c p(x; c) of the rows as they are, in nats, `[K]`.
        bic: −2 `log_likelihood` + `num_parameters` · log `sample_size`, `[K]`: the
            smaller the better. (mclust reports the negative.)
        icl: The same of rows each in its likeliest cluster, Σ w max_c log π_c p(x; c):
            BIC plus a penalty for clusters that overlap, `[K]`. The smaller the better.
        held_out: The leave-one-out log-likelihood of the tree's cuts, `[K]`: the larger
            the better. Left out is one observation, weight 1 of a row that has more,
            or a row of less. None where it was not asked for.
        costs: What it costs to join k clusters into k − 1, in nats, `[K]`; NaN for 1,
            and for the trees of a forest.
        gaps: `costs` of k over those of k + 1, `[K]`: how much more than the merge
            before it costs to go below k. NaN where there is no such merge.
        sample_size: N, the weight of all rows.
        num_rows: m, the most clusters that there can be.
        criterion: Which of "bic", "icl", "held_out" and "gap" chooses.
        refined: Whether likelihoods are of mixtures that EM has fitted, from the cuts.
        mixture: The fitted mixture of `num_clusters` clusters, with `labels`,
            `responsibilities` and `assign(rows)`; None unless `refined`. Labels of the
            cut itself are `tree.cut(found.num_clusters)`.

    Examples:
        >>> import bregjax as bj
        >>> x = np.array([[0.0], [1.0], [2.0], [9.0], [10.0], [11.0]])
        >>> problem = bj.Problem(x, family="ward", weights=np.full(6, 50.0))
        >>> tree = bj.agglomerate(problem)
        >>> found = bj.choose_num_clusters(problem, tree, max_clusters=3)
        >>> print(found.num_clusters, found.num_parameters, found.bic)
        2 [1 3 5] [6832.067 1184.363 1224.763]
    """

    numbers: np.ndarray
    num_parameters: np.ndarray
    log_likelihood: np.ndarray
    bic: np.ndarray
    icl: np.ndarray
    held_out: np.ndarray | None
    costs: np.ndarray
    gaps: np.ndarray
    sample_size: float
    num_rows: int
    criterion: Criterion
    refined: bool
    mixture: SoftClustering | None = None

    @property
    def num_clusters(self) -> int:
        """The number that the criterion chooses; of equal ones the smallest."""
        return int(self.numbers[np.argmax(self._merit())])

    @property
    def plausible(self) -> np.ndarray:
        """The numbers that the criterion hardly tells from the best, and the best.

        BIC and ICL within 6 of it, less than what is called strong evidence;
        log-likelihoods within 3 nats, which are 6 units of BIC; gaps of at least four
        fifths of the largest. The best alone where no number has a finite criterion.
        """
        merit = self._merit()
        best = np.max(merit)
        if best == -np.inf:
            return np.array([self.num_clusters])
        if best == np.inf:
            return self.numbers[merit == best]
        if self.criterion == "gap":
            return self.numbers[merit >= _ALIKE * best]
        margin = _STRONG / 2 if self.criterion == "held_out" else _STRONG
        return self.numbers[best - merit < margin]

    @property
    def is_flat(self) -> bool:
        """Whether some other number is hardly worse: see `plausible`."""
        return len(self.plausible) > 1

    @property
    def is_at_end(self) -> bool:
        """Whether the best number is the largest that was tried."""
        return self.num_clusters == self.numbers[-1] and len(self.numbers) > 1

    @property
    def caveats(self) -> tuple[str, ...]:
        """What to know before the number is taken, a sentence each.

        One where the criterion is flat, and one where the best is the largest tried.
        """
        name, found = _NAMES[self.criterion], []
        if self.is_flat:
            others = [str(k) for k in self.plausible if k != self.num_clusters]
            words = ", ".join(others[:8] + ["…"] * (len(others) > 8))
            found.append(
                f"{name} is flat: {_NEAR[self.criterion]} that of {self.num_clusters} "
                f"is that of {words}, so the rows hardly tell these apart."
            )
        if self.is_at_end and self.num_clusters == self.num_rows:
            found.append(
                f"{name} is best with a cluster for each row, so it sees none. Take a "
                "larger `smoothing_share`, or another criterion or family."
            )
        elif self.is_at_end:
            found.append(
                f"{name} is best at the largest number that was tried: raise "
                "`max_clusters`, or take it that the criterion sees no end."
            )
        return tuple(found)

    @property
    def headline(self) -> str:
        """The number, and how it was chosen, in a line."""
        of = "mixtures fitted by EM" if self.refined else "cuts of the tree"
        clusters = f"{self.num_clusters} cluster{'s' * (self.num_clusters != 1)}"
        tried = f"of {self.numbers[0]} to {self.numbers[-1]} ({of})"
        return f"{clusters} by {_NAMES[self.criterion]}, {tried}"

    def to_dict(self) -> dict[str, list[float]]:
        """Columns of a table, as for `pandas.DataFrame(found.to_dict())`."""
        columns = {
            "num_clusters": self.numbers,
            "num_parameters": self.num_parameters,
            "log_likelihood": self.log_likelihood,
            "bic": self.bic,
            "icl": self.icl,
            "held_out": self.held_out,
            "cost": self.costs,
            "gap": self.gaps,
        }
        return {k: v.tolist() for k, v in columns.items() if v is not None}

    def __repr__(self) -> str:
        """The number, then a line for each k about it, and caveats."""
        best, lines = self.num_clusters, [self.headline]
        likelihoods = {
            "log-likelihood": self.log_likelihood,
            "BIC": self.bic,
            "ICL": self.icl,
            "held out": self.held_out,
        }
        columns = [
            ("parameters", self.num_parameters, ".0f"),
            *((name, v, ".1f") for name, v in likelihoods.items() if v is not None),
            ("cost", self.costs, ".4g"),
            ("gap", self.gaps, ".2f"),
        ]
        count, at = len(self.numbers), best - self.numbers[0]
        low = int(np.clip(at - _SHOWN, 0, max(count - 1 - 2 * _SHOWN, 0)))
        table = [("", "k", *(name for name, _, _ in columns))]
        for i in range(low, min(low + 2 * _SHOWN + 1, count)):
            k = self.numbers[i]
            mark = "*" if k == best else "·" if k in self.plausible else ""
            cells = (_number(values[i], form) for _, values, form in columns)
            table.append((mark, str(k), *cells))
        lines += ["  " + line for line in aligned(table)]
        return "\n".join([*lines, *self.caveats])

    def _merit(self) -> np.ndarray:
        """The criterion, the larger the better, −inf where it is no number; `[K]`."""
        values = {
            "bic": -self.bic,
            "icl": -self.icl,
            "held_out": self.held_out,
            "gap": self.gaps,
        }[self.criterion]
        return np.where(np.isnan(values), -np.inf, values)


def _number(value: float, form: str) -> str:
    return "–" if np.isnan(value) else f"{value:{form}}"
