"""Products of families: a table whose columns are of different kinds."""

import dataclasses
import functools
import operator
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from bregjax._checks import is_concrete
from bregjax._pytree import register_pytree
from bregjax._result import Result
from bregjax._typing import Array, ArrayLike, DataLike, PyTree
from bregjax.clusters import ClusterModel
from bregjax.clusters._block_statistics import BlockStatistics
from bregjax.clusters._seen_models import ObservedModel, ScaledModel, SeenState
from bregjax.convex import ConjugateSolution
from bregjax.families._base import Family
from bregjax.families._block_smoothing import check_maps, default_maps, maps_by_column
from bregjax.families._blocks import (
    average_cost,
    model_of_groups,
    seen_columns,
    state_of_block,
)
from bregjax.families._categorical import Categorical
from bregjax.families._check import CheckReport
from bregjax.families._layout import Layout, Missing
from bregjax.families._named import named_family
from bregjax.families._table_family import TableFamily
from bregjax.smoothing import StatisticMap
from bregjax.smoothing._by_block import ByBlock

__all__ = ["Product"]

# Codes, best first: of several blocks the worst counts.
_BEST_FIRST = (
    Result.CONVERGED,
    Result.BOUNDARY,
    Result.STEP_LIMIT,
    Result.STALLED,
    Result.OUTSIDE,
    Result.INVALID,
)


