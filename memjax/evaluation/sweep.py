"""One run scored with several values of a field of evaluation (Compressive Transformer, Tables 8 and 9).

The value is to be chosen on validation and scored once on test, so a sweep states which split it read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from etils import epath
from ml_collections import config_dict

from memjax.config_checks import SWEPT, check
from memjax.errors import ConfigError
from memjax.evaluation.likelihood import Scorer
from memjax.evaluation.loading import open_run
from memjax.evaluation.results import protocol_of, result_of, result_path, write_result
from memjax.report.sweep_figure import draw_sweep


def sweep_run(
    workdir: epath.PathLike,
    data_dir: epath.PathLike,
    config: config_dict.ConfigDict,
    what: str,
    values: Sequence[int],
    split: str,
    step: int | str | None = None,
) -> dict[str, Any]:
    """Scores every target of a split once for each value, and prints a line for each as it is known.

    Writes `WORKDIR/eval/sweep_WHAT_SPLIT.json` and a figure of the same name; the file is complete after each value.
    What it already holds of the same checkpoint, read in the same way, is kept and not scored again: a sweep goes on
    where it was stopped, and further values join those of an earlier one.

    Args:
      workdir: of the run.
      data_dir: where prepared corpora are.
      config: the run's, with overrides in `eval`.
      what: of `memjax.config_checks.SWEPT`.
      values: of that field; each is scored once.
      split: train | validation | test.
      step: as for `evaluate_run`.

    Returns:
      What the file holds: `what`, `split`, `best` (the value of the lowest loss) and `results`, each as
      `evaluate_run` makes it and with its value under the field's name.

    Raises:
      UserError: no such run, checkpoint or corpus, a value that cannot work (found before anything is scored), or a
        file that cannot be written.
    """
    configs = _configs(config, what, values)
    run, corpus = open_run(workdir, data_dir, config, step)
    results = _kept(result_path(workdir, f'sweep_{what}_{split}'), what, config, run.step)
    done = {result[what] for result in results}
    for value, changed in configs.items():
        if value not in done:
            score = Scorer(changed).score(run.params, corpus.splits[split])
            results.append({what: value} | result_of(run, corpus, split, score, changed))
        result = next(result for result in results if result[what] == value)
        print(_line(what, value, result) + (', from before' if value in done else ''), flush=True)
        best = min(results, key=lambda result: result['nll_nats'])[what]
        sweep = {'what': what, 'split': split, 'best': best, 'results': results}
        path = write_result(workdir, f'sweep_{what}_{split}', sweep, draw_sweep)
    print(f'best: {best}; {path}')
    return sweep


def _configs(config: config_dict.ConfigDict, what: str, values: Sequence[int]) -> dict[int, config_dict.ConfigDict]:
    """The config of each value, checked."""
    if what not in SWEPT:
        raise ConfigError(f'{what!r} cannot be swept: one of {", ".join(SWEPT)} can')
    if not values:
        raise ConfigError(f'there are no values of {what} to sweep')
    configs = {}
    for value in values:
        configs[value] = config.copy_and_resolve_references()
        configs[value].eval[what] = value
        check(configs[value])
    return configs


def _kept(path: epath.Path, what: str, config: config_dict.ConfigDict, step: int) -> list[dict[str, Any]]:
    """The results that a file of an earlier sweep holds of this checkpoint, read as this config has it."""

    def is_of_now(result: dict[str, Any]) -> bool:
        (changed,) = _configs(config, what, [result[what]]).values()
        warmup = {'warmup': result['protocol']['warmup']}
        return result['step'] == step and result['protocol'] == protocol_of(changed) | warmup

    try:
        return [result for result in json.loads(path.read_text())['results'] if is_of_now(result)]
    except (FileNotFoundError, ValueError, TypeError, KeyError, ConfigError):
        return []  # nothing that could be gone on with


def _line(what: str, value: int, result: dict[str, Any]) -> str:
    measure = f'bpc {result["bpc"]:.4f}' if 'bpc' in result else f'perplexity {result["token_perplexity"]:.3f}'
    return f'{what} {value:>6,}  {measure}  {result["scored"]:,} targets  {math.ceil(result["seconds"]):,} s'
