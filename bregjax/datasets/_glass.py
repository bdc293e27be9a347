"""UCI glass identification: 214 fragments, nine measurements, six types."""

from dataclasses import dataclass
from importlib import resources

import numpy as np

__all__ = ["Dataset", "load_glass"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """A labelled table.

    Attributes:
        x: Measurements, float64 `[m, d]`.
        classes: Class of each row, int64 `[m]`.
        feature_names: Names of columns.
        class_names: Name of each class that occurs.

    Examples:
        >>> glass = load_glass()
        >>> print(glass.class_names[glass.classes[0].item()])
        building windows, float processed
    """

    x: np.ndarray
    classes: np.ndarray
    feature_names: tuple[str, ...]
    class_names: dict[int, str]


_TYPES = {
    1: "building windows, float processed",
    2: "building windows, not float processed",
    3: "vehicle windows, float processed",
    5: "containers",
    6: "tableware",
    7: "headlamps",
}


def load_glass() -> Dataset:
    """Load the glass data, unscaled, rows in the order of the file.

    Refractive index, then weight percent of eight oxides. One row is a duplicate.

    References:
        B. German (1987), Glass Identification, UCI Machine Learning Repository,
        https://doi.org/10.24432/C5WW2P, CC BY 4.0.

    Examples:
        >>> glass = load_glass()
        >>> print(glass.x.shape, glass.feature_names[0], len(glass.class_names))
        (214, 9) RI 6
    """
    text = resources.files("bregjax.datasets").joinpath("glass.csv").read_text("utf-8")
    header, *rows = text.splitlines()
    table = np.array([[float(cell) for cell in row.split(",")] for row in rows])
    return Dataset(
        x=table[:, :-1],
        classes=table[:, -1].astype(np.int64),
        feature_names=tuple(header.split(",")[:-1]),
        class_names=_TYPES,
    )
