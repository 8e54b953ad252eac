"""Fills a table: trains and evaluates what its result files lack, each run by the launchers in processes of their own.

A run that crashes, or is stopped, leaves the others as they are; started again, it goes on from its newest checkpoint
(see `launch/train.py`). A result is copied into `results/runs/` as soon as it is there, with two fields more than the
run's own file has: the `command` that trains the run, and `settings`, every field of its config that is not at its
default.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence

from memjax import atomic
from memjax.errors import UserError
from memjax.report import plans
from memjax.report.experiments import NEEDLE, ROOT, SCALES, Job, Table, settings
from memjax.report.plans import flops_in_words, tokens_in_words
from memjax.report.result_files import RUNS
from memjax.report.states import DONE, MISSING, OTHER, UNFINISHED, Cost, State, cost_of, state_of, why_not, workdir

_LAUNCHERS = ROOT / 'launch'
_STOPPED = (128 + signal.SIGINT, 128 + signal.SIGTERM)
_USERS_TO_MEND = 2


class Stopped(SystemExit):
    """The process was asked to stop."""


def listing(tables: Sequence[Table], results_dir: pathlib.Path, runs_dir: pathlib.Path, seeds: int) -> str:
    """All rows of the tables, and how far each is at both scales.

    Args:
      tables: to list.
      results_dir: holds `runs/` with result files.
      runs_dir: holds the workdirs.
      seeds: how many of them to look for.

    Raises:
      UserError: a result file is damaged.
    """
    planned, lines = plans.read(results_dir), []
    for table in tables:
        lines += ['', f'{table.id}  {table.title}' + (f'; {table.source}' if table.source else '')]
        width = max(len(row.label) for row in table.rows)
        states = {
            scale: [state_of(job, planned, results_dir, runs_dir) for job in table.jobs(scale, seeds)]
            for scale in ('full', 'tiny')
        }
        for row in table.rows:
            shown = []
            for scale, name in (('full', 'full size'), ('tiny', 'tiny')):
                of_row = [
                    state
                    for state in states[scale]
                    if (state.job.experiment, state.job.kind) == (row.experiment(scale), table.kind_of(row))
                ]
                if of_row:
                    shown.append(f'{name}: {_states_in_words(of_row)}')
            lines.append(f'  {row.label:<{width}}  {row.paper or "-":>6}  {"; ".join(shown)}')
    return '\n'.join(lines[1:])


def _states_in_words(states: Sequence[State]) -> str:
    """Such as `done 0, 1, unfinished 2`, the numbers being seeds; or `missing`, of all."""
    if {state.state for state in states} == {MISSING}:
        return MISSING
    parts = []
    for name in (DONE, UNFINISHED, OTHER, MISSING):
        seeds = [str(state.job.seed) for state in states if state.state == name]
        if seeds:
            parts.append(f'{name} {", ".join(seeds)}')
    return ', '.join(parts)


def reproduce(
    table: Table,
    scale: str,
    seeds: int,
    data_dir: pathlib.Path | str,
    results_dir: pathlib.Path,
    runs_dir: pathlib.Path,
    flags: Sequence[str] = (),
    dry_run: bool = False,
    call: Callable[[Sequence[str]], int] | None = None,
) -> None:
    """Says what fills the table and what it costs, then runs it; what is done is left as it is.

    Args:
      table: to be filled.
      scale: tiny | full.
      seeds: how many; they count from 0.
      data_dir: where prepared corpora are.
      results_dir: holds `runs/` with result files, and `plans.json`.
      runs_dir: holds the workdirs, `NAME-SEED`.
      flags: for every training besides the experiment's own, such as `--config.mesh.fsdp=8`.
      dry_run: only say it.
      call: runs a command and returns its exit code; None: a process that is asked to stop when this one is.

    Raises:
      UserError: the table has no rows of this scale, a result file is damaged, or one is of another experiment.
      SystemExit: 1, after all others, if a run crashed; 2 at once if one could not start for a reason that is the
        user's to mend; 130 or 143 if it was stopped.
    """
    jobs = table.jobs(scale, seeds)
    if not jobs:
        others = [each for each in SCALES if table.jobs(each, seeds)]
        raise UserError(f'{table.id} has no {scale} rows: --scale={" or ".join(others)} has')
    planned = plans.read(results_dir)
    states = [state_of(job, planned, results_dir, runs_dir) for job in jobs]
    for state in states:
        if state.state == OTHER:
            path = results_dir / RUNS / state.job.file_name
            raise UserError(f'{path} is of another experiment ({state.reason}): move it away or correct it')
    print(forecast(table, scale, states, results_dir, runs_dir), flush=True)
    if dry_run:
        return
    runner = _Runner(data_dir, results_dir, runs_dir, flags, call or _call)
    crashed = [state.job for state in states if state.state != DONE and not runner.run(state.job)]
    if crashed:
        print(f'crashed: {", ".join(job.file_name for job in crashed)}; the same command tries them again', flush=True)
        raise SystemExit(1)
    if any(state.state != DONE for state in states):
        print('done; the tables are written by: python launch/report.py', flush=True)


def forecast(
    table: Table, scale: str, states: Sequence[State], results_dir: pathlib.Path, runs_dir: pathlib.Path
) -> str:
    """What is done, unfinished and missing, and what it takes, a line each and their sum."""
    planned = plans.read(results_dir)
    lines = [f'{table.id}, {scale}: {table.title}']
    costs: list[Cost] = []
    trained: set[str] = set()
    for state in states:
        job = state.job
        words = f'  {state.state:<10}  {job.file_name}'
        if state.state == DONE:
            lines.append(words)
            continue
        cost = cost_of(state, planned, results_dir, runs_dir, is_trained_before=job.run in trained)
        trained.add(job.run)
        costs.append(cost)
        reached = f', at step {state.step:,} of {state.num_steps:,}' if state.step else ''
        lines.append(f'{words}{reached}: {_cost_in_words(cost)}')
    if not costs:
        return '\n'.join([*lines, 'nothing is left to be run'])
    known = [cost for cost in costs if cost.tokens is not None]
    timed = [cost.seconds for cost in costs if cost.seconds is not None]
    words = _size_in_words(sum(cost.tokens for cost in known), sum(cost.flops for cost in known))
    if len(known) < len(costs):
        words += f', without {len(costs) - len(known)} that are not planned ({plans.MADE_BY})'
    time = f'about {_time_in_words(sum(timed))}' if timed else 'an unknown time'
    if timed and len(timed) < len(costs):
        time += f' for {len(timed)} of them, an unknown time for the others'
    return '\n'.join([*lines, f'to be run: {len(costs)} of {len(states)}; {words}; {time}'])


def _cost_in_words(cost: Cost) -> str:
    size = 'not planned' if cost.tokens is None else _size_in_words(cost.tokens, cost.flops)
    if cost.seconds is not None:
        return f'{size}, about {_time_in_words(cost.seconds)}'
    if cost.elsewhere is None:
        return f'{size}, time unknown'
    seconds, file = cost.elsewhere
    return f'{size}, time unknown here (about {_time_in_words(seconds)} where {file} was made)'


def _size_in_words(tokens: float, flops: float) -> str:
    return f'{tokens_in_words(tokens)}, {flops_in_words(flops)}'


def _time_in_words(seconds: float) -> str:
    minutes = max(1, round(seconds / 60))
    return f'{minutes} min' if minutes < 120 else f'{minutes / 60:.1f} h'


class _Runner:
    """Runs jobs one after the other."""

    def __init__(self, data_dir, results_dir, runs_dir, flags, call):
        self._data, self._flags, self._call = [f'--data_dir={data_dir}'], list(flags), call
        self._results_dir, self._runs_dir = results_dir, runs_dir

    def run(self, job: Job) -> bool:
        """Trains, evaluates and copies; returns False if a process crashed."""
        where = workdir(self._runs_dir, job)
        source = where / 'eval' / f'{job.kind}.json'
        if not _is_result(job, source):
            for command in (self._training(job, where), self._evaluation(job, where)):
                # A training may end with the evaluation that is wanted.
                if _is_result(job, source):
                    continue
                print(f'$ python {shlex.join(map(str, command))}', flush=True)
                code = self._call([sys.executable, *map(str, command)])
                if code in (*_STOPPED, -signal.SIGINT, -signal.SIGTERM):
                    raise Stopped(128 - code if code < 0 else code)
                if code == _USERS_TO_MEND:  # it has said why, and would say so again of the next
                    raise SystemExit(code)
                if code != 0:
                    print(f'{job.file_name}: exit code {code}', flush=True)
                    return False
        if not _is_result(job, source):
            print(f'{job.file_name}: {source} is not what the table wants', flush=True)
            return False
        print(f'{job.file_name}: {collect(job, source, self._results_dir)}', flush=True)
        return True

    def _training(self, job: Job, where: pathlib.Path) -> list[str | pathlib.Path]:
        arguments = [*job.experiment.arguments(job.seed), *self._flags]
        return [_LAUNCHERS / 'train.py', *arguments, f'--workdir={where}', *self._data]

    def _evaluation(self, job: Job, where: pathlib.Path) -> list[str | pathlib.Path]:
        split = job.kind.rpartition('_')[2]
        common = [f'--workdir={where}', f'--split={split}', *self._data]
        if job.swept is not None:
            values = ','.join(map(str, job.values))
            return [_LAUNCHERS / 'sweep.py', f'--what={job.swept}', f'--values={values}', *common]
        return [_LAUNCHERS / ('needle.py' if job.kind == NEEDLE else 'eval.py'), *common]


def collect(job: Job, source: pathlib.Path, results_dir: pathlib.Path) -> pathlib.Path:
    """Copies a run's result, and its figure if it has one, to the results; adds `command` and `settings`.

    Args:
      job: that it is the result of.
      source: `WORKDIR/eval/KIND.json`.
      results_dir: holds `runs/`.

    Returns:
      The path of the copy.
    """
    data = json.loads(source.read_bytes())
    data |= {
        'command': job.experiment.command(job.seed),
        'settings': settings(job.experiment.load(job.seed)),
    }
    path = results_dir / RUNS / job.file_name
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_text(path, json.dumps(data, indent=2) + '\n')
    if source.with_suffix('.png').exists():
        shutil.copyfile(source.with_suffix('.png'), path.with_suffix('.png'))
    return path


def _is_result(job: Job, source: pathlib.Path) -> bool:
    """Whether a run's own file is the job's whole result."""
    if not source.exists():
        return False
    try:
        return why_not(job, source) is None
    except UserError:
        return False


def _call(command: Sequence[str]) -> int:
    """Runs a process to its end; asks it to stop, and waits until it has, when this one is asked to."""
    process = subprocess.Popen(command)
    with _sigterm_raises():
        try:
            return process.wait()
        except (KeyboardInterrupt, Stopped):
            # A terminal's Ctrl-C reaches both; training saves at the first signal, whichever it is.
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            process.wait()
            raise


@contextlib.contextmanager
def _sigterm_raises() -> Iterator[None]:
    def stop(number: int, frame: object) -> None:
        raise Stopped(128 + number)

    previous = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
