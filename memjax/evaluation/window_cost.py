"""What it costs to move a window by a token instead of reusing segments (Transformer-XL, section 4.5 and Table 9).

One model, two ways to give every target an attention length: a window of so many tokens without memory, moved by one
token and read anew for each target (Al-Rfou et al., arXiv 1808.04444), and segments with a memory of so many slots.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from etils import epath
from ml_collections import config_dict

from memjax.config import evaluation_config
from memjax.config_checks import check
from memjax.data.store import TokenSplit
from memjax.errors import ConfigError, DataError
from memjax.evaluation.likelihood import SEGMENTS_A_CALL, Scorer
from memjax.evaluation.loading import open_run
from memjax.evaluation.results import protocol_of, provenance_of, write_result
from memjax.report.window_figure import draw_window


def analyze_window(
    workdir: epath.PathLike,
    data_dir: epath.PathLike,
    config: config_dict.ConfigDict,
    split: str,
    step: int | str | None = None,
    attention_lengths: Sequence[int] = (128, 256, 512),
    repeats: int = 5,
    calls: int = 8,
) -> dict[str, Any]:
    """Times both ways on the longest document's beginning, in turn, after a run of each that is not timed.

    Writes `WORKDIR/eval/window_SPLIT.json`, a figure of that name, and prints a line for each length as it is known.
    Where there is a choice it favours the window: segments' queries attend to up to a segment more than its own do.

    Args:
      workdir: of a run of transformer_xl.
      data_dir: where prepared corpora are.
      config: the run's, with overrides in `eval`: the segments' length, and rows, the same for both ways.
      split: train | validation | test.
      step: as for `evaluate_run`.
      attention_lengths: tokens of a window, and slots of the memory that it is compared with.
      repeats: timed runs of each way.
      calls: segments, or windows, of each row in a run.

    Returns:
      Provenance, `device`, `rows`, `segment_length`, `repeats`, and `lengths`: `attention_length`, `window` and `reuse`
      (each with `protocol`, `seconds_per_token`, the median, and `runs`, all of them), and `ratio`, of the medians.

    Raises:
      UserError: as for `evaluate_run`; another model; lengths that cannot work; no document that is long enough.
    """
    model = evaluation_config(config).model
    if model.name != 'transformer_xl':
        raise ConfigError(f'model.name={model.name}: windows are compared with segments for transformer_xl alone')
    if min(repeats, calls) < 1 or not attention_lengths:
        raise ConfigError('there is nothing to time: repeats, calls and lengths must be at least 1')
    if calls % SEGMENTS_A_CALL:
        raise ConfigError(f'calls={calls} must be a multiple of {SEGMENTS_A_CALL}, which evaluation reads in a call')
    ways = {length: _ways(config, length) for length in attention_lengths}
    run, corpus = open_run(workdir, data_dir, config, step)
    used, text = evaluation_config(config), _longest_document(corpus.splits[split])
    rows, segment_length = used.data.batch_size, used.data.segment_length
    result = provenance_of(run, corpus, split) | {
        'device': jax.devices()[0].device_kind,
        'rows': rows,
        'segment_length': segment_length,
        'repeats': repeats,
        'lengths': [],
    }
    for length, configs in ways.items():
        # A document of so many targets is so many windows, or segments, of each row: none is idle.
        targets = {'window': length - 1 + rows * calls, 'reuse': rows * segment_length * calls}
        # Of the first window's targets only one is counted: it is what every further window costs.
        counted = {'window': rows * calls, 'reuse': rows * segment_length * calls}
        texts = {way: _cut(text, count) for way, count in targets.items()}
        scorers = {way: Scorer(each) for way, each in configs.items()}
        runs: dict[str, list[float]] = {way: [] for way in configs}
        for turn in range(repeats + 1):
            for way, scorer in scorers.items():
                score = scorer.score(run.params, texts[way])
                if turn:  # the first one compiles
                    runs[way].append(score.seconds / counted[way])
        found: dict[str, Any] = {'attention_length': length}
        for way, seconds in runs.items():
            median = statistics.median(seconds)
            found[way] = {'protocol': protocol_of(configs[way]), 'seconds_per_token': median, 'runs': seconds}
        found['ratio'] = found['window']['seconds_per_token'] / found['reuse']['seconds_per_token']
        result['lengths'].append(found)
        print(
            f'attention length {length:>6,}  window {1e6 * found["window"]["seconds_per_token"]:>10,.1f} us a token, '
            f'reuse {1e6 * found["reuse"]["seconds_per_token"]:>8,.2f}: {found["ratio"]:,.1f} times',
            flush=True,
        )
    print(write_result(workdir, f'window_{split}', result, draw_window))
    return result


def _ways(config: config_dict.ConfigDict, length: int) -> dict[str, config_dict.ConfigDict]:
    """The config of each way of giving targets so many tokens to attend to."""
    window, reuse = config.copy_and_resolve_references(), config.copy_and_resolve_references()
    window.eval.update(memory_length=0, segment_length=length, window_stride=1, same_length=False)
    window.eval.warmup = None
    # Rows begin at once: the time is what a token takes, not what a beginning takes.
    reuse.eval.update(memory_length=length, warmup=0)
    reuse.eval.window_stride = None
    for each in (window, reuse):
        check(each)
    return {'window': window, 'reuse': reuse}


def _longest_document(split: TokenSplit) -> np.ndarray:
    lengths = np.diff(split.document_offsets)
    begin = int(split.document_offsets[lengths.argmax()])
    return split.tokens[begin : begin + int(lengths.max())]


def _cut(tokens: np.ndarray, targets: int) -> TokenSplit:
    """One document of so many targets."""
    if len(tokens) <= targets:
        raise DataError(
            f'the longest document has {len(tokens):,} symbols and {targets + 1:,} are to be read: lower '
            f'eval.batch_size, the attention length or the number of calls'
        )
    return TokenSplit(tokens[: targets + 1], np.array([0, targets + 1]), words=None, num_bytes=targets + 1)
