"""The benchmarks: where every speed that is stated comes from.

Two systems do the same piece of work in turn, several times; what counts is the ratio of the medians of one such run on
one machine, each on the same number of threads. Speeds of different runs or machines are not compared.
"""

from __future__ import annotations

import dataclasses
import json
import platform
import statistics
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from memjax import atomic
from memjax.benchmark.comparisons import Comparison, comparisons
from memjax.benchmark.growth import growth_of, growth_works
from memjax.benchmark.peers import TRANSFO_XL, Peer
from memjax.benchmark.table import table
from memjax.benchmark.work import Timing, Work, Worker
from memjax.errors import BenchmarkError
from memjax.report.growth_figure import draw_growth
from memjax.version import code_version


def bench(
    out: Path, environments: Path, install: bool = True, quick: bool = False, threads: int = 2, repeats: int = 5
) -> dict[str, Any]:
    """Times everything, prints a table, and writes `OUT` and a figure of growth beside it.

    An implementation that cannot be had, or fails, is told of in a line, and the others are timed without it.

    Args:
      out: a .json file.
      environments: folder of the other implementations' Python environments.
      install: make those that are missing.
      quick: short pieces of work, each once, for a look; the file then says so.
      threads: CPU threads of each system.
      repeats: how often each piece of work is timed on each system.

    Returns:
      What the file holds: `machine`; `rows`, one for each system and piece of work; `ratios`, above 1 where ours is
      faster, None where there is none; `missing`, the reason for each of those; `requirements`, what each other system
      is made of; `growth`.

    Raises:
      BenchmarkError: ours fails, or all others cannot be had or fail.
    """
    repeats = 1 if quick else repeats
    works = comparisons(quick)
    peers = list(dict.fromkeys(each.peer for each in works.values()))
    with Worker('memjax', [sys.executable, '-m', 'memjax.benchmark.ours'], threads) as ours:
        result: dict[str, Any] = {
            'command': f'python launch/bench.py --threads={threads} --repeats={repeats}'
            + (' --quick' if quick else ''),
            'commit': code_version(),
            'quick': quick,
            'machine': _machine(threads) | ours.versions(),
            'rows': [],
            'ratios': dict.fromkeys(works),
            'missing': {name: each.impossible for name, each in works.items() if each.impossible},
            'requirements': {peer.name: list(peer.requirements) for peer in peers},
        }
        commands: dict[Peer, list[str]] = {}
        for peer in peers:
            its_works = {name: each for name, each in works.items() if each.peer == peer and not each.impossible}
            try:
                command = peer.command(environments, install)
                _compare(result, its_works, ours, command, threads, repeats)
                commands[peer] = command
            except BenchmarkError as error:
                _tell(error, ours)
                reason = str(error).replace(str(environments), 'ENVIRONMENTS')  # a file of results names no folder
                result['missing'] |= {name: reason for name in its_works if result['ratios'][name] is None}
        if not result['rows']:
            raise BenchmarkError(f'no other implementation runs: {next(iter(result["missing"].values()))}')
        result['growth'] = _growth(ours, commands.get(TRANSFO_XL), quick, threads, repeats)
    print('\n'.join(table(result)))
    if result['growth']['slope_ratio'] is not None:
        print(f"slope in memory length, of TransfoXL's  {result['growth']['slope_ratio']:.3f}")
    _write(out, result)
    return result


def _compare(
    result: dict[str, Any],
    works: dict[str, Comparison],
    ours: Worker,
    command: list[str],
    threads: int,
    repeats: int,
) -> None:
    """Adds to a result what is compared with one peer, as far as that comes."""
    peer = next(iter(works.values())).peer
    with Worker(peer.name, command, threads) as theirs:
        result['machine'] |= theirs.versions()
        for name, comparison in works.items():
            work = comparison.work
            timings = alternate(work, (ours, theirs), repeats)
            rows = [row_of(name, worker.name, work, timings[worker.name]) for worker in (ours, theirs)]
            result['rows'] += rows
            result['ratios'][name] = rows[0]['tokens_per_second'] / rows[1]['tokens_per_second']
            _print_rows(rows)


def _growth(ours: Worker, command: list[str] | None, quick: bool, threads: int, repeats: int) -> dict[str, Any]:
    """Growth of ours, and in memory length of TransfoXL's too if it has a command and does not fail."""

    def measure(others: Sequence[Worker]) -> dict[str, Any]:
        return growth_of(
            (series, system, work, timings)
            for series, work in growth_works(quick)
            for system, timings in alternate(
                work, (ours, *(others if series == 'memory_length' else ())), repeats
            ).items()
        )

    if command is not None:
        try:
            with Worker(TRANSFO_XL.name, command, threads) as theirs:
                return measure((theirs,))
        except BenchmarkError as error:
            _tell(error, ours)
    return measure(())


def _tell(error: BenchmarkError, ours: Worker) -> None:
    """Says in a line what failed; if that is ours, there is nothing left to compare, and it is raised again."""
    if not ours.alive:
        raise error
    print(error, file=sys.stderr, flush=True)


def alternate(work: Work, workers: Sequence[Worker], repeats: int) -> dict[str, list[Timing]]:
    """Timings of each worker by its name; they take turns, after one turn each that does not count."""
    timings: dict[str, list[Timing]] = {worker.name: [] for worker in workers}
    for turn in range(repeats + 1):
        for worker in workers:
            timing = worker.time(work)
            if turn:
                timings[worker.name].append(timing)
    return timings


def row_of(name: str, system: str, work: Work, timings: list[Timing]) -> dict[str, Any]:
    """One line of the results."""
    rates = [timing.rate for timing in timings]
    return {
        'name': name,
        'system': system,
        **dataclasses.asdict(work),
        'tokens_per_second': statistics.median(rates),
        'all': rates,
        'memory_bytes': timings[0].bytes,
    }


def _machine(threads: int) -> dict[str, Any]:
    return {
        'processor': _processor(),
        'threads': threads,
        'python': platform.python_version(),
        'system': platform.system(),
    }


def _processor() -> str:
    try:
        lines = Path('/proc/cpuinfo').read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(':')[2].strip() for line in lines if line.startswith('model name')), platform.machine())


def _print_rows(rows: Iterable[dict[str, Any]]) -> None:
    for row in rows:
        print(f'{row["name"]:<40} {row["system"]:<20} {row["tokens_per_second"]:>10,.0f} tokens/s', flush=True)


def _write(out: Path, result: dict[str, Any]) -> None:
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_text(out, json.dumps(result, indent=2) + '\n')
        draw_growth(result['growth'], out.with_name(out.stem + '_growth.png'))
    except OSError as error:
        raise BenchmarkError(f'cannot write {out}: {error.strerror}') from error
