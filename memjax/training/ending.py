"""What a run's end brings: a figure, an evaluation, a sample, as the config asks."""

from __future__ import annotations

import json

import jax
from etils import epath
from ml_collections import config_dict

from memjax.evaluation.results import protocol_of
from memjax.evaluation.run import evaluate_run
from memjax.generation.generate import sample_run
from memjax.report.loss_figure import draw_loss
from memjax.runs.checkpoint import Checkpoints
from memjax.runs.metrics import METRICS_FILE
from memjax.runs.workdir import writing


def end_of_training(config: config_dict.ConfigDict, workdir: epath.Path, data_dir: epath.PathLike) -> None:
    """Draws the loss, evaluates and samples; what an earlier call left complete is not done again.

    Args:
      config: of the run.
      workdir: of the run, which is finished.
      data_dir: where its corpus is.

    Raises:
      UserError: a file cannot be written.
    """
    if jax.process_index() == 0 and config.training.figure:
        figure = workdir / 'loss.png'
        with writing(figure):
            if draw_loss(workdir / METRICS_FILE, figure, config.name):
                print(f'loss: {figure}')
    split = config.eval.after_training
    if split is not None and not _is_evaluated(config, workdir, split):
        evaluate_run(workdir, data_dir, config, split)
    if config.sample.after_training:
        sample = config.sample
        pieces = sample_run(
            workdir,
            data_dir,
            config,
            sample.prompt,
            sample.length,
            sample.temperature,
            sample.top_k,
            sample.top_p,
            config.training.seed,
        )
        print(f'\n{sample.prompt}|', *(piece.text for piece in pieces), sep='')


def _is_evaluated(config: config_dict.ConfigDict, workdir: epath.Path, split: str) -> bool:
    """Whether the file is there, of the newest checkpoint and of these lengths."""
    path = workdir / 'eval' / f'{split}.json'
    if not path.exists():
        return False
    result = json.loads(path.read_text())
    protocol = {name: value for name, value in result['protocol'].items() if name != 'warmup'}
    with Checkpoints(workdir / 'checkpoints') as checkpoints:
        return result['step'] == checkpoints.latest_good() and protocol == protocol_of(config)
