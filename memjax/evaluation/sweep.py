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

from memjax import atomic
from memjax.config_checks import SWEPT, check
from memjax.data.prepare import open_corpus
from memjax.errors import ConfigError
from memjax.evaluation.likelihood import Scorer
from memjax.evaluation.loading import check_tokenizer, load_run
from memjax.evaluation.run import check_vocabulary, result_of
from memjax.report.sweep_figure import draw_sweep
from memjax.runs.workdir import writing


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

    Writes `WORKDIR/eval/sweep_WHAT_SPLIT.json` and a figure of the same name; the file is complete after each value,
    so that what is done of a long sweep can be read.

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
    corpus = open_corpus(config.data, data_dir)
    check_vocabulary(config, corpus)
    run = load_run(workdir, step, config)
    check_tokenizer(run.host, corpus.tokenizer)
    path = epath.Path(workdir) / 'eval' / f'sweep_{what}_{split}.json'
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    results: list[dict[str, Any]] = []
    for value, changed in configs.items():
        score = Scorer(changed).score(run.params, corpus.splits[split])
        result = {what: value} | result_of(run, corpus, split, score, changed)
        results.append(result)
        print(_line(what, value, result), flush=True)
        best = min(results, key=lambda result: result['nll_nats'])[what]
        sweep = {'what': what, 'split': split, 'best': best, 'results': results}
        with writing(path):
            atomic.write_text(path, json.dumps(sweep, indent=2) + '\n')
            draw_sweep(sweep, path.with_suffix('.png'))
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


def _line(what: str, value: int, result: dict[str, Any]) -> str:
    measure = f'bpc {result["bpc"]:.4f}' if 'bpc' in result else f'perplexity {result["token_perplexity"]:.3f}'
    return f'{what} {value:>6,}  {measure}  {result["scored"]:,} targets  {math.ceil(result["seconds"]):,} s'
