"""Perplexity by how often a token occurs in training (Compressive Transformer, Table 7)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from etils import epath
from ml_collections import config_dict

from memjax.data.store import TokenSplit
from memjax.evaluation.beginning import beginning_of, target_tokens
from memjax.evaluation.likelihood import Scorer
from memjax.evaluation.loading import open_run
from memjax.evaluation.results import perplexity, result_of, write_result

# Name -> the least and the most occurrences in the training split.
BUCKETS = {'> 10K': (10_001, None), '1K-10K': (1_000, 10_000), '100-1K': (100, 999), '< 100': (0, 99)}
_CHUNK = 1 << 24


def analyze_frequency(
    workdir: epath.PathLike,
    data_dir: epath.PathLike,
    config: config_dict.ConfigDict,
    split: str,
    step: int | str | None = None,
    max_targets: int | None = None,
) -> dict[str, Any]:
    """Scores every target once; writes `WORKDIR/eval/frequency_SPLIT.json` and prints a table.

    Args:
      workdir: of the run.
      data_dir: where prepared corpora are.
      config: the run's, with overrides in `eval`.
      split: train | validation | test.
      step: as for `evaluate_run`.
      max_targets: only the first so many; None: all.

    Returns:
      What a result file holds, `max_targets`, `unit` (what is counted: `words` where a token is a word, as in the
      paper's table, else `tokens`) and `buckets`: `occurrences` (in the training split), `least` and `most` of them
      (None: no bound), `kinds` of token, `targets`, `nll_nats` and `perplexity` (None without a target).

    Raises:
      UserError: as for `evaluate_run`.
    """
    run, corpus = open_run(workdir, data_dir, config, step)
    text = beginning_of(corpus.splits[split], max_targets)
    score = Scorer(config).score(run.params, text, keep_tokens=True)
    counts_V = count_tokens(corpus.splits['train'], corpus.vocab_size)
    buckets = by_frequency(counts_V, target_tokens(text), score.per_token)
    result = result_of(run, corpus, split, score, config)
    unit = 'words' if corpus.convention == 'words' else 'tokens'
    result |= {'max_targets': max_targets, 'unit': unit, 'buckets': buckets}
    path = write_result(workdir, f'frequency_{split}', result)
    print(f'{result["config"]}, {split} of {corpus.name}: perplexity of {unit} by occurrences in training')
    for each in buckets:
        shown = '-' if each['perplexity'] is None else f'{each["perplexity"]:,.2f}'
        print(f'{each["occurrences"]:>7}{shown:>12}  {each["targets"]:,} targets of {each["kinds"]:,} kinds')
    print(path)
    return result


def count_tokens(split: TokenSplit, vocab_size: int) -> np.ndarray:
    """How often each token occurs in a split, int64 [vocabulary]."""
    counts_V = np.zeros(vocab_size, np.int64)
    for begin in range(0, len(split.tokens), _CHUNK):
        counts_V += np.bincount(split.tokens[begin : begin + _CHUNK], minlength=vocab_size)
    return counts_V


def by_frequency(counts_V: np.ndarray, targets: np.ndarray, nll: np.ndarray) -> list[dict[str, Any]]:
    """The buckets of `analyze_frequency`.

    Args:
      counts_V: how often each token occurs in training.
      targets: ids, in the order of the text.
      nll: nats of each.
    """
    buckets = []
    for name, (least, most) in BUCKETS.items():
        inside_V = (counts_V >= least) & (counts_V <= (math.inf if most is None else most))
        inside = inside_V[targets]
        nats, count = float(nll[inside].sum(dtype=np.float64)), int(inside.sum())
        buckets.append({
            'occurrences': name, 'least': least, 'most': most, 'kinds': len(np.unique(targets[inside])),
            'targets': count, 'nll_nats': nats, 'perplexity': perplexity(nats, count),
        })  # fmt: skip
    return buckets
