"""How far each job of a table is, and what it still takes.

Done: its result file is there and is of its experiment. Unfinished: its workdir has a checkpoint. Else it is missing.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import statistics
from collections.abc import Mapping
from typing import Any, NamedTuple

from memjax.report.experiments import Job
from memjax.report.plans import Plan
from memjax.report.result_files import RUNS, difference, read
from memjax.runs import metrics_file

DONE, UNFINISHED, MISSING, OTHER = 'done', 'unfinished', 'missing', 'of another experiment'


@dataclasses.dataclass(frozen=True)
class State:
    """How far a job is.

    Attributes:
      job: the job.
      state: of this module's four.
      step: of the newest checkpoint in its workdir.
      reason: why a result file under its name is not its result.
    """

    job: Job
    state: str
    step: int = 0
    reason: str = ''

    @property
    def num_steps(self) -> int:
        """Of the whole training."""
        return self.job.experiment.load(self.job.seed).training.num_steps


def workdir(runs_dir: pathlib.Path, job: Job) -> pathlib.Path:
    """Where a job's run lives. It is named after the run, so that tables which want the same run share it."""
    return runs_dir / job.run


def state_of(job: Job, planned: Mapping[str, Plan], results_dir: pathlib.Path, runs_dir: pathlib.Path) -> State:
    """How far a job is.

    Args:
      job: of a table.
      planned: name of a run -> its plan.
      results_dir: holds `runs/` with result files.
      runs_dir: holds the workdirs.

    Raises:
      UserError: its result file is damaged.
    """
    step = newest_step(workdir(runs_dir, job))
    path = results_dir / RUNS / job.file_name
    if not path.exists():
        return State(job, UNFINISHED if step else MISSING, step)
    plan = planned.get(job.experiment.run_name)
    reason = why_not(job, path, plan and plan.parameters)
    if reason is None:
        return State(job, DONE, step)
    if reason == '':  # some values of a sweep
        return State(job, UNFINISHED, step)
    return State(job, OTHER, step, reason)


def why_not(job: Job, path: pathlib.Path, parameters: int | None = None) -> str | None:
    """Why a file is not the job's result; None: it is; '': it is a part of it.

    Args:
      job: of a table.
      path: of a result file, under its name in the results or in a run's own `eval/`.
      parameters: how many its model has, if somebody has planned it.

    Raises:
      UserError: the file is damaged.
    """
    file = read(path, job.file_name)
    scores = file.scores
    if job.values:
        scores = tuple(score for value in job.values if (score := file.score_at(value)) is not None)
    for score in scores or file.scores[:1]:
        reason = difference(score, file.data, job.experiment, job.swept, parameters)
        if reason is not None:
            return reason
    return None if len(scores) == len(job.values or (0,)) else ''


def newest_step(path: pathlib.Path) -> int:
    """The newest checkpoint with a digest in a workdir; 0: there is none."""
    checkpoints = path / 'checkpoints'
    if not checkpoints.is_dir():
        return 0
    steps = [int(each.name) for each in checkpoints.iterdir() if each.is_dir() and each.name.isdecimal()]
    return max((step for step in steps if any(checkpoints.glob(f'{step}.*sha256'))), default=0)


@dataclasses.dataclass(frozen=True)
class Cost:
    """What a job still takes.

    Attributes:
      tokens: to be trained on; None: it was not planned.
      flops: of that training; None: it was not planned.
      seconds: of training and evaluation, as measured on this machine; None: nothing was measured here.
      elsewhere: the same by a committed result file, which may be of another machine, and its name.
    """

    tokens: float | None
    flops: float | None
    seconds: float | None = None
    elsewhere: tuple[float, str] | None = None


def cost_of(
    state: State,
    planned: Mapping[str, Plan],
    results_dir: pathlib.Path,
    runs_dir: pathlib.Path,
    is_trained_before: bool = False,
) -> Cost:
    """What a job still takes.

    Args:
      state: of the job.
      planned: name of a run -> its plan.
      results_dir: holds `runs/` with result files.
      runs_dir: holds the workdirs; what their files state was measured on this machine.
      is_trained_before: another job of the same list trains the run.
    """
    plan = planned.get(state.job.experiment.run_name)
    left = 0.0 if is_trained_before else max(0.0, 1 - state.step / state.num_steps)
    tokens, flops = (None, None) if plan is None else (plan.train_tokens * left, plan.train_flops * left)
    if tokens is None:
        return Cost(None, None)
    evaluations = len(state.job.values) or 1

    def seconds(rate: Rate) -> float:
        return tokens * rate.seconds_a_token + evaluations * rate.seconds_of_evaluation

    here = _measured_here(state.job, runs_dir)
    if here is not None:
        return Cost(tokens, flops, seconds(here))
    for path in sorted((results_dir / RUNS).glob(f'{state.job.experiment.run_name}-*.json')):
        elsewhere = _mean_rate(_scores(path)) if _is_seed_of(state.job, path.name.rpartition('-')[0]) else None
        if elsewhere is not None:
            return Cost(tokens, flops, None, (seconds(elsewhere), path.name))
    return Cost(tokens, flops)


class Rate(NamedTuple):
    """How fast something was."""

    seconds_a_token: float
    seconds_of_evaluation: float


def _measured_here(job: Job, runs_dir: pathlib.Path) -> Rate | None:
    """The rate that the workdirs of any seed state; None: none does."""
    scores, training = [], []
    for path in sorted(runs_dir.glob(f'{job.experiment.run_name}-*')):
        if not _is_seed_of(job, path.name):
            continue
        scores += [score for file in sorted((path / 'eval').glob('*.json')) for score in _scores(file)]
        if (path / 'metrics.jsonl').exists():
            records = metrics_file.read(path / 'metrics.jsonl')
            training += [1 / record['tokens_per_second'] for record in records if record.get('tokens_per_second')]
    rate = _mean_rate(scores)
    if rate is None and training:
        return Rate(statistics.fmean(training), 0.0)
    return rate


def _is_seed_of(job: Job, name: str) -> bool:
    """Whether a name is that of the job's run with some seed."""
    run, _, seed = name.rpartition('-')
    return run == job.experiment.run_name and seed.isdecimal()


def _mean_rate(scores: list[dict[str, Any]]) -> Rate | None:
    timed = [score for score in scores if score.get('train_tokens') and score.get('train_seconds')]
    if not timed:
        return None
    return Rate(
        statistics.fmean(score['train_seconds'] / score['train_tokens'] for score in timed),
        statistics.fmean(score.get('seconds', 0.0) for score in timed),
    )


def _scores(file: pathlib.Path) -> list[dict[str, Any]]:
    """What a result file holds, as far as it can be read."""
    try:
        data = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return []
    results = data.get('results', [data]) if isinstance(data, dict) else []
    return [score for score in results if isinstance(score, dict)]
