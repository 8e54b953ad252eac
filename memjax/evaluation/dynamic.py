"""Naive dynamic evaluation: training on the text for one epoch while scoring it (Compressive Transformer, section 5.2).

The score of a segment is always taken before the update on it. There is one row, so that nothing is learned from before
all that precedes it has been scored. An update is training's, auxiliary losses and clips included, without dropout; the
memory that it leaves is of states, which the changed parameters project anew.
"""

from __future__ import annotations

import dataclasses
import math
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from etils import epath
from ml_collections import config_dict

from memjax.config import evaluation_config
from memjax.data.store import TokenSplit
from memjax.data.streams import EvaluationStream
from memjax.errors import ConfigError, TrainingError
from memjax.evaluation.beginning import beginning_of
from memjax.evaluation.likelihood import Scorer, as_read, read_all
from memjax.evaluation.loading import open_run
from memjax.evaluation.results import perplexity, result_of, write_result
from memjax.models.contract import Segment
from memjax.models.factory import build_model
from memjax.report.dynamic_figure import draw_dynamic
from memjax.training.optimizer import part_labels
from memjax.training.step import TrainState, empty_sums, init_state, make_step, scalar_names

OPTIMIZERS = ('adam', 'sgd')
_CURVE_POINTS = 50


def analyze_dynamic(
    workdir: epath.PathLike,
    data_dir: epath.PathLike,
    config: config_dict.ConfigDict,
    split: str,
    learning_rate: float,
    optimizer: str = 'adam',
    step: int | str | None = None,
    max_targets: int | None = None,
) -> dict[str, Any]:
    """Scores every target once, with parameters as they are and while they follow the text.

    Writes `WORKDIR/eval/dynamic_SPLIT.json`, a figure of that name, and prints a table. The run itself stays as it is.

    Args:
      workdir: of the run.
      data_dir: where prepared corpora are.
      config: the run's, with overrides in `eval`.
      split: train | validation | test.
      learning_rate: of each update, constant; to be chosen on validation.
      optimizer: `adam`, with the run's betas and epsilon and empty moments at the start, or `sgd`, without momentum.
      step: as for `evaluate_run`.
      max_targets: only the first so many; None: all.

    Returns:
      What a result file holds of the ordinary (static) evaluation with one row, `max_targets`, `optimizer`,
      `learning_rate`, `dynamic`: `nll_nats`, `token_perplexity`, `bpc` and `word_perplexity` (where the static ones
      are), `updates`, `seconds`; and `curve`: nats a target of the first `targets` ones, `static` and `dynamic`.

    Raises:
      UserError: as for `evaluate_run`; windows, which leave nothing to carry; a loss that is not finite.
    """
    if optimizer not in OPTIMIZERS:
        raise ConfigError(f'optimizer={optimizer!r} is none of {", ".join(OPTIMIZERS)}')
    if not learning_rate >= 0:
        raise ConfigError(f'learning_rate={learning_rate} must not be negative')
    if config.eval.window_stride is not None:
        raise ConfigError(f'eval.window_stride={config.eval.window_stride}: dynamic evaluation reads segments')
    config = config.copy_and_resolve_references()
    config.eval.batch_size = 1
    run, corpus = open_run(workdir, data_dir, config, step)
    text = beginning_of(corpus.splits[split], max_targets)
    score = Scorer(config).score(run.params, text, keep_tokens=True)
    result = result_of(run, corpus, split, score, config)
    dynamic = score_while_training(config, run.params, text, make_rule(config.training, optimizer, learning_rate))
    nats, seconds = sum(dynamic.nll.tolist()), dynamic.seconds
    result['dynamic'] = {'nll_nats': nats, 'token_perplexity': perplexity(nats, score.scored)}
    if 'bpc' in result:
        result['dynamic']['bpc'] = nats / score.scored / math.log(2)
    if 'words' in result:
        result['dynamic']['word_perplexity'] = perplexity(nats, result['words'])
    result['dynamic'] |= {'updates': len(dynamic.nll), 'seconds': seconds}
    result |= {
        'max_targets': max_targets,
        'optimizer': optimizer,
        'learning_rate': learning_rate,
        'curve': _curve(score.per_token, dynamic),
    }
    path = write_result(workdir, f'dynamic_{split}', result, draw_dynamic)
    print(_table(result))
    print(path)
    return result


