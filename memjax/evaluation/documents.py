"""Likelihood by document: perplexity of words and tokens and bits a character side by side, and how sure they are.

Perplexities of words divide by the words of the text (white space between them), whatever the tokens, so that models
of different vocabularies can be compared (Compressive Transformer, section 4.3 and Table 3).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from etils import epath
from ml_collections import config_dict

from memjax.data.corpora import WORDS_AND_LINE_ENDS
from memjax.data.store import Corpus, TokenSplit
from memjax.data.tokenizers import CHARACTER_CONVENTIONS
from memjax.data.word_count import WordCounter
from memjax.evaluation.beginning import beginning_of
from memjax.evaluation.likelihood import Scorer
from memjax.evaluation.loading import open_run
from memjax.evaluation.results import perplexity, result_of, write_result
from memjax.report.documents_figure import draw_documents

# The two ends of a 95 % interval.
_PERCENTILES = (2.5, 97.5)
# Measure -> what its nats are divided by.
_UNITS = {'token_perplexity': 'targets', 'word_perplexity': 'words', 'bpc': 'targets', 'bits_per_byte': 'bytes'}


def analyze_documents(
    workdir: epath.PathLike,
    data_dir: epath.PathLike,
    config: config_dict.ConfigDict,
    split: str,
    step: int | str | None = None,
    max_targets: int | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Any]:
    """Scores every target once; writes `WORKDIR/eval/documents_SPLIT.json`, a figure of that name, and prints a table.

    Args:
      workdir: of the run.
      data_dir: where prepared corpora are.
      config: the run's, with overrides in `eval`.
      split: train | validation | test.
      step: as for `evaluate_run`.
      max_targets: only the first so many; None: all.
      resamples: of the bootstrap over documents.
      seed: of the bootstrap.

    Returns:
      What a result file holds, of the documents scored, and `pooled` and each of `by_document`: `nll_nats`, `targets`,
      `words` and `bytes` (None where they are not defined), `token_perplexity`, `word_perplexity`, `bpc`,
      `bits_per_byte`; `intervals`: of each pooled measure the 95 % percentile interval (None for one document);
      `max_targets`; `words_factor`: published words to those counted in the documents, which are multiplied with it.

    Raises:
      UserError: as for `evaluate_run`.
    """
    run, corpus = open_run(workdir, data_dir, config, step)
    text = beginning_of(corpus.splits[split], max_targets)
    score = Scorer(config).score(run.params, text, keep_tokens=True)
    sums, words_factor = document_sums(corpus, corpus.splits[split], text, score.per_token)
    pooled = {name: None if values is None else values.sum().item() for name, values in sums.items()}
    score = dataclasses.replace(score, nll_nats=pooled['nll_nats'])
    intervals = bootstrap(sums, resamples, seed)
    by_character = corpus.convention in CHARACTER_CONVENTIONS
    result = result_of(run, corpus, split, score, config)
    each = [{name: None if values is None else values[d].item() for name, values in sums.items()}
            for d in range(text.num_documents)]  # fmt: skip
    result |= {
        'max_targets': max_targets,
        'resamples': resamples,
        'bootstrap_seed': seed,
        'words_factor': words_factor,
        'pooled': pooled | _measures(pooled, by_character),
        'intervals': {
            measure: None if intervals is None else [_value(measure, rate) for rate in intervals[unit]]
            for measure, unit in _UNITS.items()
            if sums[unit] is not None and (by_character or measure != 'bpc')
        },
        'by_document': [document | _measures(document, by_character) for document in each],
    }
    path = write_result(workdir, f'documents_{split}', result, draw_documents)
    print(_table(result))
    print(path)
    return result


def document_sums(
    corpus: Corpus, whole: TokenSplit, text: TokenSplit, per_token: np.ndarray
) -> tuple[dict[str, np.ndarray | None], float | None]:
    """What a text's documents add up to.

    Args:
      corpus: that it is of.
      whole: the split.
      text: the split, or its beginning.
      per_token: nats of each target of the text, in its order.

    Returns:
      `nll_nats` (float64), `targets`, `words`, `bytes` by document, None where not defined (words without white space
      in the convention or without UTF-8, bytes where the tokens leave some out); and the factor that makes the words of
      a whole split those that were counted when it was prepared (None without words).
    """
    bounds = text.document_offsets
    targets_D = np.maximum(np.diff(bounds) - 1, 0)
    parts = np.split(per_token.astype(np.float64), np.cumsum(targets_D)[:-1])
    sums = {'nll_nats': np.array([part.sum() for part in parts]), 'targets': targets_D, 'words': None, 'bytes': None}
    has_words = whole.words is not None
    has_bytes = corpus.convention == 'bytes' or corpus.convention not in CHARACTER_CONVENTIONS
    if not (has_words or has_bytes):
        return sums, None
    words_D, bytes_D = np.zeros(len(targets_D), np.int64), np.zeros(len(targets_D), np.int64)
    for d, (begin, end) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)):
        decoded = corpus.tokenizer.decode(text.tokens[begin:end]).encode()
        # What is no UTF-8 is longer once it is decoded.
        bytes_D[d] = end - begin if corpus.convention == 'bytes' else len(decoded)
        if has_words:
            counter = WordCounter(line_ends=whole.word_unit.startswith(WORDS_AND_LINE_ENDS))
            counter.add(decoded)
            counter.end_document()
            words_D[d] = counter.words
    if has_bytes:
        sums['bytes'] = bytes_D
    if not has_words:
        return sums, None
    if corpus.convention == 'words':  # each is a symbol: as for the whole, those scored
        return sums | {'words': targets_D}, 1.0
    sums['words'], factor = words_D, 1.0
    if text is whole and words_D.sum() != whole.words:
        factor = whole.words / words_D.sum().item()
        sums['words'] = words_D * factor
    return sums, factor


def bootstrap(sums: dict[str, np.ndarray | None], resamples: int, seed: int) -> dict[str, tuple[float, float]] | None:
    """95 % percentile intervals of nats a target, a word and a byte, documents being drawn with replacement.

    Args:
      sums: by document, `nll_nats` and what it is divided by (see `document_sums`).
      resamples: how many times as many documents are drawn as there are.
      seed: of the draws.

    Returns:
      Unit -> lower and upper end; None for fewer than two documents, of which nothing can be said.
    """
    count = len(sums['nll_nats'])
    if count < 2:
        return None
    units = [unit for unit in ('targets', 'words', 'bytes') if sums[unit] is not None]
    generator = np.random.default_rng(seed)
    columns_DxU = np.stack([sums['nll_nats'], *(sums[unit] for unit in units)], axis=1)
    totals_RxU = np.stack([columns_DxU[generator.integers(0, count, count)].sum(axis=0) for _ in range(resamples)])
    counted_RxU = totals_RxU[:, 1:]
    with np.errstate(invalid='ignore', divide='ignore'):  # a draw of documents without a target says nothing
        rates_RxU = np.where(counted_RxU > 0, totals_RxU[:, :1] / counted_RxU, np.nan)
    ends = np.nanpercentile(rates_RxU, _PERCENTILES, axis=0)
    return {unit: (float(low), float(high)) for unit, low, high in zip(units, *ends, strict=True)}


def _measures(sums: dict[str, Any], by_character: bool) -> dict[str, float | None]:
    """Of nats and counts; None where the count is 0, and beyond any float."""
    measures = {}
    for measure, unit in _UNITS.items():
        if sums[unit] is not None and (by_character or measure != 'bpc'):
            measures[measure] = _value(measure, sums['nll_nats'] / sums[unit]) if sums[unit] else None
    return measures


def _value(measure: str, rate: float) -> float | None:
    """A measure of nats a unit."""
    return perplexity(rate, 1) if measure.endswith('perplexity') else rate / math.log(2)


def _table(result: dict[str, Any]) -> str:
    lines = [f'{result["config"]}, {result["split"]} of {result["dataset"]}: {len(result["by_document"]):,} documents']
    for measure, interval in result['intervals'].items():
        shown = [_shown(measure, value) for value in (result['pooled'][measure], *(interval or ()))]
        between = f'  95 % of resamples within {shown[1]} .. {shown[2]}' if interval else ''
        lines.append(f'{measure.replace("_", " "):<17}{shown[0]:>12}{between}')
    return '\n'.join(lines)


def _shown(measure: str, value: float | None) -> str:
    if value is None:
        return 'too large'
    return f'{value:,.2f}' if measure.endswith('perplexity') else f'{value:.4f}'
