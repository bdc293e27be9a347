"""Rows and weights as scikit-learn passes them, checked in scikit-learn's words."""

import dataclasses
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import validate_data

from bregjax._family_like import FamilyLike, geometry_for
from bregjax._frames import frame_of, is_frame
from bregjax._geometry import Geometry
from bregjax._inputs import place
from bregjax._typing import TableLike
from bregjax.families import Family
from bregjax.families._vector_family import VectorFamily

__all__ = [
    "checked_rows",
    "checked_weights",
    "is_positive",
    "known_geometry",
    "rows_at",
    "takes_missing",
]


def known_geometry(family: FamilyLike | None) -> Geometry | None:
    """What `family` stands for whatever the data; None where columns decide.

    None as well for what is no family: `fit` raises then.
    """
    by_column = family is None or isinstance(family, Mapping)
    if by_column or (isinstance(family, str) and family == "auto"):
        return None
    try:
        return geometry_for([[0.0]], family, "auto")
    except (TypeError, ValueError):
        return None


def takes_missing(geometry: Geometry | None) -> bool:
    """Whether rows may lack cells."""
    if geometry is None or geometry.encodes:
        return True
    return isinstance(geometry, Family) and geometry.columnwise


def checked_rows(
    estimator: BaseEstimator,
    x: TableLike,
    *,
    geometry: Geometry | None,
    reset: bool,
    least: int = 1,
) -> TableLike:
    """Rows that `Problem` takes: an array, a sparse matrix, or a table as it is.

    Sets `n_features_in_` and `feature_names_in_`, or compares with them.

    Args:
        estimator: The estimator that is given the rows.
        x: Its `X`.
        geometry: Of its family; None where columns decide.
        reset: Whether the estimator is fitted to the rows.
        least: The least number of rows.

    Raises:
        ValueError: In scikit-learn's words.
        TypeError: If rows are sparse, and the family takes no such rows.
    """
    if isinstance(x, np.ma.MaskedArray):
        # scikit-learn would read what is under the mask.
        hidden = np.ma.getmaskarray(x)
        x = np.ma.getdata(x).astype(object)
        x[hidden] = None
    by_column = geometry is None or geometry.encodes
    # One of SciPy's sparse formats is a dictionary.
    named = is_frame(x) and not hasattr(x, "tocsr")
    if by_column and named:
        # Names, levels and mixed columns: bregjax reads and checks the cells.
        table: Any = frame_of(x) if isinstance(x, Mapping) else x
        validate_data(estimator, table, reset=reset, skip_check_array=True)
        return table
    if by_column and isinstance(x, list | tuple):
        # NumPy would turn numbers beside names into text.
        x = np.array(x, dtype=object)
    array = validate_data(
        estimator,
        x,
        reset=reset,
        accept_sparse="csr"
        if geometry is not None and geometry.takes_sparse
        else False,
        dtype=None if by_column else [np.float64, np.float32],
        ensure_all_finite="allow-nan" if takes_missing(geometry) else True,
        ensure_min_samples=least,
    )
    if geometry is not None and not by_column and is_positive(geometry):
        _check_positive(array, geometry)
    # A frame brings the names of its columns, which explanations show.
    return x if reset and named and isinstance(array, np.ndarray) else array


def is_positive(geometry: Geometry) -> bool:
    """Whether a built-in family takes no negative numbers."""
    if not isinstance(geometry, VectorFamily):
        return False
    allowed, _, _ = geometry.support(np.full((1, 1), -1.0))
    return not allowed.all()


def _check_positive(array: Any, geometry: Geometry) -> None:
    """Raise ValueError at the first negative number, in scikit-learn's words."""
    sparse = hasattr(array, "tocsr")
    if not np.any((array.data if sparse else array) < 0):
        return
    where = np.argwhere((array.toarray() if sparse else array) < 0)[0]
    row, column = map(int, where)
    raise ValueError(
        f"Negative values in data passed to `X`: {array[row, column]} at "
        f"{place((row, column))}, which {type(geometry).__name__} does not take. Drop "
        "such rows, or take another family."
    )


def checked_weights(sample_weight: Any, x: TableLike) -> np.ndarray | None:
    """Weights of rows, none negative and not all zero, `[m]`; None for 1 each.

    Raises:
        ValueError: In scikit-learn's words.
    """
    if sample_weight is None:
        return None
    count = np.shape(x)[0]
    if isinstance(sample_weight, Real):
        sample_weight = np.full(count, float(sample_weight))
    kind: Any = np.float64
    weights = check_array(
        sample_weight, dtype=kind, ensure_2d=False, input_name="sample_weight"
    )
    if weights.ndim != 1:
        raise ValueError(
            "Sample weights must be 1D array or scalar; got shape "
            f"{weights.shape}. Pass a weight a row."
        )
    check_consistent_length(weights, np.empty(count))
    if np.any(weights < 0):
        row = int(np.argmax(weights < 0))
        raise ValueError(
            f"Negative values in data passed to `sample_weight`: {weights[row]} at row "
            f"{row}. Weights must not be negative; those of 0 leave rows out."
        )
    if not np.any(weights):
        raise ValueError(
            "Sample weights must contain at least one non-zero number; got zeros "
            "alone. Leave `sample_weight` out for 1 each."
        )
    return weights


def rows_at(x: TableLike, places: np.ndarray) -> TableLike:
    """Some rows of a table of any make."""
    table: Any = x
    if hasattr(table, "tocsr") or isinstance(table, np.ndarray):
        return table[places]
    frame = frame_of(table)
    members = tuple(
        dataclasses.replace(column, values=column.values[places])
        for column in frame.members
    )
    return dataclasses.replace(frame, members=members)