@dataclasses.dataclass(frozen=True)
class Dynamic:
    """Losses of a text's segments, each before the update on it.

    Attributes:
      nll: float64 [segments], nats of each, summed over its targets.
      targets: int64 [segments].
      params: what the parameters became.
      seconds: wall time, compilation included.
    """

    nll: np.ndarray
    targets: np.ndarray
    params: Any
    seconds: float


def make_rule(training: config_dict.ConfigDict, optimizer: str, learning_rate: float) -> optax.GradientTransformation:
    """The optimizer of `analyze_dynamic`, with the run's clips for the model and for its compressor."""

    def part(clip: float) -> optax.GradientTransformation:
        rule = optax.sgd(learning_rate)
        if optimizer == 'adam':
            rule = optax.adam(learning_rate, training.adam_b1, training.adam_b2, training.adam_eps)
        return optax.chain(optax.clip_by_global_norm(clip), rule)

    parts = {'model': part(training.gradient_clip), 'compressor': part(training.compression_gradient_clip)}
    return optax.partition(parts, part_labels)


def score_while_training(
    config: config_dict.ConfigDict, params: Any, split: TokenSplit, rule: optax.GradientTransformation
) -> Dynamic:
    """Reads a text in one row, with an update after each segment.

    Args:
      config: a whole config; lengths as `eval` asks for.
      params: to begin with; they are left as they are.
      split: the text.
      rule: makes an update of a gradient.

    Raises:
      TrainingError: a loss is not finite.
    """
    began = time.monotonic()
    used = evaluation_config(config)
    used.model.update(dropout_rate=0.0, attention_dropout_rate=0.0)
    model = build_model(used.model)
    stream = EvaluationStream(split, 1, used.data.segment_length, 0)
    names = scalar_names(model, params, _batch(as_read(next(iter(stream)))))
    train = make_step(model, rule, seed=0)

    def read(_: None, segment: Segment, state: TrainState) -> tuple[jax.Array, TrainState]:
        state = train(state.replace(sums=empty_sums(names)), _batch(segment))
        return state.sums.nll, state

    # A copy, for the state is donated.
    state = init_state(model, rule, jax.tree.map(jnp.copy, params), 1, names)
    read, states = jax.jit(read, donate_argnums=2), [state]

    def read_and_keep(_: None, segment: Segment, state: TrainState) -> tuple[jax.Array, TrainState]:
        nll, states[0] = read(None, segment, state)
        return nll, states[0]

    nll, targets = [], []
    for segment, found in read_all(read_and_keep, None, state, stream):
        nll.append(float(found))
        targets.append(int(segment.weights_BxT.sum()))
        if not math.isfinite(nll[-1]):
            raise TrainingError(f'the loss is not finite after {sum(targets):,} targets: lower the learning rate')
    return Dynamic(np.array(nll), np.array(targets), states[0].params, time.monotonic() - began)


def _batch(segment: Segment) -> Segment:
    """A training step's batch of one segment."""
    return jax.tree.map(lambda array: array[None], segment)


def _curve(static: np.ndarray, dynamic: Dynamic) -> list[dict[str, Any]]:
    """Nats a target of the text so far, at up to 50 places."""
    ends = np.cumsum(dynamic.targets)
    places = np.unique(np.linspace(0, len(ends) - 1, min(len(ends), _CURVE_POINTS)).round().astype(int))
    static_sums, dynamic_sums = np.cumsum(static, dtype=np.float64), np.cumsum(dynamic.nll)
    return [
        {
            'targets': int(ends[place]),
            'static': float(static_sums[ends[place] - 1] / ends[place]),
            'dynamic': float(dynamic_sums[place] / ends[place]),
        }
        for place in places
    ]


def _table(result: dict[str, Any]) -> str:
    dynamic = result['dynamic']
    lines = [
        f'{result["config"]}, {result["split"]} of {result["dataset"]}: {result["scored"]:,} targets, '
        f'{dynamic["updates"]:,} updates of {result["optimizer"]} at {result["learning_rate"]:g}',
        f'{"":<18}{"static":>12}{"dynamic":>12}',
    ]
    for name in ('token_perplexity', 'bpc', 'word_perplexity'):
        if result.get(name) is not None and dynamic.get(name) is not None:
            lines.append(f'{name.replace("_", " "):<18}{result[name]:>12,.4f}{dynamic[name]:>12,.4f}')
    return '\n'.join(lines)
