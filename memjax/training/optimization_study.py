"""From one checkpoint on: a lower learning rate against a longer update period (Compressive Transformer, Figure 3).

Reading long texts in order, a model may come to lean on being updated as it reads. Where that is so, its training loss
climbs when the rate is lowered so far that nothing is learned any more, and does not when updates become rarer instead
(section 5.5.1). Each branch is a run of its own, so a study that was stopped goes on where it was.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
from etils import epath
from ml_collections import config_dict

from memjax.config_checks import check
from memjax.errors import ConfigError
from memjax.evaluation.loading import open_run
from memjax.evaluation.results import provenance_of, write_result
from memjax.report.optimization_figure import draw_optimization
from memjax.runs import metrics_file
from memjax.runs.metrics import METRICS_FILE
from memjax.training.branch import check_schedule
from memjax.training.loop import train
from memjax.training.optimizer import learning_rate, updates_done

_CURVE_POINTS = 40


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

    The rate of every branch is constant: the first and those of the periods keep that of the checkpoint's step. A
    branch lives in `WORKDIR/branches/STEP-NAME`. Writes `WORKDIR/eval/optimization_train.json`, a figure of that name,
    and prints a table.

    Args:
      workdir: of the run that the branches leave.
      data_dir: where prepared corpora are.
      config: the run's, with overrides in `mesh`.
      num_steps: of each branch.
      learning_rates: the constant rates to try.
      update_periods: gradients accumulated per update, to try.
      step: of the checkpoint; 'best': the best of validation; None: the newest.

    Returns:
      What a result file holds of the run (its `step` is the checkpoint's), `branch_steps`, and `branches`: for each its
      `name`, `learning_rate`, `update_period`, `updates` made, `curve` (training loss over the steps up to each
      `step`), `train`, the mean over the second half of its steps, and `validation`, at its end with parameters that
      rest (of as many segments as the run's own validations). A loss is in nats, with `bpc` or `ppl`.

    Raises:
      UserError: no rate and no period is given, a rate is not above 0, the checkpoint is missing, gradients were
        accumulated already at its step, or a branch cannot be trained.
      SystemExit: as for `train`.
    """
    if not learning_rates and not update_periods:
        raise ConfigError('a study compares something: give learning rates, update periods or both')
    run, corpus = open_run(workdir, data_dir, config, step)
    before = config.training
    rate = float(learning_rate(before)(run.step))
    period = 1 if run.step <= before.update_period_start else before.update_period
    settings = [('as_it_was', rate, period)]
    settings += [(f'learning_rate_{each:g}', each, period) for each in learning_rates]
    settings += [(f'update_period_{each}', rate, each) for each in update_periods]
    configs = [_branch(config, workdir, run.step, num_steps, *setting) for setting in settings]
    for branch in configs:  # all before the first is trained
        check(branch)
        check_schedule(branch.training, before, run.step)
    branches = []
    for branch, (name, branch_rate, branch_period) in zip(configs, settings, strict=True):
        branch_dir = epath.Path(workdir) / 'branches' / branch.name
        print(f'{branch_dir}: {num_steps:,} steps', flush=True)
        train(branch, branch_dir, data_dir)
        updates = updates_done(branch.training.num_steps, branch.training)[0] - updates_done(run.step, before)[0]
        branches.append(
            {'name': name, 'learning_rate': branch_rate, 'update_period': branch_period, 'updates': updates}
            | _measured(branch_dir, run.step, num_steps)
        )
    result = provenance_of(run, corpus, 'train') | {'branch_steps': num_steps, 'branches': branches}
    if jax.process_index() == 0:
        path = write_result(workdir, 'optimization_train', result, draw_optimization)
        print(_table(result))
        print(path)
    return result


def _branch(
    config: config_dict.ConfigDict,
    workdir: epath.PathLike,
    step: int,
    num_steps: int,
    name: str,
    rate: float,
    period: int,
) -> config_dict.ConfigDict:
    """The config of one branch, which evaluates and draws nothing at its end."""
    branch = config.copy_and_resolve_references()
    branch.name = f'{step}-{name}'
    training = branch.training
    training.update({'branch_from': str(workdir), 'branch_step': step, 'num_steps': step + num_steps})
    training.update({'init_from': None, 'figure': False, 'eval_every': None})
    training.update({'learning_rate': rate, 'learning_rate_end': rate, 'warmup_steps': 0})
    training.log_every = max(num_steps // _CURVE_POINTS, 1)
    training.update_period = period
    if updates_done(step, config.training) == (step, 0):  # nothing is accumulated yet
        training.update_period_start = step
    branch.eval.after_training, branch.sample.after_training = None, False
    return branch


def _measured(workdir: epath.Path, step: int, num_steps: int) -> dict[str, Any]:
    """What a finished branch's metrics say."""
    records = metrics_file.read(workdir / METRICS_FILE)
    lines = [record for record in records if record['split'] == 'train' and record['loss'] is not None]
    curve = [{'step': record['step']} | _loss(record) for record in lines]
    validation = next(record for record in reversed(records) if record['split'] == 'validation')
    begins = [step, *(point['step'] for point in curve)]
    # Lines stand at multiples of `log_every`, so the first and the last may be of fewer steps.
    later = [
        (point['step'] - begin, point['loss'])
        for begin, point in zip(begins, curve, strict=False)
        if begin >= step + num_steps // 2
    ]
    steps = sum(count for count, _ in later)
    train_loss = sum(count * loss for count, loss in later) / steps
    measure = {'bpc': train_loss / math.log(2)} if 'bpc' in validation else {'ppl': math.exp(train_loss)}
    return {
        'train': {'loss': train_loss} | measure,
        'validation': _loss(validation),
        'curve': curve,
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
