"""Placement: on which device each slot lies."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from bregjax._typing import Array, PyTree
from bregjax.hierarchy._search import take
from bregjax.hierarchy._windowed.store.words import from_words, to_words

__all__ = ["Placement"]


@dataclass(frozen=True)
class Placement:
    """Deal slots out to devices: slot s is row s div p of device s mod p.

    So young clusters, and those that have merged, are spread evenly. Arrays by slot are
    stored device by device, `[p · rows, ...]`. Example, seven slots on two devices:
    device 0 holds slots 0, 2, 4, 6, device 1 holds 1, 3, 5.

    Attributes:
        mesh: The devices, or None for the default one.
    """

    mesh: Mesh | None = None

    def __post_init__(self) -> None:
        """Let JAX decide about shardings: those of `jax.make_mesh` are explicit."""
        if self.mesh is not None:
            plain = Mesh(self.mesh.devices, self.mesh.axis_names)
            object.__setattr__(self, "mesh", plain)

    @property
    def num_devices(self) -> int:
        """Number p of devices."""
        return 1 if self.mesh is None else self.mesh.size

    @property
    def sharding(self) -> NamedSharding | None:
        """Sharding of arrays by slot; None on one device."""
        return None if self.mesh is None else NamedSharding(self.mesh, self._slots)

    @property
    def _slots(self) -> PartitionSpec:
        axes = () if self.mesh is None else self.mesh.axis_names
        return PartitionSpec(axes)

    @property
    def spans_processes(self) -> bool:
        """Whether some of the devices belong to another process."""
        if self.mesh is None:
            return False
        me = jax.process_index()
        return any(device.process_index != me for device in self.mesh.devices.flat)

    @property
    def _platform(self) -> str:
        return "cpu" if self.mesh is None else self.mesh.devices.flat[0].platform

    @property
    def share_of_memory(self) -> float:
        """Share of what is dealt out that has to fit into one memory.

        CPU devices of a process have one, other devices each their own.
        """
        if self.mesh is None:
            return 1.0
        devices = list(self.mesh.devices.flat)
        if self._platform != "cpu":
            return 1 / len(devices)
        me = jax.process_index()
        return sum(device.process_index == me for device in devices) / len(devices)

    def put(self, states: PyTree, index: np.ndarray) -> PyTree:
        """Return states at an index `[slots]`, each device holding its own rows alone.

        Args:
            states: The same in all processes.
            index: As `dealt` orders it.
        """
        sharding = self.sharding
        if sharding is None:
            return jax.jit(take)(states, index)

        def one(leaf: Array) -> Array:
            # By way of the host, where no device has to hold rows of the others.
            rows = np.asarray(leaf)
            shape = index.shape + rows.shape[1:]
            part = lambda place: rows[index[place[0]]]
            return jax.make_array_from_callback(shape, sharding, part)

        return jax.tree.map(one, states)

    def spread(self, function: Callable[..., Any], shared: int, result: str):
        """Make a function run on all devices, each with its own rows.

        Args:
            function: Takes `shared` arrays by slot, and then one argument that is the
                same on all devices.
            shared: How many arrays by slot it takes.
            result: "slots" if it returns arrays by slot, "same" if all devices return
                the same.
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
        """Return the number of this device, within `spread`."""
        return 0 if self.mesh is None else jax.lax.axis_index(self.mesh.axis_names)

    def fetch(self, states: PyTree, slots: Array) -> PyTree:
        """Return the states in a few slots on every device, within `spread`.

        By one collective: call it once for slots of several kinds.
        """
        if self.mesh is None:
            return take(states, slots)
        rows = take(states, slots // self.num_devices)
        mine = slots % self.num_devices == self.device()
        words = jnp.where(mine[:, None], to_words(rows, 1), jnp.uint32(0))
        words = jax.lax.psum(words, self.mesh.axis_names)
        one = jax.tree.map(lambda leaf: jax.typeof(leaf[0]), rows)
        return from_words(words, one)

    def rows(self, slots: Array, size: int) -> Array:
        """Return rows of slots within `spread`; `size` for those of other devices."""
        mine = slots % self.num_devices == self.device()
        return jnp.where(mine, slots // self.num_devices, size)

    def collect(self, values: PyTree) -> PyTree:
        """Return all devices' values on every device, `[p, ...]`, within `spread`."""
        if self.mesh is None:
            return jax.tree.map(lambda leaf: leaf[None], values)
        axes = self.mesh.axis_names
        if not self.spans_processes or self._platform != "cpu":
            return jax.tree.map(lambda leaf: jax.lax.all_gather(leaf, axes), values)
        # Between processes of CPUs a sum takes an eighth of the time.
        words = to_words(values)
        all_ = jnp.zeros((self.num_devices, len(words)), jnp.uint32)
        all_ = jax.lax.psum(all_.at[self.device()].set(words), axes)
        return from_words(all_, values)

    def agreed(self, values: Array | None) -> Array | None:
        """Return the first device's values on every device, within `spread`.

        What all compute alike may differ in its last bits between machines of several
        kinds. The hosts would then decide differently, and wait for each other forever.
        """
        if self.mesh is None or values is None or not self.spans_processes:
            return values
        words = jnp.where(self.device() == 0, to_words(values), jnp.uint32(0))
        return from_words(jax.lax.psum(words, self.mesh.axis_names), values)

    def dealt(self, by_slot: np.ndarray) -> np.ndarray:
        """Order an array by slot as the devices store it."""
        return by_slot.reshape(-1, self.num_devices).T.ravel()

    def packed(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Find where slots move if each device moves its own to its first rows.

        Returns:
            Slots `[c]` that they move to, and how many each device has.
        """
        device = slots % self.num_devices
        counts = np.bincount(device, minlength=self.num_devices)
        order = np.argsort(device, kind="stable")
        row = np.empty(len(slots), np.int64)
        row[order] = np.arange(len(slots)) - np.repeat(
            np.cumsum(counts) - counts, counts
        )
        return row * self.num_devices + device, counts
