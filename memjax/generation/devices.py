"""Several devices for one text: heads, mlp and vocabulary are split over them as in training."""

from __future__ import annotations

import os
from typing import Any

import jax

from memjax.config import base_config
from memjax.errors import ConfigError
from memjax.training.sharding import make_mesh, param_shardings, replicated, unsplit_dimensions


def provide(count: int) -> None:
    """Makes that many devices of a CPU; must come before anything runs on a device.

    XLA spreads the product of a matrix and one token's state over no more than a core, so that a second device is how
    a CPU decodes on two where no kernel does (`kernels.layer`). What other devices there are is not changed.
    """
    forced = 'xla_force_host_platform_device_count' in os.environ.get('XLA_FLAGS', '')
    if count > 1 and jax.config.jax_num_cpu_devices < count and not forced:
        jax.config.update('jax_num_cpu_devices', count)


def layout_of(tree: Any, params: Any) -> Any:
    """Where the arrays of a tree lie, for `laid_out`; those that lie elsewhere than the parameters, on
    each of these.

    Args:
      tree: of arrays.
      params: parameters, as `spread` returned them.

    Returns:
      A tree of shardings; None on one device.
    """
    sharding = jax.tree.leaves(params)[0].sharding
    if len(sharding.device_set) == 1:
        return None
    whole = replicated(sharding.mesh)

    def place(leaf: jax.Array) -> jax.sharding.Sharding:
        return leaf.sharding if leaf.sharding.device_set == sharding.device_set else whole

    return jax.tree.map(place, tree)


def laid_out(tree: Any, layout: Any) -> Any:
    """The tree as another one of its shapes was laid out.

    Each program has XLA choose where its results lie. Where these are what the next call is given, other places than
    in the call before would have the program compiled once more.
    """
    return tree if layout is None else jax.device_put(tree, layout)


def spread(params: Any, count: int) -> Any:
    """Parameters over `count` devices; a vocabulary that does not divide among them is on each.

    Args:
      params: of a language model.
      count: 1: as they are.

    Raises:
      ConfigError: there are not so many, or they do not divide the heads or the mlp.
    """
    if count == 1:
        return params
    devices = jax.devices()
    if len(devices) < count:
        raise ConfigError(f'{count} devices are asked for and there are {len(devices)}')
    section = base_config().mesh
    section.update(data=1, fsdp=1, tensor=count)
    mesh = make_mesh(section, devices[:count])
    unsplit = [line for line in unsplit_dimensions(mesh, params) if 'layers' in line]
    if unsplit:
        raise ConfigError(f'{count} devices do not divide the heads or the mlp: {unsplit[0]}')
    return jax.device_put(params, param_shardings(mesh, params))
