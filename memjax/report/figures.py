"""What all figures share: their size, their look, and how they become a file's bytes."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

MEASURES = {'bpc': 'bits per character', 'ppl': 'perplexity'}


def png(draw: Callable[[Any], None]) -> bytes:
    """A figure of one panel.

    Args:
      draw: puts curves, labels and scales on the `matplotlib.axes.Axes` that it is given.

    Returns:
      The PNG file's bytes.
    """
    # Slow to import, and only wanted at the end of a run. Without pyplot no window system is touched.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0), dpi=150, layout='constrained')
    axes = figure.subplots()
    draw(axes)
    axes.grid(color='#e4e4e4', linewidth=0.8)
    axes.spines[['top', 'right']].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False)
    buffer = io.BytesIO()
    FigureCanvasAgg(figure).print_png(buffer)
    return buffer.getvalue()
