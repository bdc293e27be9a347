"""The protocol of screens: lower bounds of merge costs."""

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

    An engine evaluates the cost of a pair only if the bound does not rule the pair out.
    A bound is never above `merge_cost`, rounding of both included; how close bounds are
    to costs decides the speed and not the tree. A bound of NaN rules nothing out.

    A screen is a pytree, made once from the leaves (`ClusterModel.screen`). Its arrays
    are what stays constant during a run, such as a center or a table.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import bregjax as bj
        >>> model = bj.SphericalGaussian().cluster_model()
        >>> states = model.leaves(jnp.array([[0.0], [2.0], [3.0]]), jnp.ones(3))
        >>> def bounds(states):
        ...     screen = model.screen(states)
        ...     features = screen.features(states, jnp.float32)
        ...     return screen.against(features)(features)
        >>> print(jax.jit(bounds)(states)[0, 1:].round(3))
        [1.   2.25]
    """

    @property
    def group(self) -> int:
        """How many pairs form a group, of which an engine keeps the two least bounds.

        A power of two: large where bounds are close to costs and costs are cheap.
        """
        return 16

    @property
    def factorises(self) -> bool:
        """Whether bounds may factorise matrices; True unless a screen knows better.

        Engines then compute bounds one block at a time: XLA on a CPU can lock up where
        two programs with batches of factorisations run side by side.
        """
        return True

    def pair_size(self, state: PyTree) -> int:
        """How many numbers the bound of one pair works on, to size tiles by.

        The default 8 is for bounds that loop over coordinates and keep a few numbers a
        pair, whatever the size of a state.
        """
        del state
        return 8

    @abc.abstractmethod
    def features(self, state: PyTree, dtype: jnp.dtype) -> PyTree:
        """Features: what bounds need of each cluster, made once a cluster.

        Args:
            state: States `[m]`.
            dtype: The precision to work in. It may be float32 where states are float64;
                bounds then allow for the rounding of float32. A screen may ignore it.

        Returns:
            Arrays with the leading axis `[m]`.
        """

    @abc.abstractmethod
    def against(self, rows: PyTree) -> Callable[[PyTree], Array]:
        """Return the function from features `[m]` of columns to bounds `[k, m]`.

        Work that needs only the features `[k]` of the rows is done before it returns.
        """

    def closer(self, a: PyTree, b: PyTree) -> Array | None:
        """Closer bounds of the costs of pairs, `[p]` from features `[p]` of both parts.

        For the pairs that the bounds of `against` leave, where costs are expensive.
        None where a screen has no such bounds.
        """
        del a, b
        return None


@register_pytree
@dataclass(frozen=True)
class CostScreen(Screen):
    """The merge cost itself, less 64 roundings.

    Attributes:
        model: The cluster model.

    Examples:
        >>> import bregjax as bj
        >>> model = bj.SphericalGaussian().cluster_model()
        >>> states = model.leaves(jnp.array([[0.0], [2.0]]), jnp.ones(2))
        >>> bounds = jax.jit(CostScreen(model).against(states))(states)
        >>> print(bounds[0, 1].round(3), bool(bounds[0, 1] <= 1.0))
        1.0 True
    """

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