@register_pytree
@dataclass(frozen=True, init=False, repr=False)
class Product(TableFamily):
    """Independent blocks of columns, each of its own family: ψ(θ) = Σ_b ψ_b(θ_b).

    Columns of the table that are named nowhere are left out.

    A merge costs the log-likelihood lost, the sum of what it costs in each block. A
    block of several columns under `Gaussian` has correlations; under a family of
    independent columns (`DiagonalGaussian`, `Poisson`, `Categorical`, `Columnwise`, …)
    a block is no more than its columns.

    Missing cells. In a block of independent columns a cluster holds a weight for each
    column, that of the cells that are observed there. So a merge costs the
    log-likelihood lost over the observed cells, without imputation; it is right where
    cells are missing at random, given what is observed. Clusters that share no column
    cost nothing to merge. A block of a family that needs whole rows takes no missing
    cells.

    Attributes:
        families: The family of each block.
        layout: Which columns of the table each block has; None before data is seen.
        weights: What each column used counts, as a power on its likelihood, `[d]`: with
            weight 2 a column costs what two like it do. A block of a family that needs
            whole rows has one weight. None for 1 each. Densities of the family
            (`log_prob`) know no weights.
        fill: What stands in cells that are missing, `[d]`; without influence.
        average: What a merge costs per weight in this table, about, of which "scaled"
            makes the cost of clusters that share no column.

    Examples:
        >>> import bregjax as bj
        >>> table = {"visits": [2, 3, 9], "sex": ["f", None, "m"]}
        >>> family = bj.Product({"visits": "poisson", "sex": "categorical"})
        >>> problem = bj.Problem(table, family=family)
        >>> print(problem.x)
        [[ 2.  0.]
         [ 3. nan]
         [ 9.  1.]]
        >>> print(bj.agglomerate(problem).merge_costs.round(4))
        [0.1007 4.1765]
    """

    families: tuple[Family, ...]
    weights: Array | None
    fill: Array | None
    average: Array | None
    layout: Layout = jax.tree.static()

    def __init__(
        self,
        families: Mapping[Any, Family | str],
        *,
        weights: Mapping[Hashable, float] | None = None,
        missing: Missing = "auto",
    ) -> None:
        """Say which columns are of which family.

        Args:
            families: For columns of the table a family, or its name. A key is the name
                or the number of a column, or a tuple of such for a block.
            weights: What columns count, by their keys in `families`, 1 for all others.
            missing: "auto" gives cells weights of their own in the blocks that lack
                some: a product that was made for a table without gaps takes none in
                new rows. "observed" does so in all blocks that can have such; "scaled"
                divides costs by the share of observed weight, too.

        Raises:
            ValueError: If there is no column, one is in two blocks, or a weight is not
                positive.
            TypeError: If a family is of no kind known here.
        """
        if not isinstance(families, Mapping):
            raise TypeError(
                "`families` must map columns to families, such as "
                f'{{"age": "diagonal_gaussian"}}; got {type(families).__name__}.'
            )
        blocks = tuple(key if isinstance(key, tuple) else (key,) for key in families)
        layout = Layout(blocks, missing)
        vars(self).update(
            families=tuple(map(_family, families.values())),
            weights=_weights(weights, layout.used),
            fill=None,
            average=None,
            layout=layout,
        )

    @classmethod
    def _from_fields(cls, **fields: Any) -> "Product":
        product = object.__new__(cls)
        vars(product).update(fields)
        return product

    # --- The family of all columns -------------------------------------------------

    @property
    @override
    def natural_init(self) -> tuple[PyTree, ...]:
        return tuple(family.natural_init for family in self.families)

    @property
    @override
    def solves(self) -> bool:
        return any(family.solves for family in self.families)

    @override
    def log_partition(self, natural: tuple[PyTree, ...]) -> Array:
        """Σ_b ψ_b(θ_b)."""
        pairs = zip(self.families, natural, strict=True)
        return _total(family.log_partition(theta) for family, theta in pairs)

    @override
    def sufficient_statistics(self, x: Array) -> tuple[PyTree, ...]:
        """The statistics of each block; `x` has no missing cells."""
        return tuple(
            block.family.sufficient_statistics(x[block.places])
            for block in self.blocks()
        )

    @override
    def log_base_measure(self, x: Array) -> Array:
        """Σ_b log h_b(x)."""
        return _total(
            block.family.log_base_measure(x[block.places]) for block in self.blocks()
        )

    @override
    def conjugate(
        self, mean: tuple[PyTree, ...], *, start: tuple[PyTree, ...] | None = None
    ) -> ConjugateSolution:
        """Σ_b ψ_b*(μ_b), with the worst code of the blocks."""
        starts = self.natural_init if start is None else start
        triples = zip(self.families, mean, starts, strict=True)
        found = [family.conjugate(mu, start=begin) for family, mu, begin in triples]
        code = jnp.asarray(int(Result.CONVERGED), jnp.int32)
        for one in _BEST_FIRST:
            there = [solution.result == int(one) for solution in found]
            code = jnp.where(jnp.any(jnp.stack(there)), int(one), code)
        worst = lambda parts: jnp.max(jnp.stack(parts))
        return ConjugateSolution(
            value=_total(solution.value for solution in found),
            maximiser=tuple(solution.maximiser for solution in found),
            result=code.astype(jnp.int32),
            num_steps=worst([jnp.asarray(solution.num_steps) for solution in found]),
            residual=worst([jnp.asarray(solution.residual) for solution in found]),
        )

    @override
    def kl_divergence(
        self, natural_p: tuple[PyTree, ...], natural_q: tuple[PyTree, ...]
    ) -> Array:
        """Σ_b KL(p_b, q_b)."""
        triples = zip(self.families, natural_p, natural_q, strict=True)
        return _total(family.kl_divergence(p, q) for family, p, q in triples)

    @override
    def check(self, x: DataLike, *, key: ArrayLike = 0) -> CheckReport:
        """Examine the family of each block but categories, by its observed cells.

        For the table itself see `check_table`.
        """
        product = self.for_data(x)
        product.check_support(x)
        rows, findings = product.as_rows(x), []
        pairs = zip(product.layout.blocks, product.blocks(), strict=True)
        for columns, block in pairs:
            if isinstance(block.family, Categorical):
                continue
            report = block.family.check(block.cells(rows)[0], key=key)
            words = ", ".join(map(repr, columns))
            findings += [
                dataclasses.replace(finding, name=f"{finding.name} of {words}")
                for finding in report.findings
            ]
        return CheckReport("Product", tuple(findings))

    # --- Clusters ------------------------------------------------------------------

    @override
    def leaf_statistics(self, x: Array) -> tuple[BlockStatistics, ...]:
        """For each block the statistics of rows and their shares of weight."""
        return tuple(block.statistics(x) for block in self.blocks())

    @override
    def cluster_model(self) -> ClusterModel:
        """Clusters by the model of each block; cells of entropies share one."""
        blocks = self.blocks()
        model = model_of_groups(blocks)
        if not any(self.layout.by_cell):
            return model
        weights = jnp.concatenate([jnp.asarray(block.weights) for block in blocks])
        if self.layout.missing != "scaled":
            return ObservedModel(model, weights, seen_columns(blocks))
        average = jnp.ones(()) if self.average is None else jnp.asarray(self.average)
        return ScaledModel(model, weights, average, seen_columns(blocks))

    @override
    def density_parameters(self, clusters: PyTree) -> tuple[PyTree, ...]:
        blocks = self.blocks()
        if isinstance(clusters, SeenState):
            clusters = clusters.inner
        return tuple(
            block.density_parameters(state_of_block(blocks, b, clusters))
            for b, block in enumerate(blocks)
        )

    @override
    def log_densities(self, row: Array, parameters: tuple[PyTree, ...]) -> Array:
        """Σ log p of the observed cells, each times the weight of its column, `[k]`.

        A cluster without an observed cell in a column has the distribution of all
        clusters there.
        """
        pairs = zip(self.blocks(), parameters, strict=True)
        return _total(block.log_densities(row, one) for block, one in pairs)

    # --- Smoothing -----------------------------------------------------------------

    @override
    def default_smoothing(self, x: Array, weights: Array | None) -> ByBlock | None:
        """The default of each block, by its observed cells."""
        return default_maps(self.blocks(), x, weights)

    def smoothing_by_column(
        self,
        given: Mapping[Any, StatisticMap | str | None],
        x: Array,
        weights: Array | None,
    ) -> ByBlock | None:
        """Maps that are given for some columns, and defaults for the others.

        Args:
            given: For a column, or a tuple of columns, a map, None, or "auto".
            x: Rows.
            weights: Their weights, or None.

        Raises:
            ValueError: If a column is not used, or the columns of a block get maps
                that differ.
        """
        auto = self.default_smoothing(x, weights)
        return maps_by_column(given, self.layout, auto)

    @override
    def check_smoothing(self, smoothing: StatisticMap, rows: Array) -> None:
        check_maps(smoothing, self.blocks(), rows)

    @override
    def suited_to(
        self, rows: Array, smoothing: StatisticMap | None, weights: Array | None
    ) -> "Product":
        maps = (None,) * len(self.families)
        if isinstance(smoothing, ByBlock):
            maps = smoothing.maps
        families = [
            block.family.suited_to(block.cells(rows)[0], each, weights)
            for each, block in zip(maps, self.blocks(), strict=True)
        ]
        suited = self._with(families=tuple(families))
        if self.layout.missing != "scaled":
            return suited
        if self.solves:
            raise ValueError(
                '`missing` must be "observed" where costs are solved for; got "scaled" '
                f"for {self!r}."
            )
        ones: Any = np.ones(rows.shape[0])
        given = ones if weights is None else weights
        average = average_cost(suited, rows, smoothing, given)
        return suited._with(average=average)

    @override
    def smoothing_of(self, amount: float) -> StatisticMap:
        raise ValueError(
            "`amount` means another thing to each family of a product; got "
            f"{amount:g}. Give a map for columns, smoothing={{column: map, …}}."
        )

    @property
    @override
    def smoothing_hint(self) -> str:
        hints = {family.smoothing_hint: None for family in self.families}
        return "For its columns, smoothing={column: map, …}: " + "; or ".join(hints)

    # --- Words ---------------------------------------------------------------------

    def __repr__(self) -> str:
        """What to paste to get this product again."""
        keys = [block if block[1:] else block[0] for block in self.layout.blocks]
        pairs = zip(keys, self.families, strict=True)
        blocks = [f"{key!r}: {family!r}" for key, family in pairs]
        arguments = ["{" + ", ".join(blocks) + "}"]
        if self.weights is not None and is_concrete(self.weights):
            pairs = zip(self.names, np.asarray(self.weights).tolist(), strict=True)
            arguments.append(f"weights={ {n: w for n, w in pairs if w != 1} }")
        if self.layout.missing != "auto":
            arguments.append(f"missing={self.layout.missing!r}")
        return f"Product({', '.join(arguments)})"


