"""The study of rates and update periods as a figure."""

from __future__ import annotations

import functools
from typing import Any

from etils import epath

from memjax import atomic
from memjax.report.figures import MEASURES, png


def draw_optimization(result: dict[str, Any], out_png: epath.PathLike) -> None:
    """Draws the training loss of each branch against the step; the legend has each one's loss on validation.

    Args:
      result: what `memjax.training.optimization_study` writes.
      out_png: the figure; replaced if it exists.

    Raises:
      OSError: it cannot be written.
    """
    atomic.write_bytes(out_png, png(functools.partial(_draw, result=result)))


def _draw(axes: Any, result: dict[str, Any]) -> None:
    branches = result['branches']
    measure = 'bpc' if 'bpc' in branches[0]['validation'] else 'ppl'
    for branch in branches:
        steps, losses = zip(*((point['step'], point[measure]) for point in branch['curve']), strict=True)
        label = f'{branch["name"].replace("_", " ")}, validation {branch["validation"][measure]:.4f}'
        axes.plot(steps, losses, linewidth=1.2, label=label)
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + 0.7 * (high - low))  # the legend's place: a line for each branch
    axes.set(
        title=f'{result["config"]}, from step {result["step"]:,}',
        xlabel='training step',
        ylabel=f'{MEASURES[measure]}, training',
    )
