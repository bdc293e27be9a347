"""Trees as arrays of others: SciPy's linkage matrix, R's hclust, an npz file."""

import os
import zipfile
from typing import Any, get_args

import numpy as np

from bregjax._checks import (
    check_finite,
    check_support,
    check_weights,
    float_array,
)
from bregjax.hierarchy import _walk
from bregjax.hierarchy._tree_nodes import Unit

_FORMAT = "bregjax_dendrogram_version"
# Version 2 has forests, and 3 trees from elsewhere, whose heights are no nats; others
# are written as version 1, which older releases read.
_VERSION = 3


def linkage_matrix(children: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """SciPy's linkage matrix: both children, the height, the number of leaves."""
    num_leaves = len(children) + 1
    counts = _walk.sizes(children, num_leaves)[num_leaves:]
    return np.column_stack([children, heights, counts]).astype(np.float64)


def parse_linkage(z: Any) -> tuple[np.ndarray, np.ndarray]:
    """The children (int32) and heights (float64) of a SciPy linkage matrix.

    Raises:
        ValueError: If `z` isn't one.
    """
    z = np.asarray(float_array(z, "z"))
    if z.ndim != 2 or z.shape[1] != 4:
        raise ValueError(
            f"`z` must have shape [m − 1, 4], as SciPy's linkage matrices; "
            f"got {list(z.shape)}."
        )
    check_finite("z", z)
    whole = z == np.round(z)
    whole[:, 2] = True
    check_support(
        "z",
        z,
        whole,
        rule="must hold whole numbers in columns 0, 1 and 3",
        remedy="Check the order of its columns",
    )
    check_support(
        "z",
        z,
        z >= 0,
        rule="must not be negative",
        remedy="Turn similarities into distances before clustering",
    )
    children = z[:, :2].astype(np.int64)
    problem = _walk.problem_with(children, len(z) + 1)
    if problem:
        raise ValueError(
            f"`z` must merge existing clusters, each once; {problem}. Leaves are "
            f"0 … m − 1 and row t makes node m + t."
        )
    sizes = _walk.sizes(children, len(z) + 1)[len(z) + 1 :]
    counts = np.asarray(sizes, dtype=np.float64)
    if (z[:, 3] != counts).any():
        row = int(np.argmax(z[:, 3] != counts))
        raise ValueError(
            f"`z` must count the leaves of each cluster in its last column; got "
            f"{z[row, 3]:g} in row {row}, which has {counts[row]:g}."
        )
    return children.astype(np.int32), z[:, 2].copy()


def parse_hclust(merge: Any, height: Any) -> tuple[np.ndarray, np.ndarray]:
    """The children (int32) and heights (float64) of the merges of R's hclust.

    Raises:
        ValueError: If they are not.
    """
    merge = np.asarray(float_array(merge, "merge"))
    height = np.asarray(float_array(height, "height"))
    if merge.size == 0:
        merge = merge.reshape(-1, 2)
    if merge.ndim != 2 or merge.shape[1] != 2 or height.shape != merge.shape[:1]:
        raise ValueError(
            f"`merge` must have shape [m − 1, 2] and `height` [m − 1], as those of R's "
            f"hclust; got {list(merge.shape)} and {list(height.shape)}."
        )
    check_finite("merge", merge)
    check_finite("height", height)
    check_support(
        "height",
        height,
        height >= 0,
        rule="must not be negative",
        remedy="Turn similarities into distances before clustering",
    )
    check_support(
        "merge",
        merge,
        (merge == np.round(merge)) & (merge != 0),
        rule="must hold whole numbers, leaves below 0 and rows from 1 on",
        remedy="Take `merge` of R as it is, numbered from 1",
    )
    num_leaves = len(merge) + 1
    check_support(
        "merge",
        merge,
        merge >= -num_leaves,
        rule=f"must name leaves from -1 to -{num_leaves}",
        remedy="Take all rows of `merge`",
    )
    children = np.where(merge < 0, -merge - 1, num_leaves + merge - 1).astype(np.int64)
    problem = _walk.problem_with(children, num_leaves)
    if problem:
        raise ValueError(
            f"`merge` must merge existing clusters, each once; counted from 0, with "
            f"{num_leaves} leaves first, {problem}."
        )
    return children.astype(np.int32), height


def hclust_merges(
    children: np.ndarray, heights: np.ndarray, *, ascending: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The merges and heights of R's hclust: leaves below 0, rows from 1 on.

    Args:
        children: `[m − 1, 2]`.
        heights: `[m − 1]`.
        ascending: Whether rows come by their heights, none of which is then below that
            of a merge it unites.
    """
    num_leaves = len(children) + 1
    # Of equal heights the earlier merge is first: none comes before those it unites.
    order = np.argsort(heights, kind="stable") if ascending else np.arange(len(heights))
    row = np.empty(len(order), dtype=np.int32)
    row[order] = np.arange(1, len(order) + 1)
    number = np.concatenate([-np.arange(1, num_leaves + 1), row]).astype(np.int32)
    return number[children[order]], heights[order]


def leaf_weights(weights: Any, num_leaves: int) -> np.ndarray:
    """The weights of leaves, 1 each if None.

    Raises:
        ValueError: If there are not so many, or one is not positive and finite.
    """
    if weights is None:
        return np.ones(num_leaves)
    weights = np.asarray(float_array(weights, "weights"))
    if weights.shape != (num_leaves,):
        raise ValueError(
            f"`weights` must have one weight for each of the {num_leaves} leaves; got "
            f"shape {list(weights.shape)}."
        )
    check_weights(weights, num_leaves)
    return weights


def known_unit(unit: Any) -> Unit:
    """The unit of merge costs.

    Raises:
        ValueError: If there is no such unit.
    """
    if unit not in get_args(Unit):
        raise ValueError(f"`unit` must be one of {list(get_args(Unit))}; got {unit!r}.")
    return unit


def write_tree(path: str | os.PathLike[str], arrays: dict[str, np.ndarray]) -> None:
    """Write the arrays of a tree to an npz file under exactly this name."""
    is_tree = len(arrays["children"]) + 1 == len(arrays["weights"])
    version = _VERSION if "unit" in arrays else 1 if is_tree else 2
    contents: dict[str, Any] = {_FORMAT: np.asarray(version)} | arrays
    with open(path, "wb") as file:
        np.savez(file, **contents)


def read_tree(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what `write_tree` wrote; nothing in the file is executed.

    Raises:
        ValueError: If the file is another one, damaged, or of a later version.
    """
    arrays = _read_arrays(path)
    if _FORMAT not in arrays:
        raise ValueError(f"{_not_a_tree(path)} (it holds {sorted(arrays)}).")
    version = int(arrays.pop(_FORMAT))
    if version > _VERSION:
        raise ValueError(
            f"`path` must be of format version {_VERSION} at most; {path} is of "
            f"version {version}. Update bregjax."
        )
    names = {"children", "merge_costs", "weights"}
    if not names <= arrays.keys() <= names | {"unit", "ward_scale"}:
        raise ValueError(
            f"`path` must hold {sorted(names)} and perhaps 'unit' and 'ward_scale'; "
            f"{path} holds {sorted(arrays)}."
        )
    children, weights = arrays["children"], arrays["weights"]
    if (
        children.dtype != np.int32
        or children.shape[1:] != (2,)
        or arrays["merge_costs"].shape != (len(children),)
        or weights.ndim != 1
        or len(weights) <= len(children)
        or (version == 1 and len(weights) != len(children) + 1)
        or _walk.problem_with(children, len(weights))
    ):
        raise ValueError(
            f"`path` must hold a tree; the arrays in {path} do not fit together. "
            f"Write the file again."
        )
    if "unit" in arrays:
        arrays["unit"] = known_unit(str(arrays["unit"]))
    if "ward_scale" in arrays:
        arrays["ward_scale"] = arrays["ward_scale"][()]
    return arrays


def _read_arrays(path: str | os.PathLike[str]) -> dict[str, Any]:
    with open(path, "rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError(f"{_not_a_tree(path)} (no zip archive, or cut short).")
        file.seek(0)
        try:
            with np.load(file, allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
        except (zipfile.BadZipFile, ValueError, EOFError) as error:
            raise ValueError(
                f"{_not_a_tree(path)}, or is damaged ({error})."
            ) from error


def _not_a_tree(path: str | os.PathLike[str]) -> str:
    return f"`path` must be a file that `Dendrogram.save` wrote; {path} is not"
