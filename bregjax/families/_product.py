"""Products of families: a table whose columns are of different kinds."""

import dataclasses
import functools
import operator
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from typing_extensions import override

from bregjax._checks import is_concrete
from bregjax._frames import Column, frame_of
from bregjax._pytree import register_pytree
from bregjax._result import Result
from bregjax._typing import Array, DataLike, PyTree
from bregjax.clusters._block_statistics import BlockStatistics
from bregjax.clusters._product_model import ProductModel
from bregjax.convex import ConjugateSolution
from bregjax.families._base import Family
from bregjax.families._block_cells import (
    cells_of_block,
    check_cells,
    family_of_block,
)
from bregjax.families._layout import Layout, Missing
from bregjax.families._named import named_family
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
class Product(Family):
    """Independent blocks of columns, each of its own family: ψ(θ) = Σ_b ψ_b(θ_b).

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
            weight 2 a column costs what two like it do. None for 1 each. Densities of
            the family (`log_prob`) know no weights.
        fill: What stands in cells that are missing, `[d]`; without influence.

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
            weights: What columns count, by name, 1 for all others.
            missing: "auto" gives cells weights of their own in the blocks that lack
                some; "observed" in all blocks that can have such, for new rows that
                lack cells; "scaled" divides costs by the share of observed weight.

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
            layout=layout,
        )

    @classmethod
    def _from_fields(cls, **fields: Any) -> "Product":
        product = object.__new__(cls)
        vars(product).update(fields)
        return product

    def with_missing(self, missing: Missing) -> "Product":
        """The product before it has seen data, with other missing cells."""
        weights = self.weights
        if weights is not None:
            weights = weights[np.concatenate([places for _, places in self._blocks()])]
        layout = Layout(self.layout.blocks, missing)
        return self._with(layout=layout, weights=weights, fill=None)

    def _with(self, **fields: Any) -> "Product":
        return self._from_fields(**{**vars(self), **fields})

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
            family.sufficient_statistics(x[places]) for family, places in self._blocks()
        )

    @override
    def log_base_measure(self, x: Array) -> Array:
        """Σ_b log h_b(x)."""
        return _total(
            family.log_base_measure(x[places]) for family, places in self._blocks()
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

    # --- Tables --------------------------------------------------------------------

    @property
    @override
    def encodes(self) -> bool:
        return True

    @property
    def names(self) -> tuple[Hashable, ...]:
        """The names of the columns that are used, in the order of the rows."""
        return self.layout.used

    @override
    def for_data(self, x: DataLike) -> Self:
        """The product for a table: columns, dimensions and levels known.

        Raises:
            ValueError: If a column is not there, has no observed cell, or does not fit
                its family.
        """
        product: Any = self
        if not is_concrete(x):
            return product if self.layout.known else product._fitted_to_traced(x)
        frame = frame_of(x)
        if not self.layout.known:
            product = product._on_table(frame.columns)
            return product._fitted(product.layout.taken(frame))
        self.layout.taken(frame)
        return self

    def _on_table(self, names: tuple[Hashable, ...]) -> "Product":
        layout = self.layout.on_table(names)
        if self.weights is None:
            return self._with(layout=layout)
        before = [column for block in layout.blocks for column in block]
        order = np.array([before.index(column) for column in layout.used])
        return self._with(layout=layout, weights=self.weights[order])

    def _fitted_to_traced(self, x: Array) -> "Product":
        """The product for rows of unknown numbers, whose levels must be known."""
        width = x.shape[1] if x.ndim == 2 else 1
        product = self._on_table(tuple(range(width)))
        rows = product.as_rows(x)
        families = [family.for_data(rows[:, at]) for family, at in product._blocks()]
        wanted = self.layout.missing != "auto"
        by_cell = tuple(
            (wanted or product._weighs_apart(b)) and family.cells() is not None
            for b, family in enumerate(families)
        )
        layout = dataclasses.replace(product.layout, by_cell=by_cell)
        first = jnp.argmax(~jnp.isnan(rows), axis=0)
        fill = jnp.take_along_axis(rows, first[None], axis=0)[0]
        return product._with(families=tuple(families), layout=layout, fill=fill)

    def _fitted(self, columns: list[Column]) -> "Product":
        """The product for the columns that are used."""
        layout = self.layout
        families, by_cell = [], []
        for b, family in enumerate(self.families):
            block = [columns[place] for place in layout.places(b)]
            families.append(family_of_block(family, block))
            lacks = any(column.missing.any() for column in block)
            wanted = lacks or layout.missing != "auto" or self._weighs_apart(b)
            by_cell.append(wanted and families[-1].cells() is not None)
        layout = dataclasses.replace(layout, by_cell=tuple(by_cell))
        product = self._with(families=tuple(families), layout=layout)
        rows = product._rows(columns)
        first = np.argmax(~np.isnan(rows), axis=0)
        return product._with(fill=rows[first, np.arange(len(first))])

    def _weighs_apart(self, block: int) -> bool:
        """Whether the columns of a block have weights that differ."""
        if self.weights is None:
            return False
        weights = self.weights[self.layout.places(block)]
        return not is_concrete(weights) or np.ptp(weights) > 0

    @override
    def as_rows(self, x: DataLike) -> Array:
        """The columns that are used as numbers `[m, d]`, NaN where a cell is missing.

        Categories are the codes of their levels. A level that was not seen counts as
        missing, with a warning.
        """
        if not is_concrete(x):
            x = jnp.asarray(x, dtype=float)
            return x[:, None] if x.ndim == 1 else x
        return self._rows(self.layout.taken(frame_of(x)))  # pyright: ignore[reportReturnType]

    def _rows(self, columns: list[Column]) -> np.ndarray:
        rows = np.empty((len(columns[0].values), len(columns)))
        for family, places in self._blocks():
            block = [columns[place] for place in places]
            rows[:, places] = cells_of_block(family, block)
        return rows

    @override
    def check_support(self, x: DataLike) -> None:
        """Raise ValueError at the first row or cell that does not fit its family."""
        if is_concrete(x):
            self.check_rows(self._rows(self.layout.taken(frame_of(x))))  # pyright: ignore

    @override
    def check_rows(self, rows: Array) -> None:
        table = np.asarray(rows)
        seen = ~np.isnan(table)
        if not seen.any(axis=1).all():
            row = int(np.argmin(seen.any(axis=1)))
            count = int(np.sum(~seen.any(axis=1)))
            more = f" ({count} such in all)" if count > 1 else ""
            raise ValueError(
                f"`x` must have an observed cell in each row; got none in row {row}"
                f"{more}. Drop such rows."
            )
        for b, (family, places) in enumerate(self._blocks()):
            names = [self.names[place] for place in places]
            by_cell = self.layout.by_cell[b]
            check_cells(family, table[:, places], names, by_cell=by_cell)

    # --- Clusters ------------------------------------------------------------------

    @override
    def leaf_statistics(self, x: Array) -> tuple[BlockStatistics, ...]:
        """For each block the statistics of rows and their shares of weight."""
        return tuple(self._statistics(b, x) for b in range(len(self.families)))

    def _statistics(self, block: int, x: Array) -> BlockStatistics:
        family, places = self.families[block], self.layout.places(block)
        cells = x[:, places]
        cells, seen = self._filled(cells, places)
        ones = jnp.ones(len(places))
        weights = ones if self.weights is None else self.weights[places]
        weights = jnp.asarray(weights, cells.dtype)
        if self.layout.by_cell[block]:
            form = self._form(block)
            share = form.spread(jnp.where(seen, weights[None], 0))
        else:
            share = jnp.broadcast_to(weights[0], cells.shape[:1])
        return BlockStatistics(family.leaf_statistics(cells), share)

    def _filled(self, cells: Array, places: np.ndarray) -> tuple[Array, Array]:
        """Cells with what stands for missing ones, and which are observed."""
        fill = jnp.asarray(self.fill, cells.dtype)[places]
        seen = ~jnp.isnan(cells)
        return jnp.where(seen, cells, jax.lax.stop_gradient(fill)), seen

    @override
    def cluster_model(self) -> ProductModel:
        """Clusters by the model of each block."""
        models = [
            self._form(b).model() if by_cell else family.cluster_model()
            for b, (family, by_cell) in enumerate(
                zip(self.families, self.layout.by_cell, strict=True)
            )
        ]
        return ProductModel(tuple(models))

    def _form(self, block: int) -> Any:
        """The form by cell of a block that has weights by cell."""
        return self.families[block].cells()

    @override
    def density_parameters(self, clusters: tuple[PyTree, ...]) -> tuple[PyTree, ...]:
        made = []
        for b, family in enumerate(self.families):
            if self.layout.by_cell[b]:
                form = self._form(b)
                made.append(
                    (form.density_parameters(clusters[b]), form.weights(clusters[b]))
                )
            else:
                made.append(family.density_parameters(clusters[b]))
        return tuple(made)

    @override
    def log_densities(self, row: Array, parameters: tuple[PyTree, ...]) -> Array:
        """Σ log p of the observed cells, each times the weight of its column, `[k]`.

        Where a cluster has no observed cell in a column, the mixture of those that have
        stands for it.
        """
        total = jnp.zeros(())
        for b, family in enumerate(self.families):
            places = self.layout.places(b)
            one = jnp.asarray(1.0, row.dtype)
            weights = one if self.weights is None else self.weights[places]
            if not self.layout.by_cell[b]:
                first = weights if self.weights is None else weights[0]
                found = family.log_densities(row[places], parameters[b])
                total = total + first * found
                continue
            cells, seen = self._filled(row[places], places)
            densities, have = parameters[b]
            found = self._form(b).log_densities(cells, densities)
            found = jnp.where(have > 0, found, _mixed(found, have)[None])
            total = total + jnp.sum(jnp.where(seen[None], weights * found, 0), axis=-1)
        return total

    # --- Smoothing -----------------------------------------------------------------

    @override
    def default_smoothing(self, x: Array, weights: Array | None) -> ByBlock | None:
        """The default of each block, by its observed cells."""
        maps = tuple(
            family.default_smoothing(x[:, places], weights)
            for family, places in self._blocks()
        )
        return ByBlock(maps) if any(each is not None for each in maps) else None

    def smoothing_by_column(
        self,
        given: Mapping[Any, StatisticMap | str | None],
        x: Array,
        weights: Array | None,
    ) -> ByBlock | None:
        """The map that is made of maps for some columns, and defaults for the others.

        Args:
            given: For a column, or all columns of a block, a map, None, or "auto".
            x: Rows.
            weights: Their weights, or None.

        Raises:
            ValueError: If a column is not used, or the columns of a block get maps
                that differ.
        """
        auto = self.default_smoothing(x, weights)
        maps = list(auto.maps if auto else (None,) * len(self.families))
        said: dict[int, Any] = {}
        for key, smoothing in given.items():
            for column in key if isinstance(key, tuple) else (key,):
                if column not in self.names:
                    raise ValueError(
                        f"`smoothing` has column {column!r}, which the family does not "
                        f"use; it uses {list(self.names)}."
                    )
                b = self.layout.block_of(column)
                if b in said and said[b] is not smoothing:
                    raise ValueError(
                        f"`smoothing` must be one map for the columns of a block, "
                        f"{list(self.layout.blocks[b])}; got several. Make blocks of "
                        "their own of columns that are smoothed apart."
                    )
                said[b] = smoothing
                if not (isinstance(smoothing, str) and smoothing == "auto"):
                    maps[b] = smoothing
        return ByBlock(tuple(maps)) if any(each is not None for each in maps) else None

    @override
    def check_smoothing(self, smoothing: StatisticMap, rows: Array) -> None:
        if not isinstance(smoothing, ByBlock) or len(smoothing.maps) != len(
            self.families
        ):
            raise TypeError(
                "`smoothing` of a product of families must be a mapping of columns to "
                f'maps, "auto" or None; got {smoothing!r}. Write '
                "smoothing={column: map, …}."
            )
        for each, (family, places) in zip(smoothing.maps, self._blocks(), strict=True):
            if each is not None:
                family.check_smoothing(each, self._known_cells(rows, places))

    def _known_cells(self, rows: Any, places: np.ndarray) -> Array:
        """Cells of a block, with what stands for missing ones; NumPy's if known."""
        cells = rows[:, places]
        if not is_concrete((cells, self.fill)):
            return self._filled(jnp.asarray(cells), places)[0]
        return np.where(np.isnan(cells), np.asarray(self.fill)[places], cells)  # pyright: ignore

    @override
    def suited_to(
        self, rows: Array, smoothing: StatisticMap | None, weights: Array | None
    ) -> "Product":
        maps = (None,) * len(self.families)
        if isinstance(smoothing, ByBlock):
            maps = smoothing.maps
        families = [
            family.suited_to(self._known_cells(rows, places), each, weights)
            for each, (family, places) in zip(maps, self._blocks(), strict=True)
        ]
        return self._with(families=tuple(families))

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
        blocks = [
            f"{block if len(block) > 1 else block[0]!r}: {family!r}"
            for block, family in zip(self.layout.blocks, self.families, strict=True)
        ]
        arguments = ["{" + ", ".join(blocks) + "}"]
        if self.weights is not None and is_concrete(self.weights):
            pairs = zip(self.names, np.asarray(self.weights).tolist(), strict=True)
            arguments.append(f"weights={ {n: w for n, w in pairs if w != 1} }")
        if self.layout.missing != "auto":
            arguments.append(f"missing={self.layout.missing!r}")
        return f"Product({', '.join(arguments)})"

    def _blocks(self) -> Iterable[tuple[Family, np.ndarray]]:
        """The family and the columns of each block."""
        for b, family in enumerate(self.families):
            yield family, self.layout.places(b)


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
    if not weights:
        return None
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


def _mixed(densities: Array, weights: Array) -> Array:
    """log Σ_k w_k p_k / Σ_k w_k in each column, `[d]` from `[k, d]`."""
    share = weights / jnp.sum(weights, axis=0, keepdims=True)
    return logsumexp(densities, axis=0, b=share)


def _total(terms: Iterable[Array]) -> Array:
    return functools.reduce(operator.add, terms)
