"""One token of each row through one layer of Transformer-XL, on a CPU: in place of `TransformerXLBlock.extend`.

For one row XLA reads parameters and memory with one core, and each of its many small operations costs more than what it
does. This reads them with all cores, a layer in one call, and gives the same numbers to rounding.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from memjax.kernels import library
from memjax.models.block import TransformerXLBlock
from memjax.models.contract import LanguageModel
from memjax.models.transformer_xl import TransformerXL
from memjax.nn.attention import Biases, OneView, PastSlots

# With more rows it was not measured; what it gains over XLA falls with their number.
MOST_ROWS = 32
_ACTIVATIONS = {'relu': 0, 'gelu': 1}


def with_kernel(model: LanguageModel, params: Any, batch_size: int) -> LanguageModel:
    """The same model, single tokens being read by the kernel where it suits.

    It does if the core is a Transformer-XL or Compressive Transformer that `suits`, the parameters lie on one device of
    a CPU, and there is a C++ compiler.

    Args:
      model: a language model.
      params: its parameters.
      batch_size: B.
    """
    (device, *more) = jax.tree.leaves(params)[0].devices()
    core = model.core
    suited = (
        (device.platform == 'cpu' and not more)
        and batch_size <= MOST_ROWS
        # Not one that reads its tokens otherwise.
        and getattr(type(core), 'extend', None) is TransformerXL.extend
        and core.block.extend is TransformerXLBlock.extend
        and suits(core.config)
        and library.load() is not None
    )
    return model.clone(core=core.clone(read_token=read_token)) if suited else model


def suits(config: Any) -> bool:
    """Whether the kernel does what the layers of a model section do.

    It does not know half precision, tables of positions that only the compressed slots have, or how much each slot was
    attended to.
    """
    return (
        config.dtype == 'float32'
        and config.activation in _ACTIVATIONS
        and (config.compressed_positions == 'slots' or config.name != 'compressive')
        and (config.compression != 'most_used' or config.name != 'compressive')
    )


def read_token(
    config: Any,
    params: Any,
    x_BxD: jax.Array,
    past: PastSlots,
    tail: Any,
    biases: Biases | None,
    view: OneView,
    num_threads: int = 0,
) -> tuple[jax.Array, Any]:
    """See `TransformerXLBlock.extend`; the tail's keys and values are written in place.

    Args:
      config: the model section.
      params: of the layer.
      x_BxD: float32.
      past: memory.
      tail: a `LayerTail`.
      biases: of all layers; None: the layer's own, if its encoding has any.
      view: mask and place.
      num_threads: up to 8; 0: as many as XLA has and the layer is worth.

    Raises:
      RuntimeError: there is no compiled kernel on this machine.
      ValueError: shapes do not belong together.
    """
    if library.load() is None:
        raise RuntimeError('the kernel is not compiled: see the log')
    attention, feed_forward = params['attention'], params['feed_forward']
    attention_norm, feed_forward_norm = (
        params[name]['LayerNorm_0'] for name in ('attention_norm', 'feed_forward_norm')
    )
    B, H, P, K = past.keys_BxHxPxK.shape
    T = tail.keys_BxHxTxK.shape[2]
    D, F = feed_forward['up']['kernel'].shape
    u_HxK, v_HxK = _biases(params, biases, (H, K))
    near_HxNxK = jnp.zeros((H, 0, K), jnp.float32) if past.near is None else past.near
    # The kernel takes them for granted.
    for array, shape in (
        (x_BxD, (B, D)), (attention['query'], (D, H, K)), (attention['output'], (H, K, D)),
        (feed_forward['down']['kernel'], (F, D)), (past.values_BxHxPxK, (B, H, P, K)), (view.mask_BxN, (B, P + T)),
        (near_HxNxK, (H, 0 if past.near is None else P + T, K)), (u_HxK, (H, K)),
        (tail.keys_BxHxTxK, (B, H, T, K)), (tail.values_BxHxTxK, (B, H, T, K)),
    ):  # fmt: skip
        if array.shape != shape:
            raise ValueError(f'an array of shape {array.shape} should be {shape}: {B=}, {D=}, {H=}, {K=}, {P=}, {T=}')
    # The same in all layers, so that it is made once a token.
    unseen_BxN = jnp.where(view.mask_BxN, 0.0, jnp.finfo(jnp.float32).min)
    arrays = (
        x_BxD,
        *(attention[name] for name in ('query', 'key', 'value', 'output')),
        *(feed_forward[name][kind] for name in ('up', 'down') for kind in ('kernel', 'bias')),
        *(norm[name] for norm in (attention_norm, feed_forward_norm) for name in ('scale', 'bias')),
        u_HxK, v_HxK, past.keys_BxHxPxK, past.values_BxHxPxK, near_HxNxK, unseen_BxN, view.place,
        tail.keys_BxHxTxK, tail.values_BxHxTxK,
    )  # fmt: skip
    results = (x_BxD, x_BxD, tail.keys_BxHxTxK, tail.values_BxHxTxK)
    call = jax.ffi.ffi_call(
        'memjax_read_token',
        [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in results],
        input_output_aliases={len(arrays) - 2: 2, len(arrays) - 1: 3},
    )
    y_BxD, inputs_BxD, keys_BxHxTxK, values_BxHxTxK = call(
        *arrays,
        is_pre_norm=config.norm == 'pre',
        activation=np.int64(_ACTIVATIONS[config.activation]),
        threads=np.int64(num_threads),
    )
    tail = tail.replace(keys_BxHxTxK=keys_BxHxTxK, values_BxHxTxK=values_BxHxTxK)
    if tail.inputs_BxTxD is not None:
        put = jax.lax.dynamic_update_index_in_dim
        tail = tail.replace(inputs_BxTxD=put(tail.inputs_BxTxD, inputs_BxD, view.place, 1))
    return y_BxD, tail


def _biases(params: Any, biases: Biases | None, shape: tuple[int, int]) -> tuple[jax.Array, jax.Array]:
    if biases is not None:
        return biases.u, biases.v
    zeros = jnp.zeros(shape, jnp.float32)
    return params.get('u', zeros), params.get('v', zeros)
