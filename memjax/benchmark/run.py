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
from memjax.benchmark.growth import growth_of, growth_works
from memjax.benchmark.peers import TRANSFO_XL
from memjax.benchmark.work import Timing, Work, Worker
from memjax.errors import BenchmarkError
from memjax.evaluation.likelihood import SEGMENTS_A_CALL
from memjax.report.growth_figure import draw_growth
from memjax.version import code_version

# Names of the ratios, and what is compared: the lengths of Transformer-XL's enwik8 evaluation.
COMPARISONS = {
    'eval_txl_vs_transfoxl': Work('evaluate', batch_size=1, segment_length=80, memory_length=2100, count=24),
    'eval_txl_vs_transfoxl_batch_4': Work('evaluate', batch_size=4, segment_length=80, memory_length=2100, count=8),
    'decode_txl_vs_transfoxl': Work('decode', batch_size=1, segment_length=128, memory_length=512, count=256),
    'decode_txl_vs_transfoxl_2100': Work('decode', batch_size=1, segment_length=128, memory_length=2100, count=128),
}


def comparisons(quick: bool) -> dict[str, Work]:
    """Name of a ratio -> what is compared, an eighth of it, if that is enough for a call, for a look."""
    if not quick:
        return COMPARISONS
    return {
        name: dataclasses.replace(work, count=max(SEGMENTS_A_CALL, work.count // 8))
        for name, work in COMPARISONS.items()
    }


def bench(
    out: Path, environments: Path, install: bool = True, quick: bool = False, threads: int = 2, repeats: int = 5
) -> dict[str, Any]:
    """Times everything, prints a table, and writes `OUT` and a figure of growth beside it.

    Args:
      out: a .json file.
      environments: folder of the other implementations' Python environments.
      install: make those that are missing.
      quick: short pieces of work, each once, for a look; the file then says so.
      threads: CPU threads of each system.
      repeats: how often each piece of work is timed on each system.

    Returns:
      What the file holds: `machine`; `rows`, one for each system and piece of work; `ratios`, above 1 where ours is
      faster; `growth`.

    Raises:
      BenchmarkError: an implementation cannot be had, or fails.
    """
    repeats = 1 if quick else repeats
    peer_python = TRANSFO_XL.python(environments, install)
    with (
        Worker('memjax', [sys.executable, '-m', 'memjax.benchmark.ours'], threads) as ours,
        Worker(TRANSFO_XL.name, [str(peer_python), str(TRANSFO_XL.program)], threads) as peer,
    ):
        result: dict[str, Any] = {
            'command': f'python launch/bench.py --threads={threads} --repeats={repeats}'
            + (' --quick' if quick else ''),
            'commit': code_version(),
            'quick': quick,
            'machine': _machine(threads) | ours.versions() | peer.versions(),
            'rows': [],
            'ratios': {},
        }
        for name, work in comparisons(quick).items():
            timings = alternate(work, (ours, peer), repeats)
            rows = [row_of(name, worker.name, work, timings[worker.name]) for worker in (ours, peer)]
            result['rows'] += rows
            result['ratios'][name] = rows[0]['tokens_per_second'] / rows[1]['tokens_per_second']
            _print_rows(rows)
        result['growth'] = growth_of(
            (series, worker.name, work, alternate(work, (worker,), 1 if quick else 3)[worker.name])
            for series, work in growth_works(quick)
            for worker in ((ours, peer) if series == 'memory_length' else (ours,))
        )
    for name, ratio in result['ratios'].items():
        print(f'{name:<36} {ratio:7.2f}')
    print(f"slope in memory length, of TransfoXL's  {result['growth']['slope_ratio']:.3f}")
    _write(out, result)
    return result


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
        print(f'{row["name"]:<36} {row["system"]:<10} {row["tokens_per_second"]:>10,.0f} tokens/s', flush=True)


def _write(out: Path, result: dict[str, Any]) -> None:
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_text(out, json.dumps(result, indent=2) + '\n')
        draw_growth(result['growth'], out.with_name(out.stem + '_growth.png'))
    except OSError as error:
        raise BenchmarkError(f'cannot write {out}: {error.strerror}') from error
