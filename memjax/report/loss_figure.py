"""The loss of one run as a figure."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from etils import epath

from memjax import atomic
from memjax.report.figures import MEASURES, png
from memjax.runs import metrics_file

_COLORS = {'train': '#9ab8d8', 'validation': '#c8442b'}


def draw_loss(metrics_path: epath.PathLike, out_png: epath.PathLike, title: str) -> bool:
    """Draws training and validation loss against the tokens trained on.

    Args:
      metrics_path: a run's `metrics.jsonl`; lines with `tokens` and `bpc` (or `ppl`) are its points.
      out_png: the figure; replaced if it exists.
      title: above it.

    Returns:
      Whether there was anything to draw; if not, nothing is written.

    Raises:
      OSError: the metrics cannot be read or the figure cannot be written.
    """
    records = metrics_file.read(metrics_path)
    measure = next((name for name in MEASURES if any(name in record for record in records)), None)
    curves = {split: _points(records, split, measure) for split in _COLORS}
    if not any(curves.values()):
        return False
    atomic.write_bytes(out_png, png(functools.partial(_draw, curves=curves, measure=measure, title=title)))
    return True


def _points(records: Sequence[dict[str, Any]], split: str, measure: str | None) -> list[tuple[float, float]]:
    # A value that was not finite is null.
    return [
        (record['tokens'], record[measure])
        for record in records
        if record['split'] == split and None not in (record.get('tokens'), record.get(measure))
    ]


def _draw(axes: Any, curves: dict[str, list[tuple[float, float]]], measure: str, title: str) -> None:
    from matplotlib.ticker import EngFormatter, LogFormatter

    for split, points in curves.items():
        if not points:
            continue
        tokens, values = zip(*points, strict=True)
        # One or few points would not show as a line.
        marker = 'o' if len(points) <= 25 else None
        label = f'{split}, last {values[-1]:.3f}'
        axes.plot(tokens, values, color=_COLORS[split], label=label, marker=marker, markersize=3.5, linewidth=1.4)
    if measure == 'ppl':
        axes.set_yscale('log')
        # Plain numbers for powers of ten and, over less than two of them, for what lies between.
        axes.yaxis.set_major_formatter(LogFormatter())
        axes.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(2, 0.5)))
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(EngFormatter(sep=''))
    axes.set(title=title, xlabel='tokens trained on', ylabel=MEASURES[measure])
