"""Tokens out of a model: prompts are read by segments, the last of each and what follows token by token.

All rows go on together. A prompt's whole segments are read first, while rows that have no more of them wait; then the
rest of every prompt, at least a token, begins the open segment of its row, so that all open segments begin and end
together. Rows whose prompt is read draw while others still read theirs.

What is compiled depends on the model, the number of rows, the segment length and how tokens are drawn: not on the
lengths of prompts, on how full memory is, or on how much is drawn.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from memjax.generation.devices import laid_out, layout_of
from memjax.generation.drawing import Drawing
from memjax.kernels.layer import with_kernel
from memjax.models.contract import LanguageModel, Segment
from memjax.models.open_segment import OpenSegment, chosen_rows, repeated_rows

# Tokens between two looks at what was drawn: few enough to stream, many enough to make a call's cost small.
CHUNK = 32


@struct.dataclass
class Prompts:
    """Prompts as far as they were read by segments."""

    params: Any  # that read them, apart
    memory: Any  # cached
    rest_BxT: np.ndarray  # int32, the tokens that were not read yet, then zeros
    rest_B: np.ndarray  # int32, how many, 1 to T


@struct.dataclass
class _State:
    """What the loop over tokens carries."""

    tail: Any
    tokens_B: jax.Array  # int32, to be read next
    read: jax.Array  # int32 scalar, tokens read one by one
    drawn_B: jax.Array  # int32, how many
    is_done_B: jax.Array  # bool


def read_prompts(
    model: LanguageModel, params: Any, prompts: Sequence[Iterable[np.ndarray]], segment_length: int
) -> Prompts:
    """Reads whole segments of prompts, holding no more of them at a time than a segment and a piece.

    Args:
      model: a language model.
      params: its parameters.
      prompts: the tokens of each row in pieces; no row without a token.
      segment_length: T.

    Returns:
      What is left to read, and the memory of the rest.

    Raises:
      ValueError: a prompt has no token.
    """
    B, T = len(prompts), segment_length
    memory, params = _empty_memory(model, params, B, T), _apart(model, params)
    layout = layout_of(memory, params)
    memory = laid_out(memory, layout)
    rows = [_segments(prompt, T) for prompt in prompts]
    blocks = [next(row) for row in rows]
    while True:
        following = [next(row, None) for row in rows]
        has_more_B = np.array([block is not None for block in following])
        if not has_more_B.any():
            break
        tokens_BxT = np.stack([_padded(block, T) for block in blocks])
        memory = laid_out(_read_segment(model, params, tokens_BxT, has_more_B, memory), layout)
        blocks = [block if after is None else after for block, after in zip(blocks, following, strict=True)]
    if not all(map(len, blocks)):
        raise ValueError('a prompt has no token')
    lengths_B = np.array([len(block) for block in blocks], np.int32)
    return Prompts(params, memory, np.stack([_padded(block, T) for block in blocks]), lengths_B)


def repeat_prompts(model: LanguageModel, prompts: Prompts, times: int) -> Prompts:
    """The same with every row so many times, side by side."""
    return prompts.replace(
        memory=model.map_rows(repeated_rows(times), prompts.memory),
        rest_BxT=np.repeat(prompts.rest_BxT, times, axis=0),
        rest_B=np.repeat(prompts.rest_B, times),
    )


class Decoding:
    """Rows that are going on.

    Attributes:
      is_done_B: rows that have all that they should draw, or were stopped.
    """

    def __init__(self, model: LanguageModel, prompts: Prompts, drawing: Drawing, keys_B: jax.Array):
        """Begins.

        Args:
          model: a language model.
          prompts: of the rows.
          drawing: how tokens are drawn.
          keys_B: of each row's draws.
        """
        self._model = with_kernel(model, prompts.params, len(prompts.rest_B))
        self._params, self._drawing, self._keys_B = prompts.params, drawing, keys_B
        self._prompt = jax.device_put((prompts.rest_BxT, prompts.rest_B))
        self._past, self._state = _open(self._model, prompts.params, prompts.memory, self._prompt[0])
        self._past_layout, self._state_layout = layout_of((self._past, self._state), prompts.params) or (None, None)
        self.is_done_B = np.zeros(len(prompts.rest_B), bool)
        self._is_stopped = False  # a row, since the last call

    def stop(self, row: int) -> None:
        """Draws no more for a row."""
        self.is_done_B[row] = True
        self._is_stopped = True

    def advance(self, length: int, steps: int = CHUNK) -> list[np.ndarray]:
        """Reads and draws a few tokens in rows that are not done.

        Args:
          length: tokens that a row should have drawn in all.
          steps: tokens to read at most, up to CHUNK; fewer where a segment ends.

        Returns:
          What each row drew, int32; nothing in rows whose prompt is still being read.
        """
        state = self._state
        if self._is_stopped:
            state, self._is_stopped = state.replace(is_done_B=jnp.asarray(self.is_done_B)), False
        state, drawn_BxC, is_full = _advance(
            self._model, self._drawing, self._params, self._past, state, *self._prompt, self._keys_B, length, steps
        )
        state = laid_out(state, self._state_layout)
        drawn_BxC, is_full, self.is_done_B = map(np.array, (drawn_BxC, is_full, state.is_done_B))
        if is_full and not self.is_done_B.all():
            past, tail = _close(self._model, self._params, self._past, state.tail)
            self._past = laid_out(past, self._past_layout)
            state = laid_out(state.replace(tail=tail), self._state_layout)
        self._state = state
        return [row[row >= 0] for row in drawn_BxC]


@functools.partial(jax.jit, static_argnums=(0, 2, 3))
def _empty_memory(model: LanguageModel, params: Any, batch_size: int, segment_length: int) -> Any:
    memory = model.init_memory(batch_size)
    return model.apply({'params': params}, memory, segment_length, method='cache')


@functools.partial(jax.jit, static_argnums=0)
def _apart(model: LanguageModel, params: Any) -> Any:
    return model.apart(params)


@functools.partial(jax.jit, static_argnums=0, donate_argnums=4)
def _read_segment(model: LanguageModel, params: Any, tokens_BxT: jax.Array, is_read_B: jax.Array, memory: Any) -> Any:
    B, T = tokens_BxT.shape
    segment = Segment(
        inputs_BxT=tokens_BxT,
        targets_BxT=tokens_BxT,
        weights_BxT=jnp.zeros((B, T)),
        start_B=jnp.zeros((B,), bool),
        lengths_B=jnp.full((B,), T, jnp.int32),
    )
    _, moved = model.apply({'params': params}, segment, memory)
    return model.map_rows(chosen_rows(is_read_B), moved, memory)


@functools.partial(jax.jit, static_argnums=0)
def _open(model: LanguageModel, params: Any, memory: Any, prompt_BxT: jax.Array) -> tuple[Any, _State]:
    # All of it by a program, so that it lies where the loop's own results will: on the devices of the parameters.
    B, T = prompt_BxT.shape
    opened = model.apply({'params': params}, memory, T, method='open')
    state = _State(
        tail=opened.tail,
        tokens_B=prompt_BxT[:, 0],
        read=jnp.zeros((), jnp.int32),
        drawn_B=jnp.zeros((B,), jnp.int32),
        is_done_B=jnp.zeros((B,), bool),
    )
    return opened.past, state


@functools.partial(jax.jit, static_argnums=0, donate_argnums=(2, 3))
def _close(model: LanguageModel, params: Any, past: Any, tail: Any) -> tuple[Any, Any]:
    state = model.apply({'params': params}, OpenSegment(past, tail), method='close')
    return state.past, state.tail


@functools.partial(jax.jit, static_argnums=(0, 1), donate_argnums=4)
def _advance(
    model: LanguageModel,
    drawing: Drawing,
    params: Any,
    past: Any,
    state: _State,
    prompt_BxT: jax.Array,
    prompt_B: jax.Array,
    keys_B: jax.Array,
    length: jax.Array,
    steps: jax.Array,
) -> tuple[_State, jax.Array, jax.Array]:
    """Returns the state, the tokens drawn, B x CHUNK, -1 where a step drew none, and whether the segment is full."""

    def goes_on(carry: tuple[jax.Array, _State, jax.Array]) -> jax.Array:
        step, state, _ = carry
        return (step < steps) & ~state.tail.is_full & ~state.is_done_B.all()

    def read_one(carry: tuple[jax.Array, _State, jax.Array]) -> tuple[jax.Array, _State, jax.Array]:
        step, state, drawn_BxC = carry
        logits_BxV, tail = model.apply({'params': params}, state.tokens_B, past, state.tail, method='extend')
        read = state.read + 1
        in_prompt_B = read < prompt_B
        token_B = drawing.draw(keys_B, state.drawn_B, logits_BxV)
        counts_B = ~in_prompt_B & ~state.is_done_B
        drawn_B = state.drawn_B + counts_B
        given_B = jax.lax.dynamic_index_in_dim(prompt_BxT, read, axis=1, keepdims=False)
        state = _State(
            tail=tail,
            tokens_B=jnp.where(in_prompt_B, given_B, token_B),
            read=read,
            drawn_B=drawn_B,
            is_done_B=state.is_done_B | (drawn_B >= length),
        )
        new_B = jnp.where(counts_B, token_B, -1)
        return step + 1, state, jax.lax.dynamic_update_index_in_dim(drawn_BxC, new_B, step, axis=1)

    nothing_BxC = jnp.full((prompt_BxT.shape[0], CHUNK), -1, jnp.int32)
    _, state, drawn_BxC = jax.lax.while_loop(goes_on, read_one, (jnp.zeros((), jnp.int32), state, nothing_BxC))
    return state, drawn_BxC, state.tail.is_full


def _segments(pieces: Iterable[np.ndarray], segment_length: int) -> Iterator[np.ndarray]:
    """Tokens in blocks of T; the last has 1 to T of them, or none if there is no token at all."""
    held = np.zeros(0, np.int32)
    for piece in pieces:
        held = np.concatenate([held, np.asarray(piece, np.int32)])
        while len(held) > segment_length:
            yield held[:segment_length]
            held = held[segment_length:]
    yield held


def _padded(tokens: np.ndarray, length: int) -> np.ndarray:
    return np.pad(tokens, (0, length - len(tokens)))
