"""What a user passes as `family`, as a geometry that suits the table."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bregjax._checks import is_concrete
from bregjax._frames import frame_of, is_frame
from bregjax._geometry import FunctionGeometry, Geometry
from bregjax._inputs import is_missing
from bregjax._sparse_rows import SparseRows
from bregjax._typing import Array, TableLike
from bregjax.convex import ConvexFunction
from bregjax.convex._plain import as_convex_function
from bregjax.families import Family, Product, choose_families, named_family
from bregjax.families._layout import Missing

__all__ = ["FamilyLike", "geometry_for", "lacks_cells"]

FamilyLike = (
    str | Geometry | ConvexFunction | Callable[[Array], Array] | Mapping[Any, Any]
)


def geometry_for(x: TableLike, family: FamilyLike | None, missing: Missing) -> Geometry:
    """The geometry that `family` stands for, which takes missing cells where need be.

    Raises:
        TypeError: If `family` is of no kind known here.
        ValueError: If there is no family of that name, or no such column.
    """
    table: Any = x
    if family is None and not is_frame(x):
        raise TypeError(
            '`family` must be given with data, such as family="gaussian", or "auto" to '
            "choose by what columns hold; or pass a Problem, which has one."
        )
    if family is None or (isinstance(family, str) and family == "auto"):
        return choose_families(table, missing=missing)
    if isinstance(family, Mapping):
        return choose_families(table, family, missing=missing)
    geometry = _geometry(family)
    if isinstance(geometry, Product):
        return geometry if missing == "auto" else geometry.with_missing(missing)
    if isinstance(x, SparseRows) or not isinstance(geometry, Family):
        if missing != "auto":
            what = "sparse rows" if isinstance(x, SparseRows) else "convex functions"
            raise ValueError(
                f'`missing` must be "auto" for {what}, which take no missing cells; '
                f"got {missing!r}. Leave it out."
            )
        return geometry
    if missing == "auto" and not lacks_cells(x):
        return geometry
    shape = np.shape(table)
    if is_frame(x):
        columns = frame_of(x).columns
    else:
        columns = tuple(range(shape[1] if len(shape) == 2 else 1))
    return Product({columns: geometry}, missing=missing)


def _geometry(family: Any) -> Geometry:
    if isinstance(family, str):
        return named_family(family)
    if isinstance(family, Geometry):
        return family
    if isinstance(family, type):
        raise TypeError(
            f"`family` must be an instance, such as {family.__name__}(); got the class."
        )
    if isinstance(family, ConvexFunction) or callable(family):
        function: Any = family
        return FunctionGeometry(as_convex_function(function))
    raise TypeError(
        "`family` must be a family, its name, or a convex function; got "
        f"{type(family).__name__}."
    )


def lacks_cells(x: Any) -> bool:
    """Whether known cells of a table are missing: None, NaN, NA, or masked."""
    if isinstance(x, SparseRows) or not is_concrete(x):
        return False
    if is_frame(x):
        return any(column.missing.any() for column in frame_of(x).members)
    if isinstance(x, np.ma.MaskedArray):
        return bool(np.ma.is_masked(x)) or lacks_cells(x.data)
    if isinstance(x, list | tuple):
        if any(isinstance(row, np.ma.MaskedArray) for row in x):
            return any(lacks_cells(row) for row in x)
        x = np.array(x, dtype=object) if _is_even(x) else np.zeros(0)
    if hasattr(x, "__array__"):
        x = np.asarray(x)
    if not isinstance(x, np.ndarray):
        return False
    if x.dtype.kind == "f":
        return bool(np.isnan(x).any())
    return x.dtype == object and any(is_missing(value) for value in x.flat)


def _is_even(rows: Any) -> bool:
    """Whether all rows of a list have one length."""
    return len({np.shape(row)[:1] for row in rows}) == 1
