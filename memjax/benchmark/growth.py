"""How evaluation's cost and memory state grow with memory length, compression rate, batch and layers."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Iterator
from typing import Any

from memjax.benchmark.work import Timing, Work

_BASE = Work('evaluate', batch_size=1, segment_length=80, memory_length=480, count=16)
# Each series changes one thing. For `compression_rate` the slots' number is fixed and their reach grows.
SERIES = {
    'memory_length': [{'memory_length': length} for length in (240, 480, 960, 1920, 3840)],
    'compression_rate': [{'compressed_memory_length': 480, 'compression_rate': rate} for rate in (2, 4, 8)],
    'batch_size': [{'batch_size': rows} for rows in (1, 2, 4, 8)],
    'num_layers': [{'num_layers': layers} for layers in (2, 4, 8)],
}


def growth_works(quick: bool) -> Iterator[tuple[str, Work]]:
    """Every series' pieces of work: (series, work)."""
    for series, changes in SERIES.items():
        for change in changes[:2] if quick else changes:
            yield series, dataclasses.replace(_BASE, **change, **({'count': 8} if quick else {}))


def growth_of(timings: Iterable[tuple[str, str, Work, list[Timing]]]) -> dict[str, Any]:
    """What a result file holds about growth.

    Args:
      timings: (series, system, work, its timings).

    Returns:
      `points`: for each its `series`, `system`, `value` (of what changes), `milliseconds` a segment and
      `memory_bytes`; `slopes`: system -> milliseconds a segment for each slot of memory; `slope_ratio`: ours as a share
      of the other's.
    """
    points = []
    for series, system, work, several in timings:
        seconds = statistics.median(timing.seconds for timing in several)
        points.append(
            {
                'series': series,
                'system': system,
                'value': getattr(work, series),
                'milliseconds': 1e3 * seconds / work.count,
                'memory_bytes': several[0].bytes,
            }
        )
    slopes = {
        system: _slope([point for point in points if (point['series'], point['system']) == ('memory_length', system)])
        for system in {point['system']: None for point in points}
    }
    ours, *others = slopes.values()
    return {'points': points, 'slopes': slopes, 'slope_ratio': ours / others[0] if others else None}


def _slope(points: list[dict[str, Any]]) -> float:
    return statistics.linear_regression(
        [point['value'] for point in points], [point['milliseconds'] for point in points]
    ).slope
