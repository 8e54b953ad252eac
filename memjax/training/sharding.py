"""Where arrays live: a mesh of devices, and rules that place parameters, memory and data on it.

Three axes: `data` and `fsdp` split the batch; `fsdp` also splits parameters and their optimizer state, gathered where
they are used; `tensor` splits heads, the mlp and the vocabulary. XLA inserts the communication.
"""

from __future__ import annotations

import math
import re
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from ml_collections import config_dict

from memjax.errors import ConfigError
from memjax.training.optimizer import path_name

AXES = ('data', 'fsdp', 'tensor')
BATCH = ('data', 'fsdp')

# The first pattern found in a parameter's path gives its axes. Paths of optimizer moments end in their parameter's, so
# that the same rules place them. The leading axis of what lies under `layers` (or
# `layers_0`, ..) is L.
RULES = (
    (r'layers(_\d+)?/attention/output$', PartitionSpec(None, 'tensor', None, 'fsdp')),
    (r'layers(_\d+)?/attention/\w+$', PartitionSpec(None, 'fsdp', 'tensor', None)),
    (r'layers(_\d+)?/feed_forward/up/kernel$', PartitionSpec(None, 'fsdp', 'tensor')),
    (r'layers(_\d+)?/feed_forward/down/kernel$', PartitionSpec(None, 'tensor', 'fsdp')),
    # Slots are whole along D on every device, so the tensor axis has nothing to gain here; and with the output split on
    # it, XLA's partitioner gives a wrong gradient of this kernel on a 2 x 2 x 2 mesh (jax 0.10.2, CPU).
    (r'layers(_\d+)?/(compressor|higher_compressors_\d+)/kernel$', PartitionSpec(None, None, 'fsdp', None)),
    # The same for whatever else makes or unmakes slots.
    (r'layers(_\d+)?/(compressor/dilated_kernel|decompressors_\d+/kernel)$', PartitionSpec(None, None, 'fsdp', None)),
    (r'layers_\d+/cell/\w+/kernel$', PartitionSpec('fsdp', None)),
    (r'(embed/table|head/kernel)(_\d+)?$', PartitionSpec('tensor', 'fsdp')),
    (r'(embed|head)/projection_\d+$', PartitionSpec(None, 'fsdp')),
)


def make_mesh(mesh: config_dict.ConfigDict, devices: list[jax.Device] | None = None) -> Mesh:
    """The mesh of a config's `mesh` section over all devices.

    Raises:
      ConfigError: the sizes do not multiply to the number of devices.
    """
    devices = jax.devices() if devices is None else devices
    fixed = mesh.fsdp * mesh.tensor
    data = mesh.data if mesh.data != -1 else max(len(devices) // fixed, 1)
    if data * fixed != len(devices):
        raise ConfigError(
            f'mesh: data={mesh.data} x fsdp={mesh.fsdp} x tensor={mesh.tensor} does not use {len(devices)} devices'
        )
    return jax.make_mesh((data, mesh.fsdp, mesh.tensor), AXES, axis_types=(AxisType.Auto,) * 3, devices=devices)


def batch_sharding(mesh: Mesh, axis: int, batch_size: int) -> NamedSharding:
    """Splits axis number `axis` over the batch's devices.

    Raises:
      ConfigError: the batch does not divide among them.
    """
    parts = math.prod(mesh.shape[name] for name in BATCH)
    if batch_size % parts:
        raise ConfigError(f'a batch of {batch_size} rows does not divide among the {parts} devices of data x fsdp')
    return NamedSharding(mesh, PartitionSpec(*(None,) * axis, BATCH))


def param_shardings(mesh: Mesh, params: Any) -> Any:
    """Shardings of parameters, or of an optimizer state over them, by RULES; what no rule names is on every device."""
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: NamedSharding(mesh, _placement(mesh, path_name(path), leaf.shape)), params
    )


def memory_shardings(mesh: Mesh, make_memory: Any, batch_size: int) -> Any:
    """Shardings of a memory along its rows.

    Args:
      mesh: the devices.
      make_memory: batch size -> memory; two sizes show which axis of each array is the batch.
      batch_size: B.
    """
    one, two = (jax.eval_shape(lambda size=size: make_memory(size)) for size in (1, 2))

    def place(small: jax.ShapeDtypeStruct, large: jax.ShapeDtypeStruct) -> NamedSharding:
        axis = next(index for index in range(small.ndim) if small.shape[index] != large.shape[index])
        return batch_sharding(mesh, axis, batch_size)

    return jax.tree.map(place, one, two)


def placed(abstract: Any, shardings: Any) -> Any:
    """`jax.ShapeDtypeStruct`s with those shardings, in place of a tree of others."""
    return jax.tree.map(
        lambda leaf, place: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place), abstract, shardings
    )


def replicated(mesh: Mesh) -> NamedSharding:
    """On every device."""
    return NamedSharding(mesh, PartitionSpec())


def put_batch(batch: Any, sharding: NamedSharding) -> Any:
    """This process's rows as global arrays."""
    return jax.tree.map(lambda leaf: jax.make_array_from_process_local_data(sharding, np.asarray(leaf)), batch)


def unsplit_dimensions(mesh: Mesh, params: Any) -> list[str]:
    """Every dimension that a rule would split and that does not divide, so that it is kept whole on that axis."""
    unsplit = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        name = path_name(path)
        wanted, got = _rule(name, leaf.ndim), _placement(mesh, name, leaf.shape)
        unsplit += [
            f'{name}: dimension {index} of {leaf.shape[index]} on {axis}={mesh.shape[axis]}'
            for index, axis in enumerate(wanted)
            if axis is not None and got[index] is None and mesh.shape[axis] > 1
        ]
    return unsplit


def _rule(name: str, ndim: int) -> PartitionSpec:
    for pattern, spec in RULES:
        if re.search(pattern, name) and len(spec) == ndim:
            return spec
    return PartitionSpec(*(None,) * ndim)


def _placement(mesh: Mesh, name: str, shape: tuple[int, ...]) -> PartitionSpec:
    spec = _rule(name, len(shape))
    return PartitionSpec(
        *(
            axis if axis is not None and size % mesh.shape[axis] == 0 else None
            for axis, size in zip(spec, shape, strict=True)
        )
    )
