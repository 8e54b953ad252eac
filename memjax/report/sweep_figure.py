"""A sweep as a figure."""

from __future__ import annotations

import functools
from typing import Any

from etils import epath

from memjax import atomic
from memjax.report.figures import MEASURES, png


def draw_sweep(sweep: dict[str, Any], out_png: epath.PathLike) -> None:
    """Draws what each value of a sweep scored, the best one marked.

    Args:
      sweep: what `memjax.evaluation.sweep` writes.
      out_png: the figure; replaced if it exists.

    Raises:
      OSError: it cannot be written.
    """
    atomic.write_bytes(out_png, png(functools.partial(_draw, sweep=sweep)))


def _draw(axes: Any, sweep: dict[str, Any]) -> None:
    results = sweep['results']
    measure, field = ('bpc', 'bpc') if 'bpc' in results[0] else ('ppl', 'token_perplexity')
    points = sorted((result[sweep['what']], result[field]) for result in results)
    values, scores = zip(*points, strict=True)
    best = values.index(sweep['best'])
    axes.plot(values, scores, color='#2f5f8f', marker='o', markersize=4, linewidth=1.4)
    label = f'{values[best]:,}: {scores[best]:.4f}'
    axes.plot(values[best], scores[best], color='#c8442b', marker='o', markersize=7, linestyle='none', label=label)
    axes.set(
        title=f'{results[0]["config"]}, {results[0]["split"]} of {results[0]["dataset"]}',
        xlabel=f'{sweep["what"].replace("_", " ")} in evaluation',
        ylabel=MEASURES[measure],
    )
