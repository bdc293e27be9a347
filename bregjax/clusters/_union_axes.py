"""Axes of the covariances of unions, and how far apart means are along these.

With G = HHᵀ = U diag(g) Uᵀ of n rows H, the axes of I + HᵀH are g_k^-½ (HᵀU)_k, its
eigenvalues 1 + g_k and, beside these, 1; but for rounding, magnified by g_1 / g_k.

Example: points −1 and 1 on the first of three axes, each of share ½, have the one row
H = (1, 0, 0): G is 1, and the covariance 2 along the first axis, 1 across.
"""

from typing import Self

import numpy as np

from bregjax.clusters._small_matrices import multiply

__all__ = ["UnionAxes"]

# Roundings of a square, for each column.
_ROUNDINGS = 8 * float(np.finfo(float).eps)
# In more than so many columns eigenvalues of few rows are found by their products,
# which are smaller, if they are no more than so many, and axes of those that are not
# less than so many.
_PLAIN, _WIDE, _FLAT = 8, 100.0, 0.01


class UnionAxes:
    """Eigenvalues and axes of covariances, none of whose eigenvalues is less than 1.

    Attributes:
        values: Eigenvalues, the greatest last, `[t, d]`.
        axes: Their axes, in columns, zero where an eigenvalue is next to 1;
            `[t, d, d]`.
        slack: How much more than covariances they may be off, `[t]`.
    """

    def __init__(self, values: np.ndarray, axes: np.ndarray, slack: np.ndarray):
        self.values, self.axes, self.slack = values, axes, slack

    @classmethod
    def of(cls, covariance: np.ndarray, few: np.ndarray, rows: np.ndarray) -> Self:
        """Find eigenvalues and axes.

        Args:
            covariance: `[t, d, d]`.
            few: Which have few rows, no more than d / 2; `[f]`.
            rows: H of these, and zeros, `[f, n, d]`.
        """
        count, dim = covariance.shape[:2]
        found = cls(np.ones((count, dim)), np.zeros(covariance.shape), np.empty(count))
        plain = np.ones(count, bool)
        if dim > _PLAIN and len(few):
            plain[found._put_few(few, rows)] = False
        if plain.any():
            values, found.axes[plain] = np.linalg.eigh(covariance[plain])
            # Rounding takes some below, where the greatest is by far more.
            found.values[plain] = np.maximum(values, 1)
            found.slack[plain] = found.values[plain, -1]
        return found

    def _put_few(self, few: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Find those of few rows; return which they are, the rest being too wide."""
        first = self.values.shape[1] - rows.shape[1]
        values, axes = np.linalg.eigh(rows @ rows.swapaxes(1, 2))
        narrow = values[:, -1] <= _WIDE
        few, values, axes = few[narrow], np.maximum(values[narrow], 0), axes[narrow]
        axes = axes.swapaxes(1, 2) @ rows[narrow]
        flat = values < _FLAT
        axes /= np.sqrt(np.where(flat, np.inf, values))[:, :, None]
        self.values[few, first:] = 1 + values
        self.axes[few, :, first:] = axes.swapaxes(1, 2)
        # Rounding changes products by n d ε g_1 and axes by 1 / _FLAT times that, which
        # counts 1 + g_1 times: no more than this.
        self.slack[few] = 8 * (1 + values[:, -1]) ** 2
        return few

    def spread(
        self,
        row: np.ndarray,
        delta: np.ndarray,
        share: np.ndarray,
        floor: np.ndarray,
        many: int,
    ) -> np.ndarray:
        """Σ_e δ_e² / (p s_e + f), or less, with the eigenvalues s_e; `[n]`.

        Args:
            row: Which covariance each is of, in order, `[n]`.
            delta: δ, `[n, d]`.
            share: p, `[n]`.
            floor: f, `[n]`.
            many: How many axes to go by, the first of all. The other eigenvalues are no
                more than the next.
        """
        count, dim = self.values.shape
        first = dim - many
        axes, along = self.axes[:, :, first:], np.empty((len(row), many))
        ends = np.searchsorted(row, np.arange(count + 1)).tolist()
        for k in range(count):
            part = slice(ends[k], ends[k + 1])
            multiply(delta[part], axes[k], along[part])
        np.square(along, out=along)
        across = (1 - _ROUNDINGS * (dim + 4)) * np.einsum("nd,nd->n", delta, delta)
        across -= np.einsum("nd->n", along)
        # Axes may be missing where eigenvalues are next to 1.
        beside = np.maximum(self.values[:, first - 1], 1 + _FLAT)
        size = self.values[row, first:]
        size *= share[:, None]
        size += floor[:, None]
        along /= size
        rest = np.maximum(across, 0) / (share * beside[row] + floor)
        return rest + np.einsum("nd->n", along)

    def __getitem__(self, some: slice) -> "UnionAxes":
        return UnionAxes(self.values[some], self.axes[some], self.slack[some])
