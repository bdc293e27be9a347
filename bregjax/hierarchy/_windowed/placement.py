"""On which devices the slots of a pool lie."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from bregjax._typing import Array, PyTree
from bregjax.hierarchy._search import take

__all__ = ["Placement"]


@dataclass(frozen=True)
class Placement:
    """Slot s of a pool is row s div p of device s mod p.

    Dealt out so, clusters that are young and those that have merged are spread evenly.
    Arrays of slots are held device by device, `[p · rows, ...]`.

    Attributes:
        mesh: The devices, or None for the default one.
    """

    mesh: Mesh | None = None

    @property
    def num_devices(self) -> int:
        """The number p of devices."""
        return 1 if self.mesh is None else self.mesh.size

    @property
    def sharding(self) -> NamedSharding | None:
        """That of arrays of slots."""
        return None if self.mesh is None else NamedSharding(self.mesh, self._slots)

    @property
    def _slots(self) -> PartitionSpec:
        axes = () if self.mesh is None else self.mesh.axis_names
        return PartitionSpec(axes)

    def spread(self, function: Callable[..., Any], shared: int, result: str):
        """Run on all devices a function of `shared` arrays of slots and then others.

        Its result is an array of slots too ("slots"), or the same everywhere ("same").
        """
        if self.mesh is None:
            return function
        return jax.shard_map(
            function,
            mesh=self.mesh,
            in_specs=(self._slots,) * shared + (PartitionSpec(),),
            out_specs=self._slots if result == "slots" else PartitionSpec(),
            check_vma=False,
        )

    def device(self) -> Array | int:
        """Within `spread`: the number of this device."""
        return 0 if self.mesh is None else jax.lax.axis_index(self.mesh.axis_names)

    def fetch(self, states: PyTree, slots: Array) -> PyTree:
        """Within `spread`: the states in a few slots, on every device."""
        if self.mesh is None:
            return take(states, slots)
        mine = slots % self.num_devices == self.device()
        axes = self.mesh.axis_names

        def one(leaf: Array) -> Array:
            rows = leaf[slots // self.num_devices]
            mask = mine.reshape(mine.shape + (1,) * (rows.ndim - 1))
            return jax.lax.psum(jnp.where(mask, rows, 0), axes)

        return jax.tree.map(one, states)

    def rows(self, slots: Array, size: int) -> Array:
        """Within `spread`: rows of slots on this device, `size` where elsewhere."""
        mine = slots % self.num_devices == self.device()
        return jnp.where(mine, slots // self.num_devices, size)

    def collect(self, values: Array) -> Array:
        """Within `spread`: the values of all devices `[p, ...]`, on every device."""
        if self.mesh is None:
            return values[None]
        return jax.lax.all_gather(values, self.mesh.axis_names)

    def dealt(self, by_slot: np.ndarray) -> np.ndarray:
        """An array by slot as it lies on the devices, device by device."""
        return by_slot.reshape(-1, self.num_devices).T.ravel()

    def packed(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Move slots, each on its device, to the first rows.

        Returns:
            The slots they move to, and how many each device has.
        """
        device = slots % self.num_devices
        counts = np.bincount(device, minlength=self.num_devices)
        order = np.argsort(device, kind="stable")
        row = np.empty(len(slots), np.int64)
        row[order] = np.arange(len(slots)) - np.repeat(
            np.cumsum(counts) - counts, counts
        )
        return row * self.num_devices + device, counts