def _family(family: Family | str) -> Family:
    if isinstance(family, str):
        return named_family(family)
    if isinstance(family, Family):
        return family
    raise TypeError(
        "`families` must be families or their names; got "
        f"{family.__name__ if isinstance(family, type) else type(family).__name__}. "
        "Write Poisson(), say."
    )


def _weights(
    weights: Mapping[Hashable, float] | None, columns: tuple[Hashable, ...]
) -> np.ndarray | None:
    """Weights of columns in their order, 1 for those that are not named."""
    if weights is not None and not isinstance(weights, Mapping):
        raise TypeError(
            "`weights` must map columns to numbers, such as {'age': 2.0}; got "
            f"{type(weights).__name__}."
        )
    if not weights:
        return None
    for column, weight in weights.items():
        if not isinstance(weight, int | float | np.number):
            raise ValueError(
                f"`weights` must be positive numbers; got {weight!r} for column "
                f"{column!r}."
            )
    unknown = [column for column in weights if column not in columns]
    if unknown:
        raise ValueError(
            f"`weights` has column {unknown[0]!r}, which no family has. Its columns "
            f"are {list(columns)}."
        )
    found = np.array([float(weights.get(column, 1.0)) for column in columns])
    allowed = (found > 0) & np.isfinite(found)
    if not allowed.all():
        column = columns[int(np.argmin(allowed))]
        raise ValueError(
            f"`weights` must be positive; got {weights[column]} for column "
            f"{column!r}. Leave out a column that is not to count."
        )
    return found


def _total(terms: Iterable[Array]) -> Array:
    return functools.reduce(operator.add, terms)
