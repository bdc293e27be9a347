"""Smoothing maps for the blocks of a product: defaults, choices by column, checks."""

from collections.abc import Hashable, Mapping
from typing import Any

from bregjax._typing import Array
from bregjax.families._blocks import FamilyBlock
from bregjax.families._layout import Layout
from bregjax.smoothing import StatisticMap
from bregjax.smoothing._by_block import ByBlock

__all__ = ["check_maps", "default_maps", "maps_by_column"]


def default_maps(
    blocks: list[FamilyBlock], x: Array, weights: Array | None
) -> ByBlock | None:
    """The default map of each block, by its observed cells; None if none has one."""
    return _by_block(
        [
            block.family.default_smoothing(x[:, block.places], weights)
            for block in blocks
        ]
    )


def maps_by_column(
    given: Mapping[Any, StatisticMap | str | None],
    layout: Layout,
    auto: ByBlock | None,
) -> ByBlock | None:
    """Maps that are given for some columns, and defaults for the others.

    Args:
        given: For a column, or a tuple of columns, a map, None, or "auto".
        layout: The columns of each block.
        auto: The defaults.

    Raises:
        ValueError: If a column is not used, or the columns of a block get maps that
            differ.
    """
    maps: list[Any] = list(auto.maps if auto else (None,) * len(layout.blocks))
    said: dict[int, Any] = {}
    for key, smoothing in given.items():
        columns: tuple[Hashable, ...] = key if isinstance(key, tuple) else (key,)
        for column in columns:
            if column not in layout.used:
                raise ValueError(
                    f"`smoothing` has column {column!r}, which the family does not "
                    f"use; it uses {list(layout.used)}."
                )
            b = layout.block_of(column)
            if b in said and said[b] is not smoothing:
                raise ValueError(
                    "`smoothing` must be one map for the columns of a block, "
                    f"{list(layout.blocks[b])}; got several. Make blocks of their own, "
                    "Product({(column, …): family, …}), of columns that differ."
                )
            said[b] = smoothing
            if not (isinstance(smoothing, str) and smoothing == "auto"):
                maps[b] = smoothing
    return _by_block(maps)


def check_maps(smoothing: Any, blocks: list[FamilyBlock], rows: Array) -> None:
    """Raise unless each map suits its block.

    Raises:
        TypeError: If there is not a map, or None, for each block.
        ValueError: As `Geometry.check_smoothing`.
    """
    if not isinstance(smoothing, ByBlock) or len(smoothing.maps) != len(blocks):
        raise TypeError(
            "`smoothing` of a product of families must be a mapping of columns to "
            f'maps, "auto" or None; got {smoothing!r}. Write smoothing={{column: map, '
            "…}."
        )
    for each, block in zip(smoothing.maps, blocks, strict=True):
        if each is not None:
            block.family.check_smoothing(each, block.cells(rows)[0])


def _by_block(maps: list[Any]) -> ByBlock | None:
    return ByBlock(tuple(maps)) if any(each is not None for each in maps) else None
