"""Compression loss by layer as a figure."""

from __future__ import annotations

import functools
from typing import Any

from etils import epath

from memjax import atomic
from memjax.report.figures import png


def draw_compression(result: dict[str, Any], out_png: epath.PathLike) -> None:
    """Draws the loss of each layer (Compressive Transformer, Figure 6).

    Args:
      result: what `memjax.evaluation.compression_loss` writes.
      out_png: the figure; replaced if it exists.

    Raises:
      OSError: it cannot be written.
    """
    atomic.write_bytes(out_png, png(functools.partial(_draw, result=result)))


def _draw(axes: Any, result: dict[str, Any]) -> None:
    losses = result['loss_by_layer']
    axes.bar(range(1, len(losses) + 1), losses, color='#2f5f8f')
    axes.set_axisbelow(True)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set(
        title=f'{result["config"]}, {result["split"]}: {result["compression"]}',
        xlabel='layer',
        ylabel=f'compression loss ({result["loss"].replace("_", " ")}, {result["reduction"]})',
    )
