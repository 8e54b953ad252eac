"""Attention by bucket as a figure."""

from __future__ import annotations

import functools
from typing import Any

from etils import epath

from memjax import atomic
from memjax.report.figures import png

_COLORS = {'memory': '#2f5f8f', 'segment': '#9a9a9a'}  # compressed memories: another


def draw_attention(result: dict[str, Any], out_png: epath.PathLike) -> None:
    """Draws the mass of each bucket, coloured by region (Compressive Transformer, Figure 2).

    Args:
      result: what `memjax.evaluation.attention` writes.
      out_png: the figure; replaced if it exists.

    Raises:
      OSError: it cannot be written.
    """
    atomic.write_bytes(out_png, png(functools.partial(_draw, result=result)))


def _draw(axes: Any, result: dict[str, Any]) -> None:
    buckets = result['buckets']
    for region in dict.fromkeys(each['region'] for each in buckets):
        bars = [(place, each['mass']) for place, each in enumerate(buckets, start=1) if each['region'] == region]
        slots = sum(each['slots'] for each in buckets if each['region'] == region)
        label = f'{region.replace("_", " ")}, {slots:,} slots'
        axes.bar(*zip(*bars, strict=True), color=_COLORS.get(region, '#c8442b'), label=label)
    axes.set_axisbelow(True)
    axes.set_xticks(range(1, len(buckets) + 1))
    axes.set(
        title=f'{result["config"]}, {result["split"]}: {result["sequences"]:,} sequences',
        xlabel='bucket, the oldest keys first',
        ylabel='share of attention',
    )
