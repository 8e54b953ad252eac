"""The committed result files: read, checked, and compared with the experiment that a table wants.

`results/runs/NAME-SEED-SPLIT.json` is what `launch/eval.py` wrote of a run, `NAME-SEED-needle_SPLIT.json` and
`NAME-SEED-sweep_FIELD_SPLIT.json` what `launch/needle.py` and `launch/sweep.py` did; analyses are read by
`memjax.report.analyses`. A file of any other ending is listed, and nothing is read from it. Fields that are not named
here may be there or not.
"""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
import re
from collections.abc import Iterator
from typing import Any

from ml_collections import config_dict

from memjax import config as config_lib
from memjax.config import evaluation_config
from memjax.config_checks import SPLITS
from memjax.errors import ConfigError, UserError
from memjax.report.experiments import MEASURES, Experiment, swept_field

RUNS = 'runs'

_NUMBERS = ('step', 'parameters', 'train_tokens', 'targets', 'scored', 'nll_nats')
_WORDS = ('config', 'dataset', 'convention', 'split')
# What of `protocol` makes a figure another one; how many rows were read at once does not.
_PROTOCOL = ('segment_length', 'memory_length', 'compressed_memory_length', 'clamp_length', 'same_length')
_NAME = re.compile(r'(?P<name>.+)-(?P<seed>\d+)-(?P<kind>\w+)\.json')


@dataclasses.dataclass(frozen=True)
class ResultFile:
    """One file.

    Attributes:
      path: of the file.
      name: of the run.
      seed: of the run.
      kind: what the file's name ends with.
      data: what it holds.
      scores: what was scored: one, or one for each value of a sweep; none in a file of another kind.
    """

    path: pathlib.Path
    name: str
    seed: int
    kind: str
    data: dict[str, Any]
    scores: tuple[dict[str, Any], ...]

    @property
    def swept(self) -> str | None:
        """The field that a sweep changed."""
        return swept_field(self.kind)

    def score_at(self, value: int | None) -> dict[str, Any] | None:
        """What was scored, at a value of the field that is swept."""
        if self.swept is None:
            return self.scores[0] if self.scores else None
        return next((score for score in self.scores if score[self.swept] == value), None)


def read_all(results_dir: pathlib.Path) -> list[ResultFile]:
    """All result files of `results_dir/runs`, in the order of run, seed and kind.

    Raises:
      UserError: a file is not JSON, lacks a field, or has another's name.
    """
    files = [read(path) for path in sorted((results_dir / RUNS).glob('*.json'))]
    return sorted(files, key=lambda file: (file.name, file.seed, file.kind))


def read(path: pathlib.Path, name: str | None = None) -> ResultFile:
    """One result file.

    Args:
      path: of the file.
      name: what it is called among the results; None: as it is.

    Raises:
      UserError: as for `read_all`.
      OSError: it cannot be read.
    """
    match = _NAME.fullmatch(name or path.name)
    if match is None:
        raise UserError(f'{path}: the name of a result file is CONFIG-SEED-SPLIT.json')
    run, seed, kind = match['name'], int(match['seed']), match['kind']
    try:
        data = json.loads(path.read_bytes())
    except ValueError as error:
        raise UserError(f'{path} is not JSON: {error}') from error
    if not isinstance(data, dict):
        raise UserError(f'{path} is not an object of fields')
    file = ResultFile(path, run, seed, kind, data, tuple(_scores(path, kind, data)))
    for score in file.scores:
        _check(path, score, file.swept)
        found = f'{score["config"]}-{score["seed"]}'
        if found != f'{run}-{seed}' or not kind.endswith(score['split']):
            raise UserError(f'{path} holds {found}, {score["split"]}: its name says otherwise')
    return file


