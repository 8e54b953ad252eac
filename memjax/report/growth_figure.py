"""How evaluation's time grows with the length of memory, as a figure."""

from __future__ import annotations

import functools
from typing import Any

from etils import epath

from memjax import atomic
from memjax.report.figures import png

_COLOURS = ('#2f5f8f', '#c8442b', '#4f8f4f')


def draw_growth(growth: dict[str, Any], out_png: epath.PathLike) -> None:
    """Draws milliseconds a segment against memory length, a line for each system.

    Args:
      growth: what `memjax.benchmark.growth.growth_of` returns.
      out_png: the figure; replaced if it exists.

    Raises:
      OSError: it cannot be written.
    """
    atomic.write_bytes(out_png, png(functools.partial(_draw, growth=growth)))


def _draw(axes: Any, growth: dict[str, Any]) -> None:
    for system, colour in zip(growth['slopes'], _COLOURS, strict=False):
        points = [
            (point['value'], point['milliseconds'])
            for point in growth['points']
            if (point['series'], point['system']) == ('memory_length', system)
        ]
        axes.plot(*zip(*points, strict=True), color=colour, marker='o', markersize=4, linewidth=1.4, label=system)
    axes.set_ylim(bottom=0)
    axes.set(
        title='evaluation with parameters fixed, one row, segments of 80',
        xlabel='memory length in slots',
        ylabel='milliseconds a segment',
    )
