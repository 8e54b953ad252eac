"""Transformer-XL's weights under the names that Hugging Face's TransfoXL gave them, from and to our parameters.

Theirs are one tensor a layer, a linear map's weight is [out, in], and query, key and value are one map. Published
models that were converted from the authors' checkpoints bear these names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from flax import traverse_util
from ml_collections import config_dict

from memjax.errors import ConfigError, DataError
from memjax.models.factory import has_projections, is_adaptive, tied_projections

_LAYER = 'transformer.layers.{}.'
_FIXED = (
    ('name', 'transformer_xl'),
    ('norm', 'post'),
    ('activation', 'relu'),
    ('position_encoding', 'relative'),
)
# Positions that TransfoXL stores though nothing learned is in them.
_DERIVED = frozenset({'transformer.pos_emb.inv_freq'})


class _Tensor(NamedTuple):
    """One of their tensors.

    `name` has a place for the layer, if there is one in each. `ours` are our leaves, one after the other along its
    first axis. `num_inputs` counts the leading axes of ours that a linear map sums over; 0: the tensor is as it is.
    """

    name: str
    ours: tuple[str, ...]
    num_inputs: int


def to_params(tensors: Mapping[str, np.ndarray], abstract_params: Any, model: config_dict.ConfigDict) -> Any:
    """Our parameters from their tensors.

    Args:
      tensors: by their names. Copies of shared ones and derived ones may be there or not.
      abstract_params: our tree, with the shape of each leaf.
      model: a config's model section.

    Returns:
      The tree in float32.

    Raises:
      ConfigError: the model is one that TransfoXL cannot be.
      DataError: tensors are missing, unknown, misshapen or not finite; all of them are named.
    """
    _check_model(model)
    shapes = {name: leaf.shape for name, leaf in traverse_util.flatten_dict(abstract_params, sep='/').items()}
    leaves = {name: np.empty(shape, np.float32) for name, shape in shapes.items()}
    expected = dict(_tensors(model))
    copies = {copy: original for copy, original in _copies(model) if copy in tensors}
    # Of tensors that are one, a file may hold any.
    tensors = {original: tensors[copy] for copy, original in copies.items()} | dict(tensors)
    faults = [f'{name} is missing' for name in expected if name not in tensors]
    for name in sorted(tensors.keys() - expected.keys() - copies.keys() - _DERIVED):
        faults.append(f'{name} is unknown')
    for name, (tensor, layer) in expected.items():
        if name not in tensors:
            continue
        found, views = tensors[name], [_view(leaves[leaf], layer) for leaf in tensor.ours]
        wanted = _their_shape(views, tensor.num_inputs)
        if found.shape != wanted:
            faults.append(f'{name} is {_by(found.shape)}, not {_by(wanted)}')
        elif not np.isfinite(found).all():
            faults.append(f'{name} is not finite')
        else:
            ends = np.cumsum([_theirs(view, tensor.num_inputs).shape[0] for view in views])
            for view, part in zip(views, np.split(found, ends[:-1]), strict=True):
                view[...] = (part.T if tensor.num_inputs else part).reshape(view.shape)
    for copy, original in copies.items():
        if not np.array_equal(tensors[copy], tensors[original]):
            faults.append(f'{copy} differs from {original}, with which this config ties it')
    if faults:
        raise DataError('the tensors do not fit the config: ' + '; '.join(faults))
    return traverse_util.unflatten_dict(leaves, sep='/')


def to_tensors(params: Any, model: config_dict.ConfigDict) -> dict[str, np.ndarray]:
    """Their tensors from our parameters, the inverse of `to_params`.

    Raises:
      ConfigError: the model is one that TransfoXL cannot be.
    """
    _check_model(model)
    leaves = traverse_util.flatten_dict(params, sep='/')
    tensors = {}
    for name, (tensor, layer) in _tensors(model):
        parts = [_theirs(_view(np.asarray(leaves[leaf]), layer), tensor.num_inputs) for leaf in tensor.ours]
        # safetensors writes the buffer as it lies, whatever its strides.
        tensors[name] = np.ascontiguousarray(np.concatenate(parts))
    return tensors


def _tensors(model: config_dict.ConfigDict) -> Iterator[tuple[str, tuple[_Tensor, int | None]]]:
    """The name of each tensor, what it is, and of which layer."""
    for tensor in _table(model):
        for layer in range(model.num_layers) if '{}' in tensor.name else (None,):
            yield tensor.name.format(layer), (tensor, layer)


def _table(model: config_dict.ConfigDict) -> Iterator[_Tensor]:
    yield from _vocabulary(model)
    attention, ours = f'{_LAYER}dec_attn.', 'core/layers/attention/'
    yield _Tensor(f'{attention}qkv_net.weight', (f'{ours}query', f'{ours}key', f'{ours}value'), 1)
    yield _Tensor(f'{attention}r_net.weight', (f'{ours}position',), 1)
    yield _Tensor(f'{attention}o_net.weight', (f'{ours}output',), 2)
    for name, leaf in (('r_w_bias', 'u'), ('r_r_bias', 'v')):
        if model.untie_r:
            yield _Tensor(f'{attention}{name}', (f'core/layers/{leaf}',), 0)
        else:
            yield _Tensor(f'transformer.{name}', (f'core/{leaf}',), 0)
    for sublayer, norm in (('dec_attn', 'attention_norm'), ('pos_ff', 'feed_forward_norm')):
        for name, leaf in (('weight', 'scale'), ('bias', 'bias')):
            yield _Tensor(f'{_LAYER}{sublayer}.layer_norm.{name}', (f'core/layers/{norm}/LayerNorm_0/{leaf}',), 0)
    for index, leaf in ((0, 'up'), (3, 'down')):
        yield _Tensor(f'{_LAYER}pos_ff.CoreNet.{index}.weight', (f'core/layers/feed_forward/{leaf}/kernel',), 1)
        yield _Tensor(f'{_LAYER}pos_ff.CoreNet.{index}.bias', (f'core/layers/feed_forward/{leaf}/bias',), 0)


def _vocabulary(model: config_dict.ConfigDict) -> Iterator[_Tensor]:
    """Embeddings and softmax, by band where they are adaptive."""
    if not is_adaptive(model):
        yield _Tensor('transformer.word_emb.emb_layers.0.weight', ('embed/table',), 0)
        yield _Tensor('crit.out_layers.0.bias', ('head/bias',), 0)
        if not model.tie_embeddings:
            yield _Tensor('crit.out_layers.0.weight', ('head/kernel',), 0)
        return
    num_bands = len(model.adaptive_cutoffs) + 1
    if num_bands > 1:
        yield _Tensor('crit.cluster_weight', ('head/tail_kernel',), 0)
        yield _Tensor('crit.cluster_bias', ('head/tail_bias',), 0)
    tables = num_bands if model.adaptive_div > 1 else 1
    for index in range(tables):
        # Bands of one width are one tensor there, and parts of it here.
        which = (index,) if tables == num_bands else range(num_bands)
        yield _Tensor(f'transformer.word_emb.emb_layers.{index}.weight', tuple(f'embed/table_{i}' for i in which), 0)
        yield _Tensor(f'crit.out_layers.{index}.bias', tuple(f'head/bias_{i}' for i in which), 0)
        if not model.tie_embeddings:
            yield _Tensor(f'crit.out_layers.{index}.weight', tuple(f'head/kernel_{i}' for i in which), 0)
        if has_projections(model):
            yield _Tensor(f'transformer.word_emb.emb_projs.{index}', (f'embed/projection_{index}',), 1)
            if not tied_projections(model)[index]:
                yield _Tensor(f'crit.out_projs.{index}', (f'head/projection_{index}',), 1)


def _copies(model: config_dict.ConfigDict) -> Iterator[tuple[str, str]]:
    """Names under which a shared tensor may be there once more, and its own name."""
    tables = len(model.adaptive_cutoffs) + 1 if model.adaptive_div > 1 else 1
    for index in range(tables):
        if model.tie_embeddings:
            yield f'crit.out_layers.{index}.weight', f'transformer.word_emb.emb_layers.{index}.weight'
        if has_projections(model) and tied_projections(model)[index]:
            yield f'crit.out_projs.{index}', f'transformer.word_emb.emb_projs.{index}'
    if not model.untie_r:
        for layer in range(model.num_layers):
            for name in ('r_w_bias', 'r_r_bias'):
                yield f'{_LAYER.format(layer)}dec_attn.{name}', f'transformer.{name}'


def _check_model(model: config_dict.ConfigDict) -> None:
    for field, value in _FIXED:
        if model[field] != value:
            raise ConfigError(f'model.{field}={model[field]!r}: a TransfoXL model has {value!r}')


def _view(leaf: np.ndarray, layer: int | None) -> np.ndarray:
    return leaf if layer is None else leaf[layer]


def _theirs(array: np.ndarray, num_inputs: int) -> np.ndarray:
    if not num_inputs:
        return array
    return array.reshape(int(np.prod(array.shape[:num_inputs])), -1).T


def _their_shape(views: list[np.ndarray], num_inputs: int) -> tuple[int, ...]:
    shapes = [_theirs(view, num_inputs).shape for view in views]
    return (sum(shape[0] for shape in shapes), *shapes[0][1:])


def _by(shape: tuple[int, ...]) -> str:
    return ' x '.join(map(str, shape)) or 'a scalar'
