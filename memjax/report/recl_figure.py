"""A group's use of context as a figure."""

from __future__ import annotations

import functools
import math
from typing import Any

from etils import epath

from memjax import atomic
from memjax.report.figures import png


def draw_recl(result: dict[str, Any], out_png: epath.PathLike) -> None:
    """Draws each run's loss by the length of its context, and its RECL over all positions.

    Args:
      result: what `memjax.evaluation.recl` writes.
      out_png: the figure; replaced if it exists.

    Raises:
      OSError: it cannot be written.
    """
    atomic.write_bytes(out_png, png(functools.partial(_draw, result=result)))


def _draw(axes: Any, result: dict[str, Any]) -> None:
    for run in result['runs']:
        bits = [nats / math.log(2) for nats in run['loss_by_length']]
        found = run['recl']['1.0']
        label = f'{run["config"]}: {"at least " if found["is_bound"] else ""}{found["recl"]:,}'
        (line,) = axes.plot(result['lengths'], bits, marker='o', markersize=4, linewidth=1.4, label=label)
        axes.axvline(found['recl'], color=line.get_color(), linewidth=1, linestyle=':')
    axes.set(
        title=f'RECL (r = 1) on {result["samples"]:,} positions of {result["split"]}',
        xlabel='tokens of context',
        ylabel='bits a token',
    )
