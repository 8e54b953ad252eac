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
from memjax.errors import ConfigError, WorkdirError
from memjax.evaluation.loading import find_checkpoint
from memjax.runs.checkpoint import Checkpoints
from memjax.runs.workdir import CONFIG_FILE, read_config
from memjax.training.optimizer import make_optimizer, updated_at_every_step, updates_done
from memjax.training.sharding import param_shardings, placed
from memjax.training.step import TrainState

# What a branch must share with the run that it leaves: these decide what the state is of, and where in the data it is.
_SHARED = ('data.', 'model.', 'training.seed', 'training.segments_per_step')
# Of those: where the data come from (their fingerprint is compared), and how it is computed or regularized.
_FREE = ('data.path', 'model.remat', 'model.layer_unroll', 'model.dropout_rate', 'model.attention_dropout_rate')


def settled(config: config_dict.ConfigDict, workdir: epath.PathLike) -> config_dict.ConfigDict:
    """The config with the step that it branches at written down, so that a later start of the run means the same.

    Args:
      config: of a run, which need not be a branch.
      workdir: of it; if it has begun, it began where its `config.json` says.

    Raises:
      UserError: the directory that it branches from holds no run, or no good checkpoint.
    """
    training = config.training
    if training.branch_from is None or training.branch_step is not None:
        return config
    config = config.copy_and_resolve_references()
    if (epath.Path(workdir) / CONFIG_FILE).exists():
        begun = read_config(workdir).training
        if begun.branch_from == training.branch_from:
            config.training.branch_step = begun.branch_step
    if config.training.branch_step is None:
        trunk = epath.Path(training.branch_from).expanduser()
        read_config(trunk)
        with Checkpoints(trunk / 'checkpoints') as checkpoints:
            config.training.branch_step = find_checkpoint(checkpoints, None, trunk)
    return config


def begin_branch(
    config: config_dict.ConfigDict, abstract_state: TrainState, mesh: jax.sharding.Mesh
) -> tuple[TrainState, int, dict[str, Any]]:
    """The state that a run with `training.branch_from` begins with.

    Args:
      config: of the branch, settled.
      abstract_state: shapes, dtypes and shardings of its state.
      mesh: of its devices.

    Returns:
      The state, the steps that it has behind it, and what the other run recorded beside it for the host. The state's
      sums are still those of the other run.

    Raises:
      WorkdirError: the other directory holds no run, or one whose data or model have other fields.
      CheckpointError: it has no such checkpoint, or it is damaged.
      ConfigError: the branch ends where it begins, or its update period does not fit the updates made so far.
    """
    workdir, step = epath.Path(config.training.branch_from).expanduser(), config.training.branch_step
    trunk = read_config(workdir)
    _check_shared(workdir, trunk, config)
    check_schedule(config.training, trunk.training, step)
    params = abstract_state.params
    optimizer_there = jax.eval_shape(make_optimizer(trunk.training).init, params)
    optimizer_there = placed(optimizer_there, param_shardings(mesh, optimizer_there))
    with Checkpoints(workdir / 'checkpoints') as checkpoints:
        params, rest, host = checkpoints.restore(
            step, params, abstract_state.replace(params=None, opt_state=optimizer_there)
        )
    opt_state = _carried(rest.opt_state, params, abstract_state.opt_state, config.training, step)
    # What was best there is no checkpoint of this run, and what was measured there is for that run's lines.
    host = {**host, 'best': None, 'logged_tokens': host['tokens']}
    return rest.replace(params=params, opt_state=opt_state), step, host


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
    if updates_done(step, training) == updates_done(step, before):
        return
    if updated_at_every_step(step, before):
        raise ConfigError(
            f'training.update_period_start={training.update_period_start} must be at least {step}, where the branch '
            f'begins: until there every step made an update'
        )
    raise ConfigError(
        f'training.update_period={training.update_period} from step {training.update_period_start} on does not fit the '
        f'updates made until step {step}: keep {before.update_period} from {before.update_period_start} on'
    )


def _check_shared(workdir: epath.Path, trunk: config_dict.ConfigDict, config: config_dict.ConfigDict) -> None:
    theirs = flatten(trunk)
    for name, value in flatten(config).items():
        if name.startswith(_SHARED) and name not in _FREE and theirs[name] != value:
            raise WorkdirError(
                f'no branch of {workdir} can be this run: {name} is {theirs[name]!r} there, {value!r} here'
            )


def _carried(opt_state: Any, params: Any, abstract_opt_state: Any, training: config_dict.ConfigDict, step: int) -> Any:
    """An optimizer's state, taken in or out of the accumulation that only an update period other than 1 has."""
    if jax.tree.structure(opt_state) == jax.tree.structure(abstract_opt_state):
        return opt_state
    if training.update_period == 1:
        return opt_state.inner_opt_state

    def accumulate(params: Any, opt_state: Any) -> Any:
        empty = make_optimizer(training).init(params)
        return empty._replace(gradient_step=jnp.int32(step), inner_opt_state=opt_state)

    shardings = jax.tree.map(lambda leaf: leaf.sharding, abstract_opt_state)
    return jax.jit(accumulate, out_shardings=shardings)(params, opt_state)
