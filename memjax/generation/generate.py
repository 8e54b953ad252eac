"""Continuing texts with a run's model, with the memory that evaluation of the same texts would have."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from etils import epath
from ml_collections import config_dict

from memjax.config import evaluation_config
from memjax.data.tokenizers import Tokenizer
from memjax.errors import ConfigError
from memjax.evaluation.loading import Run, open_run
from memjax.generation import decoder
from memjax.generation.devices import spread
from memjax.generation.drawing import Drawing, row_keys
from memjax.generation.text import TextStream

_PIECE = 1 << 16  # bytes of a prompt's file that are read at once


class Piece(NamedTuple):
    """Some more of a row's text."""

    row: int
    text: str
    is_last: bool


def generate(
    run: Run,
    tokenizer: Tokenizer,
    prompts: Sequence[str | Iterable[bytes]],
    length: int = 256,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
    stop: str | None = None,
    num_samples: int = 1,
) -> Iterator[Piece]:
    """Continues texts, all at once; memory is empty at their beginning.

    A row's draws depend on the seed and its number alone, not on what is in the other rows.

    Args:
      run: from `load_run`.
      tokenizer: of the run's corpus, `open_corpus(config.data, data_dir).tokenizer`.
      prompts: texts of any lengths; or pieces of one, UTF-8, cut anywhere, of which few are held at a time.
      length: tokens to draw in each row.
      temperature: see `Drawing`.
      top_k: the same; 1 is greedy.
      top_p: the same.
      seed: another seed, other continuations.
      stop: a row ends before the first occurrence of this string in what it draws.
      num_samples: continuations of each prompt, which is read once: prompt p's are rows p num_samples and on.

    Yields:
      Pieces as they are drawn, without the prompts; every row's last one is marked.

    Raises:
      ConfigError: a prompt has no symbol: a vocabulary without a BOS cannot begin from nothing.
      DataError: a prompt has a symbol that the corpus lacks.
      ValueError: an argument is out of range.
    """
    if length < 1 or num_samples < 1 or stop == '':
        raise ValueError(f'{length=}, {num_samples=} must be at least 1, and {stop=} no empty string')
    drawing = Drawing(temperature, top_k, top_p)
    return _generate(run, tokenizer, prompts, length, drawing, seed, stop, num_samples)


def _generate(run, tokenizer, prompts, length, drawing, seed, stop, num_samples) -> Iterator[Piece]:
    segment_length = evaluation_config(run.config).data.segment_length
    tokens = [_tokens_of(tokenizer, prompt) for prompt in prompts]
    read = decoder.read_prompts(run.model, run.params, tokens, segment_length)
    read = decoder.repeat_prompts(run.model, read, num_samples)
    rows = range(len(prompts) * num_samples)
    decoding = decoder.Decoding(run.model, read, drawing, row_keys(seed, rows))
    streams = {row: TextStream(tokenizer, stop) for row in rows}
    while streams:
        drawn = decoding.advance(length)
        for row, stream in list(streams.items()):
            text = stream.push(drawn[row])
            if stream.is_stopped:
                decoding.stop(row)
            is_last = bool(decoding.is_done_B[row])
            text += stream.finish() if is_last else ''
            if text or is_last:
                yield Piece(row, text, is_last)
            if is_last:
                del streams[row]


def _tokens_of(tokenizer: Tokenizer, prompt: str | Iterable[bytes]) -> Iterator[np.ndarray]:
    pieces = [prompt.encode(errors='surrogateescape')] if isinstance(prompt, str) else prompt
    tokens = (piece for piece in tokenizer.encode_pieces(pieces, is_open=True) if len(piece))
    first = next(tokens, None)
    if first is None and tokenizer.bos_id is not None:
        first = np.array([tokenizer.bos_id])
    if first is None:
        raise ConfigError('the prompt is empty: give at least one symbol to begin from')
    return itertools.chain([first], tokens)


def in_order(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """The same pieces row after row: those of a later row are held until the rows before it have ended."""
    held: dict[int, list[Piece]] = {}
    turn = 0
    for piece in pieces:
        held.setdefault(piece.row, []).append(piece)
        while turn in held:
            yield from (ready := held.pop(turn))
            if not ready[-1].is_last:
                break
            turn += 1


def sample_run(
    workdir: epath.PathLike,
    data_dir: epath.PathLike,
    config: config_dict.ConfigDict,
    prompt: str | epath.Path,
    length: int,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    seed: int,
    step: int | str | None = None,
    stop: str | None = None,
    num_samples: int = 1,
    num_devices: int = 1,
) -> Iterator[Piece]:
    """Continues a text with a run's model.

    Args:
      workdir: of the run.
      data_dir: where prepared corpora are, for the tokenizer.
      config: the run's, with overrides in `eval`.
      prompt: the text, or the file that holds it.
      length: see `generate`.
      temperature: the same.
      top_k: the same.
      top_p: the same.
      seed: the same.
      step: of a checkpoint; 'best'; None: the newest good one.
      stop: see `generate`.
      num_samples: the same.
      num_devices: over which the model is split, see `devices.spread`.

    Yields:
      See `generate`.

    Raises:
      UserError: no such run, checkpoint or corpus; not so many devices; an empty prompt, or one with a symbol that the
        corpus lacks.
      OSError: the file cannot be read.
    """
    with contextlib.ExitStack() as files:  # opened before the model is loaded: it may not be there
        if not isinstance(prompt, str):
            file = files.enter_context(epath.Path(prompt).open('rb'))
            prompt = iter(functools.partial(file.read, _PIECE), b'')
        run, corpus = open_run(workdir, data_dir, config, step)
        run = dataclasses.replace(run, params=spread(run.params, num_devices))
        yield from generate(run, corpus.tokenizer, [prompt], length, temperature, top_k, top_p, seed, stop, num_samples)
