"""How much each layer's compression loses (Compressive Transformer, section 5.6 and Figure 6)."""

from __future__ import annotations

from typing import Any

from etils import epath
from ml_collections import config_dict

from memjax.config import evaluation_config
from memjax.errors import ConfigError
from memjax.evaluation.full_memory import read_with_full_memory
from memjax.evaluation.loading import open_run
from memjax.evaluation.results import protocol_of, provenance_of, write_result
from memjax.report.compression_figure import draw_compression


def analyze_compression(
    workdir: epath.PathLike,
    data_dir: epath.PathLike,
    config: config_dict.ConfigDict,
    split: str,
    step: int | str | None = None,
    sequences: int = 2_000,
) -> dict[str, Any]:
    """Averages the loss that the run's compressors have, by layer.

    Writes `WORKDIR/eval/compression_SPLIT.json`, a figure of that name, and prints a table.

    Args:
      workdir: of a run of compressive with a compression loss.
      data_dir: where prepared corpora are.
      config: the run's, with overrides in `eval`.
      split: train | validation | test.
      step: as for `evaluate_run`.
      sequences: to average over, at least, if the split has them.

    Returns:
      Provenance, `protocol`, `seconds`, `sequences` (with full memory), `compression`, `loss` (which) and `reduction`
      (as in the config), and `loss_by_layer`, the first layer first; a mean over levels where there are several.

    Raises:
      UserError: as for `evaluate_run`; a model that does not compress, or has no loss for it; a text too short.
    """
    model = evaluation_config(config).model
    if model.name != 'compressive':
        raise ConfigError(f'model.name={model.name} compresses nothing: a compression loss is of compressive')
    if model.compression_loss == 'none':
        raise ConfigError('model.compression_loss=none: this run has no compression loss to show')
    run, corpus = open_run(workdir, data_dir, config, step)
    shown = read_with_full_memory(config, run.params, corpus.splits[split], sequences, attention=False)
    result = provenance_of(run, corpus, split) | {
        'protocol': protocol_of(config) | {'warmup': 0},
        'seconds': shown.seconds,
        'sequences': shown.sequences,
        'compression': model.compression,
        'loss': model.compression_loss,
        'reduction': model.compression_loss_reduction,
        'loss_by_layer': shown.losses['compression_loss'].tolist(),
    }
    path = write_result(workdir, f'compression_{split}', result, draw_compression)
    print(f'{result["config"]}, {split} of {corpus.name}: {result["loss"]} loss over {shown.sequences:,} sequences')
    for layer, loss in enumerate(result['loss_by_layer'], start=1):
        print(f'layer {layer:>3}  {loss:.4e}')
    print(path)
    return result
