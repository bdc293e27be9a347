"""Tables in array files: NPY, NPZ, sparse NPZ and Matrix Market."""

import contextlib
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse

from bregjax._cli.text_files import opened
from bregjax.hierarchy._memory import physical_memory

__all__ = ["Matrix", "as_dense", "read_matrix", "read_npz"]

Matrix = Any
"""A NumPy array, or a sparse one of SciPy's."""

_GIB = 2**30
_DATA_KEYS = ("X", "x")
# Of memory, for the dense table: there are copies of it, as padded rows, statistics
# and states of nodes.
_DENSE_SHARE = 1 / 8


def read_matrix(path: Path) -> Matrix:
    """Read the matrix of an .npy, .mtx or .mtx.gz file, float64 `[m, d]`.

    Raises:
        ValueError: If the file holds no matrix.
    """
    with opened(path) as file:
        if not path.name.lower().endswith((".mtx", ".mtx.gz")):
            return _matrix(np.load(file, allow_pickle=False))
        with warnings.catch_warnings():
            # SciPy 1.18 warns that it will give sparse arrays for matrices; 1.14 has no
            # option to choose. Either will do.
            warnings.simplefilter("ignore", DeprecationWarning)
            # As a file: of a name SciPy takes no endings in capitals.
            matrix = scipy.io.mmread(file)
    return _sparse_or_dense(matrix)


def read_npz(path: Path) -> tuple[Matrix, dict[str, np.ndarray]]:
    """Read the matrix of an .npz file, and the other arrays of the file.

    The matrix is what `scipy.sparse.save_npz` wrote, or the array called X or x, or the
    only array.

    Raises:
        ValueError: If the file has no such array.
    """
    # Opened here, for `np.load` leaves a damaged file open.
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        keys = set(archive.files)
        if {"format", "shape"} <= keys:
            sparse = {"format", "shape", "data", "indices", "indptr", "row", "col"}
            beside = _readable(archive, keys - sparse)
            return _sparse_or_dense(scipy.sparse.load_npz(path)), beside
        found = [key for key in _DATA_KEYS if key in keys] or archive.files
        if not found:
            raise ValueError("the file holds no array. Save one called X.")
        if found[0] not in _DATA_KEYS and len(found) != 1:
            raise ValueError(
                f"which array to cluster is not clear; the file holds "
                f"{', '.join(archive.files)}. Call it X."
            )
        beside = _readable(archive, keys - {found[0]})
        return _matrix(archive[found[0]]), beside


def _readable(archive: Any, keys: set[str]) -> dict[str, np.ndarray]:
    """The arrays of these names, without arrays of Python objects."""
    found = {}
    for key in sorted(keys):
        with contextlib.suppress(ValueError):  # they would have to be unpickled
            found[key] = archive[key]
    return found


def _sparse_or_dense(matrix: Any) -> Matrix:
    if not scipy.sparse.issparse(matrix):
        return _matrix(np.asarray(matrix))
    kind = np.dtype(matrix.dtype).kind
    if kind not in "biuf" or matrix.ndim != 2 or 0 in matrix.shape:
        return _matrix(matrix.toarray())  # which says what is wrong
    return scipy.sparse.csr_array(matrix, dtype=np.float64)


def as_dense(matrix: Matrix) -> np.ndarray:
    """Make a sparse matrix dense, if the result takes at most an eighth of the memory.

    Raises:
        ValueError: If the result is larger, naming its size.
    """
    if isinstance(matrix, np.ndarray):
        return matrix
    rows, columns = matrix.shape
    size, limit = rows * columns * 8 / _GIB, _DENSE_SHARE * physical_memory() / _GIB
    if size > limit:
        raise ValueError(
            f"the sparse matrix of {rows:,} rows and {columns:,} columns takes "
            f"{size:,.1f} GiB when dense, over an eighth of this machine's memory "
            f"({limit:,.1f} GiB). Keep the commonest columns, or a sample of rows; or "
            "take a family that leaves it sparse, such as multinomial, poisson, "
            "bernoulli or ward."
        )
    return matrix.toarray()


def _matrix(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "biuf" or array.ndim not in (1, 2):
        raise ValueError(
            f"the array must be a matrix of real numbers; got {array.dtype} of shape "
            f"{array.shape}. Save one with a row a point."
        )
    if not array.size:
        raise ValueError(
            f"the array is empty, of shape {array.shape}. Save one with a row a point."
        )
    return array.reshape(len(array), -1).astype(np.float64)
