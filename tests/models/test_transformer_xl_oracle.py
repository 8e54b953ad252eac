"""Transformer-XL against another implementation's logits, losses and gradients (see golden/make_transfo_xl.py)."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick_compilation import OPTIONS

from memjax.config import base_config
from memjax.models.contract import LanguageModel, Segment
from memjax.models.factory import build_model

GOLDEN = pathlib.Path(__file__).parent / 'golden'
# The fast tier leaves out what the other cases hold too.
CASES = (
    pytest.param('no_memory', marks=pytest.mark.slow),
    'long_memory',
    pytest.param('short_memory', marks=pytest.mark.slow),
    pytest.param('clamp', marks=pytest.mark.slow),
    'same_length',
    'same_length_short_memory',
    'untied_everything',
)
TOLERANCE = 1e-5


def load(name: str) -> dict[str, np.ndarray]:
    with np.load(GOLDEN / f'transfo_xl_{name}.npz', allow_pickle=False) as arrays:
        return dict(arrays)


def to_params(arrays: Mapping[str, np.ndarray], prefix: str, untie_r: bool) -> dict:
    """The other implementation's weights, or gradients, as a parameter tree."""
    layers = arrays[f'{prefix}up'].shape[0]
    heads, head_dim = arrays[f'{prefix}u'].shape[1:]

    def heads_last(kernel_LxHKxD: np.ndarray) -> np.ndarray:
        return kernel_LxHKxD.swapaxes(1, 2).reshape(layers, -1, heads, head_dim)

    def norm(name: str) -> dict:
        return {'LayerNorm_0': {'scale': arrays[f'{prefix}{name}_gain'], 'bias': arrays[f'{prefix}{name}_bias']}}

    def dense(name: str) -> dict:
        return {'kernel': arrays[f'{prefix}{name}'].swapaxes(1, 2), 'bias': arrays[f'{prefix}{name}_bias']}

    query, key, value = (heads_last(part) for part in np.split(arrays[f'{prefix}qkv'], 3, axis=1))
    output_LxDxHK = arrays[f'{prefix}output']
    core = {
        'layers': {
            'attention': {
                'query': query,
                'key': key,
                'value': value,
                'position': heads_last(arrays[f'{prefix}position']),
                'output': output_LxDxHK.swapaxes(1, 2).reshape(layers, heads, head_dim, -1),
            },
            'attention_norm': norm('attention'),
            'feed_forward': {'up': dense('up'), 'down': dense('down')},
            'feed_forward_norm': norm('feed_forward'),
        }
    }
    for name in ('u', 'v'):
        by_layer = arrays[f'{prefix}{name}']
        (core['layers'] if untie_r else core)[name] = by_layer if untie_r else by_layer[0]
    return {
        'embed': {'table': arrays[f'{prefix}embedding']},
        'core': core,
        'head': {'bias': arrays[f'{prefix}output_bias']},
    }


def build(golden: Mapping[str, np.ndarray], weights: Mapping[str, np.ndarray]) -> LanguageModel:
    model = base_config().model
    layers, heads, head_dim = weights['u'].shape
    vocab_size, model_dim = weights['embedding'].shape
    model.update(
        name='transformer_xl',
        norm='post',
        activation='relu',
        vocab_size=vocab_size,
        num_layers=layers,
        num_heads=heads,
        head_dim=head_dim,
        model_dim=model_dim,
        mlp_dim=weights['up'].shape[1],
        memory_length=int(golden['memory_length']),
        compressed_memory_length=0,
        clamp_length=int(golden['clamp_length']) or None,
        same_length=bool(golden['same_length']),
        untie_r=bool(golden['untie_r']),
    )
    return build_model(model)


def run(model: LanguageModel, params: dict, golden: Mapping[str, np.ndarray]):
    """Reads all segments: gradients of the mean loss, losses and logits by segment, and the last memory."""
    S, B, T = golden['inputs'].shape

    def mean_loss(params: dict):
        def read(memory, step):
            inputs_BxT, targets_BxT, start_B = step
            lengths_B = jnp.full((B,), T, jnp.int32)
            segment = Segment(inputs_BxT, targets_BxT, jnp.ones((B, T)), start_B, lengths_B)
            output, memory = model.apply({'params': params}, segment, memory, False, True)
            return memory, (output.nll_BxT, output.logits_BxTxV)

        start_SxB = jnp.zeros((S, B), bool).at[0].set(True)
        steps = (golden['inputs'], golden['targets'], start_SxB)
        memory, (nll_SxBxT, logits_SxBxTxV) = jax.lax.scan(read, model.init_memory(B), steps)
        return nll_SxBxT.mean(), (nll_SxBxT, logits_SxBxTxV, memory.levels[0])

    gradients, (nll, logits, memory) = jax.jit(jax.grad(mean_loss, has_aux=True), compiler_options=OPTIONS)(params)
    return gradients, nll, logits, memory


def distance(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, in units of the largest value expected."""
    assert found.shape == expected.shape
    return float(np.abs(np.asarray(found) - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize('case', CASES)
def test_logits_losses_gradients_and_memory_are_those_of_transfo_xl(case):
    weights, golden = load('weights'), load(case)
    untie_r = bool(golden['untie_r'])
    params = to_params(weights, '', untie_r)
    gradients, nll, logits, memory = run(build(golden, weights), params, golden)

    distances = {'logits': distance(logits, golden['logits']), 'losses': distance(nll, golden['losses'])}
    if memory.length:
        held = int(memory.count_B[0])
        assert held == golden['memory'].shape[2]
        distances['memory'] = distance(memory.slots_LxBxMxD[:, :, memory.length - held :], golden['memory'])
    expected = to_params(golden, 'gradient_', untie_r)
    assert jax.tree.structure(gradients) == jax.tree.structure(expected)
    for (path, found), wanted in zip(
        jax.tree_util.tree_leaves_with_path(gradients), jax.tree.leaves(expected), strict=True
    ):
        distances[f'gradient of {jax.tree_util.keystr(path)}'] = distance(found, wanted)
    too_far = {name: value for name, value in distances.items() if not value <= TOLERANCE}
    assert not too_far
