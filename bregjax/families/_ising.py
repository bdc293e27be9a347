"""The Ising model on a small graph, in its overcomplete form."""

import dataclasses
import itertools
from dataclasses import dataclass
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from typing_extensions import override

from bregjax._pytree import register_pytree
from bregjax._typing import Array, DataLike
from bregjax.families._vector_family import VectorFamily
from bregjax.smoothing import bernstein_amount, mixing
from bregjax.smoothing._maps import Mixing

__all__ = ["Ising"]

# 65,536 states; each node more doubles time and memory.
_MAX_NODES = 16


@register_pytree
@dataclass(frozen=True)
class Ising(VectorFamily):
    """Binary variables x ∈ {0, 1}^d that interact along the edges of a graph.

    T(x) = (1[x_i = a], 1[x_i = a, x_j = b]) for each node i, each edge (i, j) and each
    a, b ∈ {0, 1}: indicators that are linearly dependent, so that many θ give one
    distribution. ψ(θ) = log Σ_x e^⟨T(x), θ⟩ is a sum over all 2^d states. The mean
    domain is the marginal polytope; ψ* is minus the entropy, finite on the faces of the
    polytope.

    Attributes:
        edges: Pairs of nodes; all pairs if None.
        dim: d ≤ 16; taken from the data if None.

    Examples:
        >>> import jax
        >>> import bregjax as bj
        >>> family = bj.Ising(dim=2)
        >>> nodes, edges = jax.jit(family.natural_to_mean)(family.natural_init)
        >>> print(nodes[0], edges.shape)
        [0.5 0.5] (1, 2, 2)

    References:
        Wainwright and Jordan (2008), Section 3.3 and Example 3.1.
    """

    edges: tuple[tuple[int, int], ...] | None = jax.tree.static(default=None)
    dim: int | None = jax.tree.static(default=None)

    @property
    def graph(self) -> np.ndarray:
        """Edges `[e, 2]`.

        Raises:
            ValueError: If an edge names a node that does not exist, or d > 16.
        """
        dim = self.known_dim
        if dim > _MAX_NODES:
            raise ValueError(
                f"Ising enumerates 2^d states and takes at most {_MAX_NODES} nodes; "
                f"got {dim}. Cluster fewer columns, or use Bernoulli."
            )
        if self.edges is None:
            pairs = list(itertools.combinations(range(dim), 2))
            return np.array(pairs, dtype=int).reshape(-1, 2)
        graph = np.array(self.edges, dtype=int).reshape(-1, 2)
        bad = np.argwhere((graph < 0) | (graph >= dim))
        if len(bad):
            first = tuple(graph[bad[0, 0]].tolist())
            raise ValueError(f"`edges` must join nodes 0 to {dim - 1}; got {first}.")
        return graph

    @property
    @override
    def num_parameters(self) -> int:
        """One a node and one an edge."""
        return self.known_dim + len(self.graph)

    @property
    @override
    def natural_init(self) -> tuple[Array, Array]:
        """The uniform distribution: nodes `[d, 2]`, edges `[e, 2, 2]`."""
        return (
            jnp.zeros((self.known_dim, 2)),
            jnp.zeros((len(self.graph), 2, 2)),
        )

    @override
    def log_partition(self, natural: tuple[Array, Array]) -> Array:
        """log Σ_x e^⟨T(x), θ⟩ over all 2^d states."""
        nodes, edges = natural
        states = np.array(list(itertools.product((0, 1), repeat=self.known_dim)))
        i, j = self.graph.T
        scores = jnp.sum(nodes[np.arange(self.known_dim), states], axis=1) + jnp.sum(
            edges[np.arange(len(i)), states[:, i], states[:, j]], axis=1
        )
        return logsumexp(scores)

    @override
    def sufficient_statistics(self, x: Array) -> tuple[Array, Array]:
        """Indicators of values at nodes `[d, 2]` and along edges `[e, 2, 2]`."""
        x = jnp.asarray(x, dtype=float)
        nodes = jnp.stack([1 - x, x], axis=-1)
        i, j = self.graph.T
        return nodes, nodes[i][:, :, None] * nodes[j][:, None, :]

    @override
    def for_data(self, x: DataLike) -> Self:
        """The family with `dim` set, and `edges` as tuples of integers.

        Raises:
            ValueError: If `x` does not fit, or an edge names a node that is no column.
        """
        family = super().for_data(x)
        edges = (
            None
            if self.edges is None
            else tuple((int(i), int(j)) for i, j in self.edges)
        )
        family = dataclasses.replace(family, edges=edges)
        _ = family.graph  # raises for an edge out of range
        return family

    @override
    def default_smoothing(self, x: Array, weights: Array | None) -> Mixing:
        """Mix with the uniform distribution, by Bernstein's amount of a fair coin."""
        size = x.shape[0] if weights is None else weights.sum()
        center = (
            np.full((self.known_dim, 2), 0.5),
            np.full((len(self.graph), 2, 2), 0.25),
        )
        return mixing(center, bernstein_amount(2, size, delta=0.05))

    @override
    def support(self, x: np.ndarray) -> tuple[np.ndarray, str, str]:
        return (x == 0) | (x == 1), "must be 0 or 1 for Ising", "Code it as 0 and 1"
