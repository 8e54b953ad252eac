"""Dynamic evaluation as a figure."""

from __future__ import annotations

import functools
import math
from typing import Any

from etils import epath

from memjax import atomic
from memjax.report.figures import MEASURES, png


def draw_dynamic(result: dict[str, Any], out_png: epath.PathLike) -> None:
    """Draws the score of the text so far against its length, with fixed and with following parameters.

    Args:
      result: what `memjax.evaluation.dynamic` writes.
      out_png: the figure; replaced if it exists.

    Raises:
      OSError: it cannot be written.
    """
    atomic.write_bytes(out_png, png(functools.partial(_draw, result=result)))


def _draw(axes: Any, result: dict[str, Any]) -> None:
    by_character = 'bpc' in result
    targets = [point['targets'] for point in result['curve']]
    for name, color in (('static', '#9a9a9a'), ('dynamic', '#c8442b')):
        nats = [point[name] for point in result['curve']]
        scores = [each / math.log(2) if by_character else math.exp(each) for each in nats]
        axes.plot(targets, scores, color=color, linewidth=1.4, label=name)
    axes.set(
        title=f'{result["config"]}, {result["split"]}: {result["optimizer"]}, {result["learning_rate"]:g}',
        xlabel='symbols so far',
        ylabel=MEASURES['bpc' if by_character else 'ppl'],
    )