def difference(
    score: dict[str, Any],
    data: dict[str, Any],
    experiment: Experiment,
    swept: str | None,
    parameters: int | None = None,
) -> str | None:
    """Why a result is not of this experiment; None: it is.

    What is compared: steps, parameters, corpus, convention and the lengths of evaluation; and, where the file has
    `settings` (those that `launch/reproduce.py` collects do), every field that a resumed training may not change.

    Args:
      score: of a result file.
      data: the whole file.
      experiment: what it should be of.
      swept: the field of `eval` that the score has a value of.
      parameters: how many the experiment's model has; None: nobody has planned it.

    Raises:
      UserError: the experiment's config cannot be loaded.
    """
    config = experiment.load(score['seed'])
    if swept is not None:
        config.eval[swept] = score[swept]
    used = evaluation_config(config)
    wanted = {
        'step': config.training.num_steps,
        'dataset': config.data.name,
        'convention': config.data.convention,
    }
    if parameters is not None:
        wanted['parameters'] = parameters
    for name, value in wanted.items():
        if score[name] != value:
            return f'{name} {_shown(score[name])}, not {_shown(value)}'
    lengths = {'segment_length': used.data.segment_length} | {name: used.model[name] for name in _PROTOCOL[1:]}
    lengths['window_stride'] = config.eval.window_stride
    for name, value in lengths.items():
        if name in score['protocol'] and score['protocol'][name] != value:
            return f'{name} {_shown(score["protocol"][name])} in evaluation, not {_shown(value)}'
    return _difference_of_settings(data, config)


def measured(score: dict[str, Any], measure: str) -> float | None:
    """The score's figure, if it has one of this measure."""
    value = score.get(measure)
    return float(value) if value is not None else None


def _scores(path: pathlib.Path, kind: str, data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if swept_field(kind) is not None:
        scores = data.get('results')
        if not isinstance(scores, list) or not scores or not all(isinstance(score, dict) for score in scores):
            raise UserError(f'{path} lacks results: it should hold those of a sweep')
        yield from scores
    elif kind in SPLITS:
        yield data
    elif kind.startswith('needle_'):
        bins = data.get('bins')
        if not isinstance(bins, list) or not all(isinstance(each, dict) for each in bins):
            raise UserError(f'{path} lacks bins: it should hold those of the needle probe')
        for each in bins:
            _require(path, each, ('from', 'to', 'questions', 'accuracy'), _is_number, 'a number in bins')
        _require(path, data, ('accuracy',), _is_number, 'a number')
        yield data


def _check(path: pathlib.Path, score: dict[str, Any], swept: str | None) -> None:
    _require(path, score, _WORDS, lambda value: isinstance(value, str), 'a text')
    _require(path, score, ('seed', *([swept] if swept else [])), _is_whole, 'a whole number')
    _require(path, score, _NUMBERS, _is_number, 'a number')
    _require(path, score, ('protocol',), lambda value: isinstance(value, dict), 'an object')
    for name in MEASURES:
        if score.get(name) is not None:
            _require(path, score, (name,), _is_number, 'a number')
    _require(path, {'texts': {}} | score, ('texts',), lambda value: isinstance(value, dict), 'an object')
    compressors = score.get('compressors', {})
    if not isinstance(compressors, dict) or not all(map(_is_number, compressors.values())):
        raise UserError(f'{path}: compressors is not an object of numbers')


def _require(path: pathlib.Path, values: dict[str, Any], names, holds, what: str) -> None:
    for name in names:
        if name not in values:
            raise UserError(f'{path} lacks the field {name}')
        if not holds(values[name]):
            raise UserError(f'{path}: {name}={values[name]!r} is not {what}')


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _difference_of_settings(data: dict[str, Any], config: config_dict.ConfigDict) -> str | None:
    settings = data.get('settings')
    if settings is None:
        return None
    try:
        made_with = config_lib.from_json(json.dumps(_nested(settings)))
    except (ConfigError, AttributeError, TypeError) as error:
        return f'its settings cannot be read ({error})'
    differences = config_lib.differences_forbidden_on_resume(made_with, config)
    differences.pop('data.path', None)
    for name, (made, wanted) in differences.items():
        return f'{name} {_shown(made)}, not {_shown(wanted)}'
    return None


def _nested(fields: dict[str, Any]) -> dict[str, Any]:
    """`{'model.num_layers': 4}` as `{'model': {'num_layers': 4}}`."""
    nested: dict[str, Any] = {}
    for name, value in fields.items():
        *sections, field = name.split('.')
        place = nested
        for section in sections:
            place = place.setdefault(section, {})
        place[field] = value
    return nested


def _shown(value: Any) -> str:
    return f'{value:,}' if _is_whole(value) else str(value)
