"""The needle probe: how often a model recalls a value that it read some distance ago (see `memjax.data.needle`)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from etils import epath
from ml_collections import config_dict

from memjax.config import evaluation_config
from memjax.data import needle
from memjax.data.store import TokenSplit
from memjax.errors import ConfigError
from memjax.evaluation.likelihood import Scorer
from memjax.evaluation.loading import open_run
from memjax.evaluation.results import result_of, write_result
from memjax.models.factory import build_model
from memjax.report.needle_figure import draw_needle

# Bins of distances: half-octaves.
_BINS_AN_OCTAVE = 2


def probe_run(
    workdir: epath.PathLike,
    data_dir: epath.PathLike,
    config: config_dict.ConfigDict,
    split: str,
    step: int | str | None = None,
) -> dict[str, Any]:
    """Asks all questions of a split; writes `WORKDIR/eval/needle_SPLIT.json` and a figure of that name, prints a table.

    Args:
      workdir: of a run on the corpus `needle`.
      data_dir: where prepared corpora are.
      config: the run's, with overrides in `eval`.
      split: train | validation | test.
      step: as for `evaluate_run`.

    Returns:
      What a result file holds, `temporal_range` (None: without a bound), `accuracy`, `guess` (what one at random gets
      right), and `bins`: for each `from` and `to` (of the distance, the second not included) the number of
      `questions` and the share that was answered, `accuracy`.

    Raises:
      UserError: as for `evaluate_run`, or the run is of another corpus.
    """
    if config.data.name != 'needle':
        raise ConfigError(f'data.name={config.data.name}: the probe is of runs on data.name=needle')
    reach = build_model(evaluation_config(config).model).core.temporal_range
    if config.eval.warmup is None and reach is not None:
        # A question right after a row's begin must not find less than the model can reach.
        config = config.copy_and_resolve_references()
        config.eval.warmup = reach
    run, corpus = open_run(workdir, data_dir, config, step)
    score = Scorer(config, likeliest=True).score(run.params, corpus.splits[split], keep_tokens=True)
    distances, answered = _answers(corpus.splits[split], score.is_likeliest)
    result = result_of(run, corpus, split, score, config)
    result |= {
        'temporal_range': reach,
        'accuracy': float(answered.mean()),
        'guess': 1 / needle.NUM_VALUES,
        'bins': _binned(distances, answered),
    }
    write_result(workdir, f'needle_{split}', result, draw_needle)
    for each in result['bins']:
        print(f'distance {each["from"]:>5,} to {each["to"] - 1:>5,}  {each["accuracy"]:.3f} of {each["questions"]:,}')
    return result


def _answers(split: TokenSplit, is_likeliest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distances of all questions, and whether the value asked for was the likeliest symbol."""
    distances, answered, first_target = [], [], 0
    for begin, end in zip(split.document_offsets[:-1].tolist(), split.document_offsets[1:].tolist(), strict=True):
        text = split.tokens[begin:end].astype(np.uint8).tobytes()
        for question in needle.questions(text):
            distances.append(question.distance)
            # A document's first symbol is no target.
            answered.append(is_likeliest[first_target + question.place - 1])
        first_target += max(end - begin - 1, 0)
    return np.array(distances), np.array(answered, bool)


def _binned(distances: np.ndarray, answered: np.ndarray) -> list[dict[str, Any]]:
    octaves = math.log2(needle.LARGEST_DISTANCE / needle.SMALLEST_DISTANCE)
    powers = np.arange(round(octaves * _BINS_AN_OCTAVE) + 1) / _BINS_AN_OCTAVE
    edges = np.ceil(needle.SMALLEST_DISTANCE * 2**powers).astype(int)
    edges[-1] += 1
    bins = []
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        inside = (distances >= low) & (distances < high)
        if inside.any():
            accuracy = float(answered[inside].mean())
            bins.append({'from': low, 'to': high, 'questions': int(inside.sum()), 'accuracy': accuracy})
    return bins
