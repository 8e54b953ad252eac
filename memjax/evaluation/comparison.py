"""Runs side by side at the same cost or the same reach, from their result files: quality, seconds, bytes of memory.

A Compressive Transformer attends to n_m + n_cm slots, which stand for n_m + c n_cm tokens: beside it belong a
Transformer-XL with as many slots (the same cost) and one with as many tokens (the same range).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from etils import epath
from ml_collections import config_dict

from memjax.config import evaluation_config
from memjax.errors import ConfigError, WorkdirError
from memjax.evaluation.plan import memory_state_bytes
from memjax.evaluation.results import write_result
from memjax.models.factory import build_model
from memjax.runs import workdir as workdirs

# Of `protocol`, what a result may have been made with instead of the run's own lengths.
_LENGTHS = ('segment_length', 'memory_length', 'compressed_memory_length')


def compare_runs(workdirs_of_group: Sequence[epath.PathLike], split: str) -> dict[str, Any]:
    """Lays the results of evaluation of several runs side by side, the first one being what they are compared with.

    Writes `eval/comparison_SPLIT.json` into the first run's workdir and prints a table.

    Args:
      workdirs_of_group: at least two runs on the same targets, each with `eval/SPLIT.json`.
      split: train | validation | test.

    Returns:
      `split` and `runs`, in the order given: the fields of its result file, `workdir` (the folder's name), and, at
      the lengths that the result was made with (`evaluation`) and those of training (`training`): `attended_slots` (of
      memory, the most of any layer), `span` (tokens that they stand for), `memory_state_bytes` (of one row);
      `training` also has `seconds` and `microseconds_per_token`, and so has `evaluation`. `beside`: what is equal to
      the first run's, of `cost` (attended slots) and `range` (span), in evaluation.

    Raises:
      UserError: fewer than two runs, no result, or results on different targets.
    """
    if len(workdirs_of_group) < 2:
        raise ConfigError('a comparison needs at least two runs')
    runs = [_described(workdir, split) for workdir in workdirs_of_group]
    for run in runs[1:]:
        for field in ('dataset', 'convention', 'targets'):
            if run[field] != runs[0][field]:
                raise ConfigError(
                    f'{run["workdir"]} has {field}={run[field]}, {runs[0]["workdir"]} {runs[0][field]}: not comparable'
                )
    for run in runs:
        fields = {'cost': 'attended_slots', 'range': 'span'}
        first, own = runs[0]['evaluation'], run['evaluation']
        # A memory without slots has neither.
        run['beside'] = [
            name for name, field in fields.items() if own[field] is not None and own[field] == first[field]
        ]
    result = {'split': split, 'runs': runs}
    path = write_result(workdirs_of_group[0], f'comparison_{split}', result)
    print(_table(result))
    print(path)
    return result


def memory_of(config: config_dict.ConfigDict) -> dict[str, int | None]:
    """Slots, tokens that they stand for (None for a memory without slots), and bytes of one row's memory."""
    model = build_model(config.model)
    has_slots = config.model.name in ('transformer_xl', 'compressive')
    return {
        'attended_slots': sum(model.core.memory_lengths) if has_slots else None,
        'span': model.core.span if has_slots else None,
        'memory_state_bytes': memory_state_bytes(model, 1),
    }


def _described(workdir: epath.PathLike, split: str) -> dict[str, Any]:
    config = workdirs.read_config(workdir)
    path = epath.Path(workdir) / 'eval' / f'{split}.json'
    if not path.exists():
        raise WorkdirError(f'{path} does not exist: run launch/eval.py --workdir={workdir} --split={split} first')
    try:
        result = json.loads(path.read_text())
        protocol, scored, seconds = result['protocol'], result['scored'], result['seconds']
        trained = {'seconds': result['train_seconds'], 'tokens': result['train_tokens']}
    except (ValueError, TypeError, KeyError) as error:
        raise WorkdirError(f'{path} is not a result of launch/eval.py: {error!r}') from error
    evaluated = config.copy_and_resolve_references()
    for field in _LENGTHS:
        if field in protocol:
            evaluated.eval[field] = protocol[field]
    result.pop('compressors', None)
    return result | {
        'workdir': epath.Path(workdir).name,
        'evaluation': memory_of(evaluation_config(evaluated)) | _time(seconds, scored),
        'training': memory_of(config) | _time(trained['seconds'], trained['tokens']),
    }


def _time(seconds: float, tokens: int) -> dict[str, float | None]:
    return {'seconds': seconds, 'microseconds_per_token': 1e6 * seconds / tokens if tokens else None}


def _table(result: dict[str, Any]) -> str:
    measure = 'bpc' if 'bpc' in result['runs'][0] else 'token_perplexity'
    header = (
        '',
        measure.replace('_', ' '),
        'parameters',
        'slots',
        'span',
        'memory bytes',
        'eval us',
        'train us',
        'beside',
    )
    rows = [header]
    for run in result['runs']:
        memory, training = run['evaluation'], run['training']
        rows.append((
            run['config'],
            f'{run[measure]:.4f}',
            f'{run["parameters"]:,}',
            *('-' if memory[field] is None else f'{memory[field]:,}'
              for field in ('attended_slots', 'span', 'memory_state_bytes')),
            *('-' if each['microseconds_per_token'] is None else f'{each["microseconds_per_token"]:,.1f}'
              for each in (memory, training)),
            ' and '.join(f'same {name}' for name in run['beside']) or '-',
        ))  # fmt: skip
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    return '\n'.join(
        '  '.join(cell.ljust(width) if not column else cell.rjust(width)
                  for column, (cell, width) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    )  # fmt: skip
