"""From a config's model section to a model."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from ml_collections import config_dict

from memjax.errors import ConfigError
from memjax.models.compressive import CompressiveTransformer
from memjax.models.contract import LanguageModel, Segment
from memjax.models.transformer_xl import TransformerXL
from memjax.nn.embeddings import Embedding, SoftmaxHead

CORES = {'transformer_xl': TransformerXL, 'compressive': CompressiveTransformer}


def build_model(model: config_dict.ConfigDict) -> LanguageModel:
    """The language model that a config's `model` section describes.

    Raises:
      ConfigError: there is no model of that name.
    """
    if model.name not in CORES:
        raise ConfigError(f'unknown model {model.name!r}: there are {", ".join(sorted(CORES))}')
    frozen = config_dict.FrozenConfigDict(model)
    dtype = jnp.dtype(model.dtype)
    return LanguageModel(
        embed=Embedding(model.vocab_size, model.model_dim, model.dropout_rate, model.init_scale, dtype),
        core=CORES[model.name](frozen),
        head=SoftmaxHead(model.vocab_size, model.tie_embeddings, model.init_scale, dtype),
    )


def empty_segment(batch_size: int, segment_length: int) -> Segment:
    """A segment of zeros, for shapes and for initialization."""
    tokens_BxT = jnp.zeros((batch_size, segment_length), jnp.int32)
    return Segment(
        inputs_BxT=tokens_BxT,
        targets_BxT=tokens_BxT,
        weights_BxT=jnp.ones((batch_size, segment_length), jnp.float32),
        start_B=jnp.ones((batch_size,), bool),
        lengths_B=jnp.full((batch_size,), segment_length, jnp.int32),
    )


def init_params(model: LanguageModel, segment_length: int, key: jax.Array) -> dict:
    """Parameters at the start. Traceable: wrap in `jax.eval_shape` or `jax.jit` for large models."""
    return model.init(key, empty_segment(1, segment_length), model.init_memory(1))['params']
