"""What the needle probe found, as a figure."""

from __future__ import annotations

import functools
from typing import Any

from etils import epath

from memjax import atomic
from memjax.report.figures import png


def draw_needle(result: dict[str, Any], out_png: epath.PathLike) -> None:
    """Draws accuracy against distance, with what a guess gets, and where the model's reach ends.

    Args:
      result: what `memjax.evaluation.needle` writes.
      out_png: the figure; replaced if it exists.

    Raises:
      OSError: it cannot be written.
    """
    atomic.write_bytes(out_png, png(functools.partial(_draw, result=result)))


def _draw(axes: Any, result: dict[str, Any]) -> None:
    bins, reach = result['bins'], result['temporal_range']
    middles = [(each['from'] * (each['to'] - 1)) ** 0.5 for each in bins]
    axes.plot(middles, [each['accuracy'] for each in bins], color='#2f5f8f', marker='o', markersize=4, linewidth=1.4)
    axes.axhline(result['guess'], color='#9a9a9a', linewidth=1, linestyle='--', label='a guess')
    if reach is not None:
        axes.axvline(max(reach, 1), color='#c8442b', linewidth=1, linestyle=':', label=f'reach, {reach:,}')
    axes.set_xscale('log', base=2)
    axes.set_ylim(0, 1.02)
    axes.set(
        title=f'{result["config"]}, {result["split"]}',
        xlabel='distance in symbols',
        ylabel='values recalled',
    )
