"""Continuing a text: tokens drawn one by one, with the memory that evaluation of the same text would have."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from etils import epath
from ml_collections import config_dict

from memjax.config import evaluation_config
from memjax.data.prepare import open_corpus
from memjax.errors import ConfigError
from memjax.evaluation.loading import check_tokenizer, load_run
from memjax.models.contract import LanguageModel, Segment


def filter_logits(
    logits_BxV: jax.Array, temperature: float, top_k: int | None = None, top_p: float | None = None
) -> jax.Array:
    """Logits of the distribution to draw from; what is left out is minus infinity.

    Args:
      logits_BxV: of the model.
      temperature: what they are divided by, above 0.
      top_k: keep the k likeliest; ties at the edge are all kept.
      top_p: keep the fewest likeliest that together have at least this mass (nucleus sampling), after `top_k`.

    Returns:
      B x V, float32.
    """
    logits_BxV = logits_BxV.astype(jnp.float32) / temperature
    if top_k is not None and top_k < logits_BxV.shape[-1]:
        least_Bx1 = jax.lax.top_k(logits_BxV, top_k)[0][:, -1:]
        logits_BxV = jnp.where(logits_BxV < least_Bx1, -jnp.inf, logits_BxV)
    if top_p is not None and top_p < 1:
        descending_BxV = jnp.sort(logits_BxV, axis=-1, descending=True)
        mass_BxV = jax.nn.softmax(descending_BxV, axis=-1)
        # A token stays if those likelier than it do not have the mass yet; the likeliest always does.
        stays_BxV = jnp.cumsum(mass_BxV, axis=-1) - mass_BxV < top_p
        least_Bx1 = jnp.where(stays_BxV, descending_BxV, jnp.inf).min(axis=-1, keepdims=True)
        logits_BxV = jnp.where(logits_BxV < least_Bx1, -jnp.inf, logits_BxV)
    return logits_BxV


class Reader:
    """One text read by a model: whole segments at once, the open one token by token.

    Attributes:
      segment_length: T.
    """

    def __init__(self, model: LanguageModel, params: Any, segment_length: int):
        """Begins with an empty memory.

        Args:
          model: a language model.
          params: its parameters.
          segment_length: T, as in evaluation.
        """
        self._params = params
        self.segment_length = segment_length
        self._memory = model.init_memory(1)
        self._state = None
        self._read_segment = jax.jit(
            lambda params, segment, memory: model.apply({'params': params}, segment, memory, return_logits=True)
        )
        self._open = jax.jit(
            lambda params, memory: model.apply({'params': params}, memory, segment_length, method='open')
        )
        self._step = jax.jit(
            lambda params, token_B, state: model.apply({'params': params}, token_B, state, method='step'),
            donate_argnums=2,
        )

    def read_segments(self, tokens: np.ndarray) -> jax.Array | None:
        """Reads as many whole segments as the tokens have.

        Returns:
          Logits after the last token read, V; None if there was no whole segment.

        Raises:
          ValueError: the open segment has begun.
        """
        if self._state is not None:
            raise ValueError('the open segment has begun')
        T, logits_V = self.segment_length, None
        for begin in range(0, len(tokens) - T + 1, T):
            inputs_1xT = jnp.asarray(tokens[begin : begin + T], jnp.int32)[None]
            segment = Segment(
                inputs_BxT=inputs_1xT,
                targets_BxT=inputs_1xT,
                weights_BxT=jnp.zeros((1, T), jnp.float32),
                start_B=jnp.array([begin == 0]),
                lengths_B=jnp.array([T], jnp.int32),
            )
            output, self._memory = self._read_segment(self._params, segment, self._memory)
            logits_V = output.logits_BxTxV[0, -1]
        return logits_V

    def read(self, token: int | jax.Array) -> jax.Array:
        """Reads one token; returns the logits of the next, V."""
        if self._state is None:
            self._state = self._open(self._params, self._memory)
        logits_1xV, self._state = self._step(self._params, jnp.asarray(token, jnp.int32).reshape(1), self._state)
        return logits_1xV[0]


def sample_tokens(
    reader: Reader,
    prompt: np.ndarray,
    length: int,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    seed: int,
) -> np.ndarray:
    """Continues a prompt.

    Args:
      reader: a fresh one.
      prompt: at least one token.
      length: tokens to draw.
      temperature: see `filter_logits`.
      top_k: the same.
      top_p: the same.
      seed: another seed, another continuation.

    Returns:
      int32 [length].
    """
    draw = jax.jit(
        lambda key, logits_V: jax.random.categorical(key, filter_logits(logits_V[None], temperature, top_k, top_p)[0])
    )
    logits_V = reader.read_segments(prompt)
    for token in prompt[len(prompt) // reader.segment_length * reader.segment_length :]:
        logits_V = reader.read(token)
    drawn = []
    for key in jax.random.split(jax.random.key(seed), length):
        drawn.append(draw(key, logits_V))
        logits_V = reader.read(drawn[-1])
    return np.asarray(drawn, np.int32)


def sample_run(
    workdir: epath.PathLike,
    data_dir: epath.PathLike,
    config: config_dict.ConfigDict,
    prompt: str,
    length: int,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    seed: int,
    step: int | str | None = None,
) -> str:
    """Continues a text with a run's model, memory empty at its beginning.

    Args:
      workdir: of the run.
      data_dir: where prepared corpora are, for the tokenizer.
      config: the run's, with overrides in `eval`.
      prompt: the text; not empty, for a vocabulary without a BOS cannot begin from nothing.
      length: tokens to draw.
      temperature: see `filter_logits`.
      top_k: the same.
      top_p: the same.
      seed: of the draws.
      step: of a checkpoint; 'best'; None: the newest good one.

    Returns:
      The continuation, without the prompt.

    Raises:
      UserError: no such run, checkpoint or corpus; an empty prompt, or one with a symbol that the corpus lacks.
    """
    tokenizer = open_corpus(config.data, data_dir).tokenizer
    prompt_tokens = np.asarray(tokenizer.encode(prompt))
    if not len(prompt_tokens):
        raise ConfigError('sample.prompt is empty: give at least one symbol to begin from')
    run = load_run(workdir, step, config)
    check_tokenizer(run.host, tokenizer)
    reader = Reader(run.model, run.params, evaluation_config(config).data.segment_length)
    tokens = sample_tokens(reader, prompt_tokens, length, temperature, top_k, top_p, seed)
    return tokenizer.decode(tokens)
