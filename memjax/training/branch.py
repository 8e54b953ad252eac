"""A run that goes on from another's checkpoint with another schedule: parameters, optimizer, memory, place in the data.

The moments of Adam and the count of updates are taken over, so only what the config says differently is different: the
comparison of Compressive Transformer, section 5.5.1, needs just that (`memjax.training.optimization_study`).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from etils import epath
from ml_collections import config_dict

from memjax.config import flatten
from memjax.errors import CheckpointError, ConfigError, WorkdirError
from memjax.runs.checkpoint import Checkpoints
from memjax.runs.workdir import read_config
from memjax.training.optimizer import make_optimizer, updates_done
from memjax.training.sharding import param_shardings
from memjax.training.step import TrainState

# What a branch must share with the run that it leaves: these decide what the state is of, and where in the data.
_SHARED_SECTIONS = ('data', 'model')
_SHARED_FIELDS = ('training.seed', 'training.segments_per_step')


def begin_branch(
    config: config_dict.ConfigDict, abstract_state: TrainState, mesh: jax.sharding.Mesh
) -> tuple[TrainState, int, dict[str, Any]]:
    """The state that a run with `training.branch_from` begins with.

    Args:
      config: of the branch.
      abstract_state: shapes, dtypes and shardings of its state.
      mesh: of its devices.

    Returns:
      The state, the steps that it has behind it, and what the other run recorded beside it for the host.

    Raises:
      WorkdirError: the other directory holds no run, or one of another model or other data.
      CheckpointError: it has no such checkpoint, or none that is good.
      ConfigError: the branch ends where it begins, or its update period does not fit the updates made so far.
    """
    workdir = epath.Path(config.training.branch_from)
    trunk = read_config(workdir)
    _check_shared(workdir, trunk, config)
    params = abstract_state.params
    abstract_opt_state = jax.eval_shape(make_optimizer(trunk.training).init, params)
    abstract_opt_state = jax.tree.map(
        lambda leaf, place: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place),
        abstract_opt_state,
        param_shardings(mesh, abstract_opt_state),
    )
    with Checkpoints(workdir / 'checkpoints') as checkpoints:
        step = checkpoints.latest_good() if config.training.branch_step is None else config.training.branch_step
        if step is None:
            raise CheckpointError(f'{workdir} has no good checkpoint')
        check_schedule(config.training, trunk.training, step)
        params, rest, host = checkpoints.restore(
            step, params, abstract_state.replace(params=None, opt_state=abstract_opt_state)
        )
    opt_state = _carried(rest.opt_state, params, abstract_state.opt_state, config.training, step)
    # What was best there is no checkpoint of this run, and what was measured there belongs to that run's lines.
    sums = jax.tree.map(jnp.zeros_like, rest.sums)
    state = rest.replace(params=params, opt_state=opt_state, sums=sums)
    return state, step, {**host, 'best': None, 'logged_tokens': host['tokens']}


def _check_shared(workdir: epath.Path, trunk: config_dict.ConfigDict, config: config_dict.ConfigDict) -> None:
    theirs, ours = flatten(trunk), flatten(config)
    for name, value in ours.items():
        is_shared = name.split('.')[0] in _SHARED_SECTIONS or name in _SHARED_FIELDS
        if is_shared and name != 'data.path' and theirs[name] != value:
            raise WorkdirError(f'{workdir} cannot be gone on from: {name} is {theirs[name]!r} there, {value!r} here')


def check_schedule(training: config_dict.ConfigDict, before: config_dict.ConfigDict, step: int) -> None:
    """Refuses a schedule in which the updates made so far would not have led to this step.

    Args:
      training: of the branch.
      before: of the run that it leaves.
      step: where it does.

    Raises:
      ConfigError: so it is, or the branch ends where it begins.
    """
    if training.num_steps <= step:
        raise ConfigError(f'training.num_steps={training.num_steps} must be above {step}, where the branch begins')
    done = updates_done(step, before)
    if updates_done(step, training) == done:
        return
    if done == (step, 0):
        raise ConfigError(
            f'training.update_period_start={training.update_period_start} must be at least {step}, where the branch '
            f'begins: until there every step made an update'
        )
    raise ConfigError(
        f'training.update_period={training.update_period} must stay at {before.update_period}, and '
        f'training.update_period_start at {before.update_period_start}: gradients are accumulated already'
    )


def _carried(opt_state: Any, params: Any, abstract_state: Any, training: config_dict.ConfigDict, step: int) -> Any:
    """An optimizer's state, taken in or out of the accumulation that only an update period other than 1 has."""
    if jax.tree.structure(opt_state) == jax.tree.structure(abstract_state):
        return opt_state
    if training.update_period == 1:
        return opt_state.inner_opt_state

    def accumulate(params: Any, opt_state: Any) -> Any:
        empty = make_optimizer(training).init(params)
        return empty._replace(gradient_step=jnp.int32(step), inner_opt_state=opt_state)

    return jax.jit(accumulate, out_shardings=jax.tree.map(lambda leaf: leaf.sharding, abstract_state))(
        params, opt_state
    )
