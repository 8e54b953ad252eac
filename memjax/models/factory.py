"""From a config's model section to a model."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import linen as nn
from ml_collections import config_dict

from memjax.errors import ConfigError
from memjax.models.compressive import CompressiveTransformer
from memjax.models.contract import LanguageModel, Segment
from memjax.models.lstm import LSTM
from memjax.models.rmt import RecurrentMemoryTransformer
from memjax.models.transformer_xl import TransformerXL
from memjax.nn import adaptive
from memjax.nn.adaptive import AdaptiveEmbedding, AdaptiveSoftmax
from memjax.nn.embeddings import Embedding, SoftmaxHead

CORES = {
    'transformer_xl': TransformerXL,
    'compressive': CompressiveTransformer,
    'rmt': RecurrentMemoryTransformer,
    'lstm': LSTM,
}


def build_model(model: config_dict.ConfigDict) -> LanguageModel:
    """The language model that a config's `model` section describes.

    Raises:
      ConfigError: there is no model of that name.
    """
    if model.name not in CORES:
        raise ConfigError(f'unknown model {model.name!r}: there are {", ".join(sorted(CORES))}')
    frozen = config_dict.FrozenConfigDict(model)
    dtype = jnp.dtype(model.dtype)
    return LanguageModel(embed=_embedding(model, dtype), core=CORES[model.name](frozen), head=_head(model, dtype))


def _embedding(model: config_dict.ConfigDict, dtype: jnp.dtype) -> nn.Module:
    if not is_adaptive(model):
        return Embedding(model.vocab_size, model.model_dim, model.dropout_rate, model.init_scale, dtype)
    return AdaptiveEmbedding(
        vocab_size=model.vocab_size,
        cutoffs=tuple(model.adaptive_cutoffs),
        embedding_dim=model.embedding_dim or model.model_dim,
        div=model.adaptive_div,
        model_dim=model.model_dim,
        dropout_rate=model.dropout_rate,
        init_scale=model.init_scale,
        dtype=dtype,
    )


def _head(model: config_dict.ConfigDict, dtype: jnp.dtype) -> nn.Module:
    if not is_adaptive(model):
        return SoftmaxHead(model.vocab_size, model.tie_embeddings, model.init_scale, dtype)
    return AdaptiveSoftmax(
        vocab_size=model.vocab_size,
        cutoffs=tuple(model.adaptive_cutoffs),
        embedding_dim=model.embedding_dim or model.model_dim,
        div=model.adaptive_div,
        model_dim=model.model_dim,
        tied=model.tie_embeddings,
        tied_projections=tied_projections(model),
        init_scale=model.init_scale,
        dtype=dtype,
    )


def is_adaptive(model: config_dict.ConfigDict) -> bool:
    """Whether embeddings and softmax are made of bands."""
    return bool(model.adaptive_cutoffs) or model.embedding_dim is not None


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


def has_projections(model: config_dict.ConfigDict) -> bool:
    """Whether the bands' embeddings are projected to the model's width."""
    return adaptive.has_projections(model.embedding_dim or model.model_dim, model.adaptive_div, model.model_dim)


def tied_projections(model: config_dict.ConfigDict) -> tuple[bool, ...]:
    """Of each band, whether its softmax uses its embedding's projection."""
    further = len(model.adaptive_cutoffs)
    return {
        'all': (True,) * (further + 1),
        'all_but_first': (False,) + (True,) * further,
        'none': (False,) * (further + 1),
    }[model.tied_projections]
