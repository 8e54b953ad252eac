from __future__ import annotations

import json
import math
import subprocess
import sys

import numpy as np
import pytest
from matplotlib import image
from matplotlib.colors import to_rgb

from memjax.report import loss_figure
from memjax.report.loss_figure import draw_loss


def write_metrics(path, records):
    path.write_text(''.join(json.dumps(record) + '\n' for record in records))
    return path


def curve(split, measure, count, first_step=1):
    return [
        {'step': step, 'split': split, 'tokens': 2048 * step, measure: 2.0 + 3.0 * math.exp(-step / 50)}
        for step in range(first_step, first_step + 10 * count, 10)
    ]


def has_color(png, split):
    """Whether the curve's color is seen below the legend, which is in the upper fourth."""
    pixels = image.imread(png)[..., :3]
    pixels = pixels[len(pixels) // 4 :]
    return bool((np.abs(pixels - np.array(to_rgb(loss_figure._COLORS[split]))).max(-1) < 0.02).any())


@pytest.mark.parametrize('measure', ['bpc', 'ppl'])
def test_both_curves_are_drawn_and_nulls_left_out(tmp_path, measure):
    nulls = [{'step': 999, 'split': 'train', 'tokens': 3, measure: None}, {'step': 9, 'split': 'train', 'loss': 1.0}]
    records = curve('train', measure, 60) + curve('validation', measure, 3) + nulls
    png = tmp_path / 'loss.png'
    assert draw_loss(write_metrics(tmp_path / 'metrics.jsonl', records), png, 'demo')
    assert has_color(png, 'train')
    assert has_color(png, 'validation')


def test_a_single_validation_point_shows_and_a_missing_curve_does_not(tmp_path):
    png = tmp_path / 'loss.png'
    assert draw_loss(write_metrics(tmp_path / 'metrics.jsonl', curve('validation', 'bpc', 1)), png, 'demo')
    assert has_color(png, 'validation')
    assert not has_color(png, 'train')


@pytest.mark.parametrize('records', [[], [{'step': 1, 'split': 'train', 'tokens': 1, 'bpc': None}]])
def test_nothing_to_draw_writes_nothing(tmp_path, records):
    metrics = write_metrics(tmp_path / 'metrics.jsonl', records)
    assert not draw_loss(metrics, tmp_path / 'loss.png', 'demo')
    assert not (tmp_path / 'loss.png').exists()


def test_matplotlib_is_imported_only_to_draw():
    code = 'import sys, memjax.report.loss_figure; sys.exit(any(name.startswith("matplotlib") for name in sys.modules))'
    subprocess.run([sys.executable, '-c', code], check=True)
