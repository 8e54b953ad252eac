"""What each experiment of the tables costs by plan, kept in a file so that a report needs no JAX."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Callable
from typing import Any

from ml_collections import config_dict

from memjax import atomic
from memjax.errors import UserError
from memjax.report.experiments import SCALES, Experiment, settings
from memjax.report.tables import TABLES

FILE = 'plans.json'
MADE_BY = 'python launch/report.py --plans'


@dataclasses.dataclass(frozen=True)
class Plan:
    """What one training takes.

    Attributes:
      parameters: of the model.
      train_tokens: that are read, at most (rows that wait for a document's end read fewer).
      train_flops: of all steps, forward and backward.
      settings: which config it was made of (see `fingerprint`).
    """

    parameters: int
    train_tokens: int
    train_flops: int
    settings: str


def make(experiment: Experiment, plan: Callable[[config_dict.ConfigDict], dict[str, Any]]) -> Plan:
    """The plan of an experiment.

    Args:
      experiment: of a table.
      plan: `memjax.evaluation.plan.plan`.
    """
    config = experiment.load()
    costs = plan(config)
    tokens = tokens_a_step(config) * config.training.num_steps
    return Plan(costs['parameters'], tokens, costs['training_flops_per_token'] * tokens, fingerprint(experiment))


def fingerprint(experiment: Experiment) -> str:
    """16 hex digits of all that the experiment sets; a new field at its default leaves them as they are."""
    text = json.dumps(settings(experiment.load()), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def tokens_a_step(config: config_dict.ConfigDict) -> int:
    """How many tokens a training step reads."""
    return config.data.batch_size * config.data.segment_length * config.training.segments_per_step


def experiments() -> list[Experiment]:
    """Every experiment of every table, once."""
    return list(
        dict.fromkeys(
            experiment
            for table in TABLES.values()
            for row in table.rows
            for scale in SCALES
            if (experiment := row.experiment(scale)) is not None
        )
    )


def read(results_dir: pathlib.Path) -> dict[str, Plan]:
    """Name of a run -> its plan; empty if there is no file yet.

    Raises:
      UserError: the file is not what `write` makes.
    """
    path = results_dir / FILE
    if not path.exists():
        return {}
    try:
        return {name: Plan(**fields) for name, fields in json.loads(path.read_bytes())['plans'].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f'{path} is damaged: {MADE_BY} makes it anew') from error


def write(results_dir: pathlib.Path, plan: Callable[[config_dict.ConfigDict], dict[str, Any]]) -> pathlib.Path:
    """Plans every experiment whose config is not the one that it was planned with, and writes all to the file.

    Args:
      results_dir: where the file is.
      plan: `memjax.evaluation.plan.plan`.

    Returns:
      The path of the file.
    """
    known = read(results_dir)
    plans = {}
    for experiment in experiments():
        name = experiment.run_name
        if name in plans:
            continue
        old = known.get(name)
        fresh = old is not None and old.settings == fingerprint(experiment)
        plans[name] = old if fresh else make(experiment, plan)
        print(f'{name}: {"as before" if fresh else in_words(plans[name])}', flush=True)
    path = results_dir / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    fields = {name: dataclasses.asdict(plans[name]) for name in sorted(plans)}
    atomic.write_text(path, json.dumps({'made_by': MADE_BY, 'plans': fields}, indent=2) + '\n')
    return path


def in_words(plan: Plan) -> str:
    """Such as `277,231,820 parameters, 19.7 billion tokens, 2.41e19 FLOPs`."""
    return f'{plan.parameters:,} parameters, {tokens_in_words(plan.train_tokens)}, {flops_in_words(plan.train_flops)}'


def tokens_in_words(tokens: float) -> str:
    """Three digits and a unit."""
    for size, unit in ((1e9, 'billion '), (1e6, 'million ')):
        if tokens >= size:
            return f'{tokens / size:.3g} {unit}tokens' if tokens < 1000 * size else f'{tokens / size:,.0f} {unit}tokens'
    return f'{tokens:,.0f} tokens'


def flops_in_words(flops: float) -> str:
    """Three digits and an exponent."""
    mantissa, _, exponent = f'{flops:.2e}'.partition('e')
    return f'{mantissa}e{int(exponent)} FLOPs'
