"""Evaluation of a run on a split: its result file, and the same as a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from etils import epath
from ml_collections import config_dict

from memjax.data.store import TokenSplit
from memjax.evaluation.compressors import compressed_bits_per_byte
from memjax.evaluation.likelihood import Scorer
from memjax.evaluation.loading import open_run
from memjax.evaluation.results import result_of, write_result
from memjax.runs.workdir import writing

_CHUNK = 1 << 20


def evaluate_run(
    workdir: epath.PathLike,
    data_dir: epath.PathLike,
    config: config_dict.ConfigDict,
    split: str,
    step: int | str | None = None,
    per_token: epath.PathLike | None = None,
) -> dict[str, Any]:
    """Scores every target of a split once, writes `WORKDIR/eval/SPLIT.json` and prints it as a table.

    Args:
      workdir: of the run.
      data_dir: where prepared corpora are.
      config: the run's, with overrides in `eval`.
      split: train | validation | test.
      step: of a checkpoint; 'best'; None: the newest good one.
      per_token: also write `nll` (float32, nats of each target in the order of the text) to this .npz file.

    Returns:
      What the result file holds.

    Raises:
      UserError: no such run, checkpoint or corpus, or a file that cannot be written.
    """
    run, corpus = open_run(workdir, data_dir, config, step)
    score = Scorer(config).score(run.params, corpus.splits[split], keep_tokens=per_token is not None)
    result = result_of(run, corpus, split, score, config)
    if config.eval.compressors:
        text = corpus.splits[split]
        result['compressors'] = {name: compressed_bits_per_byte(name, _text(text)) for name in config.eval.compressors}
    if per_token is not None:
        with writing(per_token), epath.Path(per_token).open('wb') as file:
            np.savez(file, nll=score.per_token)
    write_result(workdir, split, result)
    print(_table(result))
    return result


def _text(split: TokenSplit) -> Iterator[bytes]:
    """The bytes of a split whose symbols are bytes."""
    for begin in range(0, len(split.tokens), _CHUNK):
        yield split.tokens[begin : begin + _CHUNK].astype(np.uint8).tobytes()


def _table(result: dict[str, Any]) -> str:
    rows = {
        f'{result["config"]}, {result["split"]} of {result["dataset"]}': f'step {result["step"]:,}',
        **{f'text of {name}': note for name, note in result.get('texts', {}).items() if note},
        **({'memory cleared at each of': result['documents']} if 'documents' in result else {}),
        'targets scored': f'{result["scored"]:,} of {result["targets"]:,}',
        'token perplexity': f'{result["token_perplexity"]:.3f}',
    }
    if result.get('word_perplexity') is not None:
        rows['word perplexity'] = f'{result["word_perplexity"]:,.1f} ({result["words"]:,} {result["word_unit"]})'
    if 'bpc' in result:
        rows['bits per character'] = f'{result["bpc"]:.4f}'
    rows |= {f'{name}, bits per byte': f'{bits:.4f}' for name, bits in result.get('compressors', {}).items()}
    rows['parameters'] = f'{result["parameters"]:,}'
    rows['trained on'] = f'{result["train_tokens"]:,} tokens, {result["train_seconds"]:,.0f} s'
    protocol = result['protocol']
    rows['protocol'] = ', '.join(f'{name} {value}' for name, value in protocol.items())
    width = max(map(len, rows))
    return '\n'.join(f'{name:<{width}}  {value}' for name, value in rows.items())
