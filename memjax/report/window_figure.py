"""Windows against reused segments as a figure."""

from __future__ import annotations

import functools
from typing import Any

from etils import epath

from memjax import atomic
from memjax.report.figures import png


def draw_window(result: dict[str, Any], out_png: epath.PathLike) -> None:
    """Draws how many times longer a token takes with windows, by attention length (Transformer-XL, Table 9).

    Args:
      result: what `memjax.evaluation.window_cost` writes.
      out_png: the figure; replaced if it exists.

    Raises:
      OSError: it cannot be written.
    """
    atomic.write_bytes(out_png, png(functools.partial(_draw, result=result)))


def _draw(axes: Any, result: dict[str, Any]) -> None:
    points = sorted((each['attention_length'], each['ratio']) for each in result['lengths'])
    axes.plot(*zip(*points, strict=True), color='#2f5f8f', marker='o', markersize=4, linewidth=1.4)
    for length, ratio in points:
        axes.annotate(f'{ratio:,.0f}', (length, ratio), textcoords='offset points', xytext=(0, 6), ha='center')
    axes.set(
        title=f'{result["config"]}: segments of {result["segment_length"]}, {result["rows"]} rows, {result["device"]}',
        xlabel='attention length',
        ylabel='seconds a token, windows to segments',
    )
    axes.set_ylim(0, 1.15 * max(ratio for _, ratio in points))
