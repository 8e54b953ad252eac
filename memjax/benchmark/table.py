"""Speeds and their ratios as a table, which bench prints and the README holds."""

from __future__ import annotations

from typing import Any

from memjax.benchmark.comparisons import COMPARISONS
from memjax.benchmark.work import Work

_COUNTS = {1: 'one row', 4: 'four rows'}
_KINDS = {'evaluate': 'evaluation', 'decode': 'decoding'}


def table(result: dict[str, Any]) -> list[str]:
    """Lines of a Markdown table: one for each ratio that a result has, its cells empty where there is no speed.

    What the other one cannot do at all has no line.

    Args:
      result: what `memjax.benchmark.run.bench` returns or has written, in a version before this or now.
    """
    lines = ['| | beside | here, tokens a second | there | ratio |', '|---|---|---|---|---|']
    for name, ratio in result['ratios'].items():
        comparison = COMPARISONS[name]
        if comparison.impossible:
            continue
        speeds = [row['tokens_per_second'] for row in result['rows'] if row['name'] == name]
        cells = ['', '', ''] if ratio is None else [f'{speed:,.0f}' for speed in speeds] + [f'{ratio:.1f}']
        lines.append(
            '| ' + ' | '.join([_label(comparison.work), comparison.peer.title or comparison.peer.name, *cells]) + ' |'
        )
    return lines


def _label(work: Work) -> str:
    memory = f'memory {work.memory_length:,}'
    if work.compressed_memory_length:
        memory += f' and {work.compressed_memory_length:,} compressed by {work.compression_rate}'
    return f'{_KINDS[work.kind]}, {memory}, {_COUNTS.get(work.batch_size, f"{work.batch_size} rows")}'
