"""One family for each column of the data, columns independent."""

from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.tree_util import GetAttrKey
from typing_extensions import override

from bregjax._checks import float_array
from bregjax._typing import Array, ArrayLike, DataLike, PyTree
from bregjax.clusters import ClusterModel, ColumnsModel, NaturalModel
from bregjax.clusters._columns_model import sum_of_columns
from bregjax.convex import ConjugateSolution
from bregjax.families._base import Family
from bregjax.families._cell_form import CellForm, SolvedCells
from bregjax.families._exponential_family import ExponentialFamily
from bregjax.families._params import split

__all__ = ["Columnwise"]


@jax.tree_util.register_pytree_with_keys_class
class Columnwise(Family):
    """Independent columns, each of one family: ψ(θ) = Σ_j ψ₁(θ_j).

    Write ψ₁, T and log h for one number; they apply to every column. A conjugate is
    then many systems of a few equations, and a cost a sum over columns, which is faster
    than one ψ of all columns and keeps more digits.

    Args:
        family: The family of one column, whose observations are single numbers.
        dim: Number d of columns; taken from the data if None.
        params: Parameters of ψ₁ in each column, of the structure of `family.params`
            with a leading axis `[d]`; if None all columns share `family.params`. Costs
            differentiate with respect to them.

    Raises:
        TypeError: If `family` is not an `ExponentialFamily`.
        ValueError: If `params` is not of the structure of `family.params`, or its
            leading axes differ.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import bregjax as bj
        >>> def psi(theta, dispersion):  # negative binomial counts
        ...     return -dispersion * jnp.log(-jnp.expm1(theta))
        >>> column = bj.ExponentialFamily(psi, lambda x: x, -1.0, params=2.0)
        >>> family = bj.Columnwise(column, params=jnp.array([1.0, 2.0, 5.0]))
        >>> print(jax.jit(family.natural_to_mean)(jnp.full(3, -1.0)))
        [0.582 1.164 2.910]
    """

    def __init__(
        self,
        family: ExponentialFamily,
        dim: int | None = None,
        *,
        params: PyTree = None,
    ):
        if not isinstance(family, ExponentialFamily):
            raise TypeError(
                "`family` must be an ExponentialFamily of one number; got "
                f"{type(family).__name__}. Built-in families are columnwise already."
            )
        self.family = family
        self.dim = dim
        self.params = None if params is None else split(params)[0]
        if params is not None:
            self._check_params()

    def _check_params(self) -> None:
        wanted = jax.tree.structure(split(self.family.params)[0])
        got = jax.tree.structure(self.params)
        if wanted != got:
            raise ValueError(
                "`params` must have the structure of `family.params`, "
                f"{wanted}, with a leading axis of columns; got {got}."
            )
        sizes = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(self.params)}
        dims = {(self.dim,)} if self.dim is not None else set()
        if len(sizes | dims) != 1 or sizes == {()}:
            raise ValueError(
                "`params` must have one leading axis, the columns"
                f"{'' if self.dim is None else f' ({self.dim})'}; got shapes "
                f"{[np.shape(leaf) for leaf in jax.tree.leaves(self.params)]}."
            )
        (self.dim,) = sizes.pop()

    def tree_flatten_with_keys(self):
        """Leaves: the family of a column, and the parameters by column."""
        keys = GetAttrKey("family"), GetAttrKey("params")
        children = self.family, self.params
        return list(zip(keys, children, strict=True)), self.dim

    @classmethod
    def tree_unflatten(cls, aux: Any, children: Any) -> "Columnwise":
        """Rebuild without checks."""
        family = object.__new__(cls)
        family.dim = aux
        family.family, family.params = children
        return family

    def __repr__(self) -> str:
        """Name the family of a column, and the columns."""
        return f"Columnwise({self.family!r}, dim={self.dim})"

    @property
    def known_dim(self) -> int:
        """The number of columns.

        Raises:
            ValueError: If `dim` is None.
        """
        if self.dim is None:
            raise ValueError(
                "Columnwise does not know its dimension yet. Give it, "
                "Columnwise(…, dim=…), or take it from data, family.for_data(x)."
            )
        return self.dim

    @property
    @override
    def separable(self) -> bool:
        """Whether the family of a column has one parameter."""
        leaves = jax.tree.leaves(self.family.natural_init)
        return sum(int(np.size(leaf)) for leaf in leaves) == 1

    @property
    @override
    def num_parameters(self) -> int:
        """Those of the family of a column, in each."""
        return self.known_dim * self.family.num_parameters

    @property
    @override
    def columnwise(self) -> bool:
        return True

    @property
    @override
    def natural_init(self) -> PyTree:
        """The start of the family of a column, repeated."""
        spread = lambda leaf: jnp.broadcast_to(leaf, (self.known_dim, *jnp.shape(leaf)))
        return jax.tree.map(spread, self.family.natural_init)

    @override
    def log_partition(self, natural: PyTree) -> Array:
        """Σ_j ψ₁(θ_j)."""
        values = self._by_column(lambda one, theta: one.log_partition(theta), natural)
        return jnp.sum(values)

    @override
    def sufficient_statistics(self, x: Array) -> PyTree:
        """T of each column, leaves `[d, ...]`."""
        return self._by_column(lambda one, value: one.sufficient_statistics(value), x)

    @override
    def log_base_measure(self, x: Array) -> Array:
        """Σ_j log h(x_j)."""
        values = self._by_column(lambda one, value: one.log_base_measure(value), x)
        return jnp.sum(values)

    @override
    def conjugate(
        self, mean: PyTree, *, start: PyTree | None = None
    ) -> ConjugateSolution:
        """Σ_j ψ₁*(μ_j), with the code of the worst column."""
        if self.separable:
            return self.numerical_conjugate(mean, start=start)
        start = self.natural_init if start is None else start
        solve = lambda one, mean, start: one.conjugate(mean, start=start)
        return sum_of_columns(self._by_column(solve, mean, start))

    @property
    @override
    def solves(self) -> bool:
        return self.family.solves

    @override
    def cluster_model(self) -> ClusterModel:
        """Clusters by a small system in each column, or by one separable ψ."""
        if self.separable:
            return NaturalModel(self)
        return ColumnsModel(self.family, self.known_dim, self.params)

    @override
    def cells(self) -> CellForm:
        return SolvedCells(ColumnsModel(self.family, self.known_dim, self.params))

    @override
    def density_parameters(self, clusters: Any) -> tuple[PyTree, Array]:
        if self.separable:
            return super().density_parameters(clusters)
        _, unravel = ravel_pytree(self.family.natural_init)
        natural = jax.vmap(jax.vmap(unravel))(clusters.natural)
        return natural, jax.vmap(self.log_partition)(natural)

    @override
    def for_data(self, x: DataLike) -> Self:
        """The family with `dim` set to the number of columns of `x`.

        Raises:
            ValueError: If `x` is not a matrix, of another width, or T of a number does
                not fit θ.
        """
        shape = np.shape(x)
        if len(shape) not in (1, 2):
            raise ValueError(
                f"`x` must be a matrix with a row a point; got shape {shape}."
            )
        width = shape[1] if len(shape) == 2 else 1
        if self.dim is not None and self.dim != width:
            raise ValueError(
                f"`x` must have {self.dim} columns, the `dim` of the family; got "
                f"{width}. Leave `dim` out to take it from the data."
            )
        self.family.for_data(np.zeros(1))
        return type(self)(self.family, width, params=self.params)

    @override
    def as_rows(self, x: DataLike) -> Array:
        """Rows `[m, d]`; a vector `[m]` is m points of one column."""
        x = float_array(x)
        return x[:, None] if x.ndim == 1 else x

    def _by_column(self, function: Any, *arguments: ArrayLike | PyTree) -> Any:
        """Map a function of the family of a column and of arguments over columns."""

        def in_column(params: PyTree, *arguments: Any) -> Any:
            one = self.family if params is None else self.family.with_params(params)
            return function(one, *arguments)

        axes = (None if self.params is None else 0, *[0] * len(arguments))
        return jax.vmap(in_column, axes)(self.params, *arguments)
