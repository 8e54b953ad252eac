"""Result files, which state everything a reader needs to trust a figure."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import jax
from etils import epath
from ml_collections import config_dict

from memjax import atomic
from memjax.config import evaluation_config
from memjax.data.store import Corpus, TokenSplit
from memjax.data.tokenizers import CHARACTER_CONVENTIONS
from memjax.evaluation.likelihood import Score
from memjax.evaluation.loading import Run
from memjax.runs.workdir import writing
from memjax.version import code_version


def provenance_of(run: Run, corpus: Corpus, split_name: str) -> dict[str, Any]:
    """Which run, of which code, was measured on what: the part of a result file that no measure changes."""
    provenance = {
        'config': run.config.name,
        'commit': code_version(),
        'seed': run.config.training.seed,
        'step': run.step,
        'parameters': sum(leaf.size for leaf in jax.tree.leaves(run.params)),
        'train_tokens': run.host['tokens'],
        'train_seconds': run.host['seconds'],
        'dataset': corpus.name,
        'convention': corpus.convention,
        'split': split_name,
    }
    if corpus.documents is not None:
        provenance['documents'] = corpus.documents
    notes = {name: corpus.splits[name].note for name in ('train', split_name)}
    if any(notes.values()):
        provenance['texts'] = notes
    return provenance


def result_of(
    run: Run, corpus: Corpus, split_name: str, score: Score, config: config_dict.ConfigDict
) -> dict[str, Any]:
    """What a result file holds about one score of a run (see `evaluate_run`), made with that config."""
    split = corpus.splits[split_name]
    result = provenance_of(run, corpus, split_name) | {
        'targets': split.num_targets,
        'scored': score.scored,
        'nll_nats': score.nll_nats,
        'token_perplexity': math.exp(score.loss),
        'protocol': {**protocol_of(config), 'warmup': score.warmup},
        'seconds': score.seconds,
    }
    if corpus.convention in CHARACTER_CONVENTIONS:
        result['bpc'] = score.loss / math.log(2)
    return result | (_by_words(corpus.convention, split, score) if score.scored == split.num_targets else {})


def _by_words(convention: str, split: TokenSplit, score: Score) -> dict[str, Any]:
    """Perplexity by words, with what a word is.

    Where words are the symbols, it is that of the symbols, <eos> among them, as it is published for WikiText-103. Of
    other symbols the whole loss is divided by the words of the text, also by those without a prediction.
    """
    if convention == 'words':
        words, unit = score.scored, 'words and line ends, those scored'
    elif split.words:
        words, unit = split.words, split.word_unit
    else:
        return {}
    return {'words': words, 'word_unit': unit, 'word_perplexity': perplexity(score.nll_nats, words)}


def protocol_of(config: config_dict.ConfigDict) -> dict[str, Any]:
    """How evaluation with a config reads a text, as far as the config's model has what it names."""
    used = evaluation_config(config)
    model = used.model
    protocol = {'segment_length': used.data.segment_length}
    if model.name != 'lstm':
        protocol |= {name: model[name] for name in ('memory_length', 'clamp_length', 'same_length')}
    if model.name == 'compressive':
        protocol['compressed_memory_length'] = model.compressed_memory_length
        if model.higher_memory_lengths:
            protocol['higher_memory_lengths'] = list(model.higher_memory_lengths)
    if model.name == 'rmt':
        protocol['num_memory_tokens'] = model.num_memory_tokens
    return protocol | {'window_stride': config.eval.window_stride, 'rows': used.data.batch_size}


def result_path(workdir: epath.PathLike, name: str) -> epath.Path:
    """Where `write_result` puts the result of that name."""
    return epath.Path(workdir) / 'eval' / f'{name}.json'


def write_result(
    workdir: epath.PathLike,
    name: str,
    result: dict[str, Any],
    draw: Callable[[dict[str, Any], epath.Path], None] | None = None,
) -> epath.Path:
    """Writes `WORKDIR/eval/NAME.json`, replaced if it exists, and a figure of the same name.

    Args:
      workdir: of the run.
      name: of the file.
      result: JSON.
      draw: (result, path of the .png) -> None; None: no figure.

    Returns:
      The path of the JSON file.

    Raises:
      WorkdirError: it cannot be written.
    """
    path = result_path(workdir, name)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_text(path, json.dumps(result, indent=2) + '\n')
        if draw is not None:
            draw(result, path.with_suffix('.png'))
    return path


def perplexity(nll_nats: float, count: float) -> float | None:
    """exp(nats / count); None beyond any float, where the words of a model of bytes may lead, and for a count of 0."""
    return math.exp(nll_nats / count) if count and nll_nats / count < 700 else None
