"""From one checkpoint on: a lower learning rate against a longer update period (Compressive Transformer, Figure 3).

Reading long texts in order, a model may come to lean on being updated as it reads. Where that is so, its training loss
climbs when the rate is lowered so far that nothing is learned any more, and does not when updates become rarer instead
(section 5.5.1). Each branch is a run of its own, so a study that was stopped goes on where it was.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
from etils import epath
from ml_collections import config_dict

from memjax import atomic
from memjax.config_checks import check
from memjax.data.prepare import open_corpus
from memjax.errors import ConfigError, TrainingError
from memjax.evaluation.loading import Run, check_vocabulary, find_checkpoint
from memjax.evaluation.results import provenance_of, write_result
from memjax.models.factory import build_model, init_params
from memjax.report.optimization_figure import draw_optimization
from memjax.runs import metrics_file
from memjax.runs.checkpoint import Checkpoints
from memjax.runs.metrics import METRICS_FILE
from memjax.runs.workdir import CONFIG_FILE, read_config
from memjax.training.branch import check_schedule
from memjax.training.loop import train
from memjax.training.optimizer import learning_rate, updated_at_every_step, updates_done

_CURVE_POINTS = 40


class Way(NamedTuple):
    """How a branch goes on: at a constant rate, with so many gradients to an update."""

    name: str
    rate: float
    period: int


def study_optimization(
    workdir: epath.PathLike,
    data_dir: epath.PathLike,
    config: config_dict.ConfigDict,
    num_steps: int,
    learning_rates: Sequence[float] = (),
    update_periods: Sequence[int] = (),
    step: int | str | None = None,
) -> dict[str, Any]:
    """Trains on from a checkpoint as it is, at each of the rates, and with each of the update periods.

    Rate and update period of a branch are constant: where they are not what is tried, they stay what they are at the
    checkpoint's step. A branch lives in `WORKDIR/branches/STEP-NUM_STEPS-NAME`. Writes
    `WORKDIR/eval/optimization_train.json`, a figure of that name, and prints a table.

    Args:
      workdir: of the run that the branches leave; it must not be training meanwhile.
      data_dir: where prepared corpora are.
      config: the run's, with overrides in `mesh` and `data.path`.
      num_steps: of each branch, at least 2.
      learning_rates: the constant rates to try.
      update_periods: gradients accumulated per update, to try.
      step: of the checkpoint; 'best': the best of validation; None: the newest.

    Returns:
      What a result file holds of the run (its `step` is the checkpoint's), `branch_steps`, and `branches`: for each its
      `name`, `learning_rate`, `update_period`, `updates` made, `curve` (training loss over the steps up to each
      `step`), `train`, the mean over the steps of its second half, and `validation`, at its end with parameters that
      rest (of as many segments as the run's own validations). A loss is in nats, with `bpc` or `ppl`.

    Raises:
      UserError: no rate and no period is given, a rate is not above 0, the checkpoint is missing, a period does not fit
        what was accumulated before it, or a branch cannot be trained.
      SystemExit: as for `train`.
    """
    if not learning_rates and not update_periods:
        raise ConfigError('a study compares something: give learning rates, update periods or both')
    corpus = open_corpus(config.data, data_dir)
    check_vocabulary(config, corpus)
    run = _described(workdir, config, step)
    before = config.training
    branches = {
        way: _branch(config, epath.Path(workdir), run.step, num_steps, way)
        for way in ways_of(before, run.step, learning_rates, update_periods)
    }
    for branch in branches.values():  # all before the first is trained
        check(branch)
        check_schedule(branch.training, before, run.step)
    for branch in branches.values():
        if jax.process_index() == 0:
            print(f'{_workdir_of(workdir, branch)}: {num_steps:,} steps', flush=True)
        train(branch, _workdir_of(workdir, branch), data_dir)
    result = provenance_of(run, corpus, 'train') | {'branch_steps': num_steps}
    if jax.process_index() == 0:
        result['branches'] = [
            {
                'name': way.name,
                'learning_rate': way.rate,
                'update_period': way.period,
                'updates': updates_done(branch.training.num_steps, branch.training)[0]
                - updates_done(run.step, before)[0],
            }
            | measured(metrics_file.read(_workdir_of(workdir, branch) / METRICS_FILE), run.step, num_steps)
            for way, branch in branches.items()
        ]
        path = write_result(workdir, 'optimization_train', result, draw_optimization)
        print(_table(result))
        print(path)
    return result


def _described(workdir: epath.PathLike, config: config_dict.ConfigDict, step: int | str | None) -> Run:
    """The run with the shapes of its parameters alone: the branches load them, each where its mesh wants them."""
    model = build_model(config.model)
    params = jax.eval_shape(lambda: init_params(model, config.data.segment_length, jax.random.key(0)))
    with Checkpoints(epath.Path(workdir) / 'checkpoints') as checkpoints:
        found = find_checkpoint(checkpoints, step, workdir)
        return Run(config, model, params, found, checkpoints.host(found))


def ways_of(
    before: config_dict.ConfigDict, step: int, learning_rates: Sequence[float], update_periods: Sequence[int]
) -> list[Way]:
    """As it was, then what is tried, each once.

    Args:
      before: the `training` section of the run that the branches leave.
      step: where they do.
      learning_rates: to try.
      update_periods: to try.

    Raises:
      ConfigError: the rate is 0 there, so that there is nothing to go on with.
    """
    rate = float(learning_rate(before)(step))
    if rate == 0:
        raise ConfigError(f'the learning rate is 0 at step {step}: take a checkpoint from before the end of its decay')
    period = 1 if updated_at_every_step(step, before) else before.update_period
    ways = [Way('as_it_was', rate, period)]
    ways += [Way(f'learning_rate_{each!r}', each, period) for each in learning_rates]
    ways += [Way(f'update_period_{each}', rate, each) for each in update_periods]
    different: dict[tuple[float, int], Way] = {}
    for way in ways:
        different.setdefault((way.rate, way.period), way)
    return list(different.values())


def _branch(
    config: config_dict.ConfigDict, workdir: epath.Path, step: int, num_steps: int, way: Way
) -> config_dict.ConfigDict:
    """The config of one branch, which evaluates and draws nothing at its end."""
    branch = config.copy_and_resolve_references()
    branch.name = f'{config.name}-{step}-{num_steps}-{way.name}'
    training = branch.training
    # An absolute path, for whoever goes on with the study from another directory.
    trunk = os.path.abspath(workdir) if atomic.is_local(workdir) else os.fspath(workdir)
    training.update({'branch_from': trunk, 'branch_step': step, 'num_steps': step + num_steps})
    training.update({'init_from': None, 'figure': False, 'eval_every': None})
    training.update({'learning_rate': way.rate, 'learning_rate_end': way.rate, 'warmup_steps': 0})
    training.log_every = max(num_steps // _CURVE_POINTS, 1)
    training.update_period = way.period
    if updated_at_every_step(step, config.training):
        training.update_period_start = step
    branch.eval.after_training, branch.sample.after_training = None, False
    begun = _workdir_of(workdir, branch)
    if (begun / CONFIG_FILE).exists():
        # What lies in the run's own directory is its branch, also if that or the texts have been moved.
        there = read_config(begun)
        training.branch_from, branch.data.path = there.training.branch_from, there.data.path
    return branch


def _workdir_of(workdir: epath.PathLike, branch: config_dict.ConfigDict) -> epath.Path:
    return epath.Path(workdir) / 'branches' / branch.name


def measured(records: Sequence[dict[str, Any]], step: int, num_steps: int) -> dict[str, Any]:
    """What the metrics of a finished branch say.

    Args:
      records: of its `metrics.jsonl`.
      step: where it began.
      num_steps: that it made.

    Returns:
      `train`, `validation` and `curve` of `study_optimization`.

    Raises:
      TrainingError: no target was scored in its second half.
    """
    lines = [record for record in records if record['split'] == 'train']
    begins = [step, *(line['step'] for line in lines)]
    # Lines stand at multiples of `log_every`, so the first and the last may be of fewer steps; one of padding alone has
    # no loss.
    later = [
        (line['step'] - begin, line['loss'])
        for begin, line in zip(begins, lines, strict=False)
        if begin >= step + num_steps // 2 and line['loss'] is not None
    ]
    if not later:
        raise TrainingError(f'nothing was scored in the last half of the steps from {step} on: take more steps')
    loss = sum(count * each for count, each in later) / sum(count for count, _ in later)
    validation = next(record for record in reversed(records) if record['split'] == 'validation')
    measure = {'bpc': loss / math.log(2)} if 'bpc' in validation else {'ppl': math.exp(loss)}
    return {
        'train': {'loss': loss} | measure,
        'validation': _loss(validation),
        'curve': [{'step': line['step']} | _loss(line) for line in lines if line['loss'] is not None],
    }


def _loss(record: dict[str, Any]) -> dict[str, float]:
    return {name: record[name] for name in ('loss', 'bpc', 'ppl') if name in record}


def _table(result: dict[str, Any]) -> str:
    branches = result['branches']
    measure = 'bpc' if 'bpc' in branches[0]['train'] else 'ppl'
    width = max(len(branch['name']) for branch in branches)
    lines = [
        f'{result["config"]}, {result["branch_steps"]:,} steps from step {result["step"]:,}, {measure} (training: '
        f'second half)',
        f'{"":<{width}}{"rate":>12}{"updates":>10}{"training":>12}{"validation":>12}',
    ]
    lines += [
        f'{branch["name"]:<{width}}{branch["learning_rate"]:>12.3g}{branch["updates"]:>10,}'
        f'{branch["train"][measure]:>12.4f}{branch["validation"][measure]:>12.4f}'
        for branch in branches
    ]
    return '\n'.join(lines)
