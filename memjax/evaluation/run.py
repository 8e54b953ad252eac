"""Evaluation of a run on a split, and the result file that states everything a reader needs to trust it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from etils import epath
from ml_collections import config_dict

from memjax import atomic
from memjax.config import evaluation_config
from memjax.data.prepare import open_corpus
from memjax.data.store import Corpus, TokenSplit
from memjax.data.tokenizers import CHARACTER_CONVENTIONS
from memjax.errors import ConfigError
from memjax.evaluation.compressors import compressed_bits_per_byte
from memjax.evaluation.likelihood import Score, Scorer
from memjax.evaluation.loading import Run, check_tokenizer, load_run
from memjax.runs.workdir import writing
from memjax.version import code_version

_CHUNK = 1 << 20


def evaluate_run(
    workdir: epath.PathLike,
    data_dir: epath.PathLike,
    config: config_dict.ConfigDict,
    split: str,
    step: int | str | None = None,
    per_token: epath.PathLike | None = None,
) -> dict[str, Any]:
    """Scores every target of a split once, writes `WORKDIR/eval/SPLIT.json` and prints it as a table.

    Args:
      workdir: of the run.
      data_dir: where prepared corpora are.
      config: the run's, with overrides in `eval`.
      split: train | validation | test.
      step: of a checkpoint; 'best'; None: the newest good one.
      per_token: also write `nll` (float32, nats of each target in the order of the text) to this .npz file.

    Returns:
      What the result file holds.

    Raises:
      UserError: no such run, checkpoint or corpus, or a file that cannot be written.
    """
    corpus = open_corpus(config.data, data_dir)
    check_vocabulary(config, corpus)
    run = load_run(workdir, step, config)
    check_tokenizer(run.host, corpus.tokenizer)
    score = Scorer(config).score(run.params, corpus.splits[split], keep_tokens=per_token is not None)
    result = result_of(run, corpus, split, score, config)
    if config.eval.compressors:
        text = corpus.splits[split]
        result['compressors'] = {name: compressed_bits_per_byte(name, _text(text)) for name in config.eval.compressors}
    if per_token is not None:
        with writing(per_token), epath.Path(per_token).open('wb') as file:
            np.savez(file, nll=score.per_token)
    path = epath.Path(workdir) / 'eval' / f'{split}.json'
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_text(path, json.dumps(result, indent=2) + '\n')
    print(_table(result))
    return result


def check_vocabulary(config: config_dict.ConfigDict, corpus: Corpus) -> None:
    """Refuses a corpus with more symbols than the model knows.

    Raises:
      ConfigError: it has.
    """
    if corpus.vocab_size > config.model.vocab_size:
        raise ConfigError(
            f'{corpus.name} ({corpus.convention}) has {corpus.vocab_size:,} symbols, more than '
            f'model.vocab_size={config.model.vocab_size:,}'
        )


def result_of(
    run: Run, corpus: Corpus, split_name: str, score: Score, config: config_dict.ConfigDict
) -> dict[str, Any]:
    """What a result file holds about one score of a run (see `evaluate_run`), made with that config."""
    split = corpus.splits[split_name]
    result = {
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
        'targets': score.targets,
        'scored': score.scored,
        'nll_nats': score.nll_nats,
        'token_perplexity': math.exp(score.loss),
        'protocol': {**protocol_of(config), 'warmup': score.warmup},
        'seconds': score.seconds,
    }
    if corpus.convention in CHARACTER_CONVENTIONS:
        result['bpc'] = score.loss / math.log(2)
    if corpus.documents is not None:
        result['documents'] = corpus.documents
    notes = {name: corpus.splits[name].note for name in ('train', split_name)}
    if any(notes.values()):
        result['texts'] = notes
    return result | _by_words(corpus.convention, split, score)


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
    # A model of bytes reaches word perplexities beyond any float.
    return {'words': words, 'word_unit': unit, 'word_perplexity': _exp(score.nll_nats / words) if words else None}


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


def _exp(exponent: float) -> float | None:
    return math.exp(exponent) if exponent < 700 else None


def _text(split: TokenSplit) -> Iterator[bytes]:
    """The bytes of a split whose symbols are bytes."""
    for begin in range(0, len(split.tokens), _CHUNK):
        yield split.tokens[begin : begin + _CHUNK].astype(np.uint8).tobytes()


def _table(result: dict[str, Any]) -> str:
    rows = {
        f'{result["config"]}, {result["split"]} of {result["dataset"]}': f'step {result["step"]:,}',
        **{f'text of {name}': note for name, note in result.get('texts', {}).items()},
        **({'memory cleared at each of': result['documents']} if 'documents' in result else {}),
        'targets scored': f'{result["scored"]:,} of {result["targets"]:,}',
        'token perplexity': f'{result["token_perplexity"]:.3f}',
    }
    if result.get('word_perplexity') is not None:
        rows['word perplexity'] = f'{result["word_perplexity"]:,.1f} ({result["words"]:,} {result["word_unit"]})'
    if 'bpc' in result:
        rows['bits per character'] = f'{result["bpc"]:.4f}'
    rows |= {f'{name}, bits per byte': f'{bits:.4f}' for name, bits in result.get('compressors', {}).items()}
    rows['parameters'] = f'{result["parameters"]:,}'
    rows['trained on'] = f'{result["train_tokens"]:,} tokens, {result["train_seconds"]:,.0f} s'
    protocol = result['protocol']
    rows['protocol'] = ', '.join(f'{name} {value}' for name, value in protocol.items())
    width = max(map(len, rows))
    return '\n'.join(f'{name:<{width}}  {value}' for name, value in rows.items())
