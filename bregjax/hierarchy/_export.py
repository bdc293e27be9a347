"""Trees in the formats of others: SciPy's linkage matrix, Newick, an npz file."""

import os
import re
import zipfile
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from bregjax._checks import check_finite, check_support, float_array
from bregjax.hierarchy import _walk

_FORMAT = "bregjax_dendrogram_version"
_VERSION = 1
_NEEDS_NO_QUOTES = re.compile(r"[A-Za-z0-9.+-]+")


def linkage_matrix(children: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """SciPy's linkage matrix: both children, the height, the number of leaves."""
    counts = _walk.sizes(children)[len(children) + 1 :]
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
    problem = _walk.problem_with(children)
    if problem:
        raise ValueError(
            f"`z` must merge existing clusters, each once; {problem}. Leaves are "
            f"0 … m − 1 and row t makes node m + t."
        )
    counts = np.asarray(_walk.sizes(children)[len(z) + 1 :], dtype=np.float64)
    if (z[:, 3] != counts).any():
        row = int(np.argmax(z[:, 3] != counts))
        raise ValueError(
            f"`z` must count the leaves of each cluster in its last column; got "
            f"{z[row, 3]:g} in row {row}, which has {counts[row]:g}."
        )
    return children.astype(np.int32), z[:, 2].copy()


def newick(
    children: np.ndarray, heights: np.ndarray, names: Sequence[object] | None
) -> str:
    """The tree as one line of Newick text, leaves at height 0."""
    num_leaves = len(children) + 1
    if names is None:
        names = [str(leaf) for leaf in range(num_leaves)]
    else:
        names = [_quoted(name) for name in newick_names(names)]
    all_heights = np.concatenate([np.zeros(num_leaves), heights])
    lengths = (all_heights[_walk.parents(children)] - all_heights).tolist()
    pairs = children.tolist()
    root = 2 * num_leaves - 2
    suffix = [f":{length!r}" for length in lengths[:root]] + [";"]
    words: list[str] = []
    waiting: list[int | str] = [root]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            words.append(item)
        elif item < num_leaves:
            words.append(names[item] + suffix[item])
        else:
            left, right = pairs[item - num_leaves]
            words.append("(")
            waiting.extend([")" + suffix[item], right, ",", left])
    return "".join(words)


def newick_names(names: Iterable[object]) -> list[str]:
    """Names of one line, each once: where one comes again it ends in .1, .2, …."""
    names = [" ".join(str(name).splitlines()) for name in names]
    known = set(names)
    if len(known) == len(names):
        return names
    used: set[str] = set()
    number: dict[str, int] = {}
    for leaf, name in enumerate(names):
        if name in used:
            count = number.get(name, 0) + 1
            while f"{name}.{count}" in known:
                count += 1
            number[name], names[leaf] = count, f"{name}.{count}"
            known.add(names[leaf])
        used.add(names[leaf])
    return names


def _quoted(name: str) -> str:
    """A Newick name; an underscore outside quotes would be read as a blank."""
    if _NEEDS_NO_QUOTES.fullmatch(name):
        return name
    return "'" + name.replace("'", "''") + "'"


def write_tree(path: str | os.PathLike[str], arrays: dict[str, np.ndarray]) -> None:
    """Write the arrays of a tree to an npz file under exactly this name."""
    contents: dict[str, Any] = {_FORMAT: np.asarray(_VERSION)} | arrays
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
    if not names <= arrays.keys() <= names | {"ward_scale"}:
        raise ValueError(
            f"`path` must hold {sorted(names)} and perhaps 'ward_scale'; {path} holds "
            f"{sorted(arrays)}."
        )
    children = arrays["children"]
    shapes = [arrays[name].shape for name in ("merge_costs", "weights")]
    if (
        children.dtype != np.int32
        or children.shape[1:] != (2,)
        or shapes != [(len(children),), (len(children) + 1,)]
        or _walk.problem_with(children)
    ):
        raise ValueError(
            f"`path` must hold a tree; the arrays in {path} do not fit together. "
            f"Write the file again."
        )
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
