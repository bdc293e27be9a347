"""What an engine asks of lower bounds of merge costs."""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from typing_extensions import override

from bregjax._pytree import register_pytree
from bregjax._typing import Array, PyTree

__all__ = ["CostScreen", "Screen"]


class Screen(abc.ABC):
    """Cheap lower bounds of the merge costs of all pairs of some clusters.

    An engine evaluates costs only where the bound leaves a pair in question. A bound is
    never above `merge_cost`, rounding of both included; how close it comes decides the
    speed, not the tree. A bound that is NaN excludes nothing.

    A pytree, made once from the leaves (`ClusterModel.screen`): what is constant over a
    run, such as a centre or a table, are its arrays.
    """

    @property
    def group(self) -> int:
        """How many neighbouring pairs may share the two least of their bounds.

        A power of two: large where bounds are close to costs and costs are cheap.
        """
        return 16

    @property
    def factorises(self) -> bool:
        """Whether bounds may factorise matrices.

        Then they are computed one block at a time: XLA on a CPU can lock up where two
        programs with batches of factorisations run side by side.
        """
        return True

    def pair_size(self, state: PyTree) -> int:
        """Numbers that the bound of one pair works on; engines size tiles by it.

        One a few times, where nothing is made of the size of states.
        """
        del state
        return 8

    @abc.abstractmethod
    def features(self, state: PyTree, dtype: jnp.dtype) -> PyTree:
        """What bounds need of clusters, made once for each.

        Args:
            state: States `[m]`.
            dtype: The precision to work in: float32 may do where states are float64,
                as long as bounds allow for its rounding. It may be ignored.

        Returns:
            Arrays with the leading axis `[m]`.
        """

    @abc.abstractmethod
    def against(self, rows: PyTree) -> Callable[[PyTree], Array]:
        """From features `[k]` of rows to a function from features `[m]` of columns.

        Its values are bounds `[k, m]`. What needs only the rows is done once.
        """

    def closer(self, a: PyTree, b: PyTree) -> Array | None:
        """Closer bounds of the costs of single pairs, `[p]` from features `[p]` twice.

        For the pairs that the others leave, where costs are dear. None where there is
        nothing between the two.
        """
        del a, b
        return None


@register_pytree
@dataclass(frozen=True)
class CostScreen(Screen):
    """The merge cost of a model itself, less its rounding."""

    model: Any

    @override
    def pair_size(self, state: PyTree) -> int:
        return self.model.pair_size(state)

    @override
    def features(self, state: PyTree, dtype: jnp.dtype) -> PyTree:
        del dtype
        return state

    @override
    def against(self, rows: PyTree) -> Callable[[PyTree], Array]:
        rows = jax.tree.map(lambda leaf: leaf[:, None], rows)

        def bound(columns: PyTree) -> Array:
            columns = jax.tree.map(lambda leaf: leaf[None], columns)
            cost = self.model.merge_cost(rows, columns)
            return cost * (1 - 64 * float(jnp.finfo(cost.dtype).eps))

        return bound
