"""Relative effective context length: how much context a model makes use of, compared within a group of models.

Transformer-XL, section 4.4 and appendix C, Table 8. With l_i(c, t) the loss of model i at position t given the c tokens
before it, b(c, t) = min_i l_i(c, t), and T the positions in the top fraction r of b(c, .), the hard ones:

    f_i(c, c') = mean over T of min(b(c, t), l_i(c', t)),   gain = (exp f_i(c, c) - exp f_i(c, c')) / exp f_i(c, c)

From the smallest c on, c' being the next length: while the gain is at least 1 %, go on to c'; the RECL is the c where
it is less. A model is thus only asked to improve on what the best model of the group does with the shorter context.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from etils import epath
from ml_collections import config_dict

from memjax.config import evaluation_config
from memjax.data.store import Corpus, TokenSplit
from memjax.errors import ConfigError, DataError
from memjax.evaluation.likelihood import Scorer
from memjax.evaluation.loading import Run, open_run
from memjax.evaluation.results import protocol_of, provenance_of, write_result
from memjax.report.recl_figure import draw_recl
from memjax.runs import workdir as workdirs

_THRESHOLD = 0.01
_FRACTIONS = (0.1, 0.5, 1.0)


def recl(nll_MxCxP: np.ndarray, lengths: Sequence[int], fraction: float) -> list[dict[str, Any]]:
    """The relative effective context length of every model of a group.

    Args:
      nll_MxCxP: l_i(c, t), nats: models, context lengths, positions.
      lengths: the context lengths in ascending order, at least two.
      fraction: r, the share of positions, the hardest for the best of the group, that count; at least one does.

    Returns:
      Of each model `recl`, `is_bound` (the last length still paid, so that the RECL is at least that), and `gains`: for
      each step that was made or refused, `from`, `to` and the relative `gain`.
    """
    best_CxP = nll_MxCxP.min(axis=0)
    found = []
    for nll_CxP in nll_MxCxP:
        gains, reached = [], 0
        while reached + 1 < len(lengths):
            best_P = best_CxP[reached]
            count = max(1, round(fraction * len(best_P)))
            hard = np.argsort(-best_P, kind='stable')[:count]
            here, there = (np.minimum(best_P, nll_CxP[at])[hard].mean() for at in (reached, reached + 1))
            gain = float(-np.expm1(there - here))
            gains.append({'from': lengths[reached], 'to': lengths[reached + 1], 'gain': gain})
            if gain < _THRESHOLD:
                break
            reached += 1
        found.append({'recl': lengths[reached], 'is_bound': reached + 1 == len(lengths), 'gains': gains})
    return found


def measure_recl(
    workdirs_of_group: Sequence[epath.PathLike],
    data_dir: epath.PathLike,
    split: str,
    lengths: Sequence[int],
    samples: int = 1024,
    seed: int = 0,
) -> dict[str, Any]:
    """Measures a group of runs on the same positions; prints a table.

    Writes `eval/recl_SPLIT.json` and a figure of that name into the first run's workdir.

    Args:
      workdirs_of_group: at least two runs on the same corpus, as they are evaluated.
      data_dir: where prepared corpora are.
      split: train | validation | test.
      lengths: of the context, in tokens, evenly spaced in the paper (100 apart).
      samples: positions; rounded up to whole batches of every run.
      seed: of the positions.

    Returns:
      `split`, `lengths`, `samples`, `sample_seed`, `threshold`, and `runs`: of each its `workdir` (the folder's
      name), provenance, `protocol`, `seconds`, `loss_by_length` (nats a target with each context length) and `recl`:
      fraction r -> what `recl` says.

    Raises:
      UserError: as for `evaluate_run`; fewer than two runs, or of different corpora; lengths that do not rise or exceed
        the documents.
    """
    if len(workdirs_of_group) < 2:
        raise ConfigError('the RECL is relative to a group: name at least two runs')
    if len(lengths) < 2 or sorted(set(lengths)) != list(lengths) or lengths[0] < 1:
        raise ConfigError(f'lengths={list(lengths)} must be at least two, rise, and begin at 1 or more')
    opened = [_open(workdir, data_dir) for workdir in workdirs_of_group]
    if len({corpus.fingerprint for _, corpus, _ in opened}) > 1:
        raise ConfigError('the runs are of different corpora or conventions: their losses cannot be compared')
    rows = [evaluation_config(config).data.batch_size for _, _, config in opened]
    text = opened[0][1].splits[split]
    positions = sample_positions(text, max(lengths), -(-samples // np.lcm.reduce(rows)) * np.lcm.reduce(rows), seed)
    nll_MxCxP, seconds = np.zeros((len(opened), len(lengths), len(positions))), []
    for model, (run, _, config) in enumerate(opened):
        began = time.monotonic()
        scorer = _scorer(config)
        for at, length in enumerate(lengths):
            nll_MxCxP[model, at] = losses_after(scorer, run, text, positions, length, config)
        seconds.append(time.monotonic() - began)
    by_fraction = {fraction: recl(nll_MxCxP, lengths, fraction) for fraction in _FRACTIONS}
    runs = [
        {'workdir': epath.Path(workdir).name}
        | provenance_of(run, corpus, split)
        | {
            'protocol': protocol_of(config),
            'seconds': seconds[model],
            'loss_by_length': nll_MxCxP[model].mean(axis=1).tolist(),
            'recl': {str(fraction): each[model] for fraction, each in by_fraction.items()},
        }
        for model, (workdir, (run, corpus, config)) in enumerate(zip(workdirs_of_group, opened, strict=True))
    ]
    result = {
        'split': split,
        'lengths': list(lengths),
        'samples': len(positions),
        'sample_seed': seed,
        'threshold': _THRESHOLD,
        'runs': runs,
    }
    path = write_result(workdirs_of_group[0], f'recl_{split}', result, draw_recl)
    print(_table(result))
    print(path)
    return result


def sample_positions(split: TokenSplit, context: int, count: int, seed: int) -> np.ndarray:
    """Indices into a split's tokens, int64, sorted, of different targets with so much context in their documents.

    Raises:
      DataError: there are fewer.
    """
    lengths = np.diff(split.document_offsets)
    places = [
        np.arange(begin + context, begin + length)
        for begin, length in zip(split.document_offsets[:-1], lengths, strict=True)
        if length > context
    ]
    total = sum(map(len, places))
    if total < count:
        raise DataError(f'{total:,} positions have {context:,} tokens before them, fewer than the {count:,} wanted')
    return np.sort(np.random.default_rng(seed).choice(np.concatenate(places), count, replace=False))


def losses_after(
    scorer: Scorer, run: Run, split: TokenSplit, positions: np.ndarray, length: int, config: config_dict.ConfigDict
) -> np.ndarray:
    """Nats of the tokens at some positions, given exactly the `length` tokens before each: l(c, .), float64.

    These tokens are read as a document of their own, with an empty memory at its beginning, in segments as in
    evaluation: all that memory holds is of them. A model with memory reads them all, and its memory's lengths decide
    what is left of them; one without reads as many as one segment has, the last ones, however many there are.
    """
    used = evaluation_config(config)
    if used.model.name == 'transformer_xl' and not used.model.memory_length:
        length = min(length, used.data.segment_length)
    windows_PxN = split.tokens[positions[:, None] + np.arange(-length, 1)]
    offsets = np.arange(len(positions) + 1) * (length + 1)
    text = TokenSplit(windows_PxN.reshape(-1), offsets, words=None, num_bytes=0)
    # Rows divide the positions, so that none begins within a document.
    return scorer.score(run.params, text, keep_tokens=True).per_token.reshape(-1, length)[:, -1].astype(np.float64)


def _open(workdir: epath.PathLike, data_dir: epath.PathLike) -> tuple[Run, Corpus, config_dict.ConfigDict]:
    config = workdirs.read_config(workdir)
    return *open_run(workdir, data_dir, config), config


def _scorer(config: config_dict.ConfigDict) -> Scorer:
    """For documents that rows read whole."""
    config = config.copy_and_resolve_references()
    config.eval.warmup, config.eval.window_stride = 0, None
    return Scorer(config)


def _table(result: dict[str, Any]) -> str:
    width = max(len(run['config']) for run in result['runs'])
    lines = [f'RECL on {result["samples"]:,} positions of {result["split"]}, of {result["lengths"]} tokens of context']
    lines.append(' ' * width + ''.join(f'{f"r = {fraction}":>10}' for fraction in _FRACTIONS))
    for run in result['runs']:
        found = [run['recl'][str(fraction)] for fraction in _FRACTIONS]
        cells = [f'{">= " if each["is_bound"] else ""}{each["recl"]:,}' for each in found]
        lines.append(f'{run["config"]:<{width}}' + ''.join(f'{cell:>10}' for cell in cells))
    return '\n'.join(lines)
