"""A run's documents as a figure."""

from __future__ import annotations

import functools
from typing import Any

from etils import epath

from memjax import atomic
from memjax.report.figures import png


def draw_documents(result: dict[str, Any], out_png: epath.PathLike) -> None:
    """Draws every document's perplexity (bits a character where it has them) by its length, and the interval of all.

    Args:
      result: what `memjax.evaluation.documents` writes.
      out_png: the figure; replaced if it exists.

    Raises:
      OSError: it cannot be written.
    """
    atomic.write_bytes(out_png, png(functools.partial(_draw, result=result)))


def _draw(axes: Any, result: dict[str, Any]) -> None:
    names = {'bpc': 'bits per character', 'word_perplexity': 'perplexity of words', 'token_perplexity': 'perplexity'}
    measure = next(name for name in names if result['pooled'].get(name) is not None)
    points = [(each['targets'], each[measure]) for each in result['by_document'] if each.get(measure) is not None]
    axes.plot(*zip(*points, strict=True), color='#2f5f8f', marker='o', markersize=4, linestyle='none')
    pooled, interval = result['pooled'][measure], result['intervals'][measure]
    axes.axhline(pooled, color='#c8442b', linewidth=1.2, label=f'all: {pooled:.4g}')
    if interval is not None and None not in interval:
        axes.axhspan(*interval, color='#c8442b', alpha=0.15, linewidth=0, label='95 % of resamples')
    axes.set_xscale('log')
    axes.set(
        title=f'{result["config"]}, {result["split"]} of {result["dataset"]}',
        xlabel='symbols of a document',
        ylabel=names[measure],
    )
