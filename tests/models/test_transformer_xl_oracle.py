"""Transformer-XL against another implementation's logits, losses and gradients (see golden/make_transfo_xl.py)."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ml_collections import config_dict

from memjax.config import base_config
from memjax.evaluation.convert import read_tensors
from memjax.models.contract import LanguageModel, Segment
from memjax.models.factory import build_model, init_params
from memjax.models.transfo_xl import to_params

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
    'adaptive',
)
TOLERANCE = 1e-5


def load(name: str) -> dict[str, np.ndarray]:
    with np.load(GOLDEN / f'transfo_xl_{name}.npz', allow_pickle=False) as arrays:
        return dict(arrays)


def build(case: str, golden: Mapping[str, np.ndarray]) -> tuple[LanguageModel, dict, dict]:
    """The model, its weights, and the gradients to expect."""
    config = golden_config(golden)
    file = 'untied' if config.untie_r else 'tied'
    if case == 'adaptive':
        config.update(adaptive_cutoffs=(4, 9), adaptive_div=2, tied_projections='all_but_first')
        file = case
    model = build_model(config)
    abstract = jax.eval_shape(lambda: init_params(model, golden['inputs'].shape[2], jax.random.key(0)))
    weights = read_tensors(GOLDEN / f'transfo_xl_{file}.safetensors')
    gradients = {name.removeprefix('gradient_'): golden[name] for name in golden if name.startswith('gradient_')}
    return model, to_params(weights, abstract, config), to_params(gradients, abstract, config)


def golden_config(golden: Mapping[str, np.ndarray]) -> config_dict.ConfigDict:
    """The model section of a case."""
    model = base_config().model
    model.update(
        name='transformer_xl',
        norm='post',
        activation='relu',
        vocab_size=13,
        num_layers=3,
        num_heads=3,
        head_dim=6,
        model_dim=12,
        mlp_dim=20,
        memory_length=int(golden['memory_length']),
        compressed_memory_length=0,
        clamp_length=int(golden['clamp_length']) or None,
        same_length=bool(golden['same_length']),
        untie_r=bool(golden['untie_r']),
    )
    return model


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

    gradients, (nll, logits, memory) = jax.jit(jax.grad(mean_loss, has_aux=True))(params)
    return gradients, nll, logits, memory


def distance(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, in units of the largest value expected."""
    assert found.shape == expected.shape
    return float(np.abs(np.asarray(found) - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize('case', CASES)
def test_logits_losses_gradients_and_memory_are_those_of_transfo_xl(case):
    golden = load(case)
    model, params, expected = build(case, golden)
    gradients, nll, logits, memory = run(model, params, golden)

    distances = {'logits': distance(logits, golden['logits']), 'losses': distance(nll, golden['losses'])}
    if memory.length:
        held = int(memory.count_B[0])
        assert held == golden['memory'].shape[2]
        distances['memory'] = distance(memory.slots_LxBxMxD[:, :, memory.length - held :], golden['memory'])
    assert jax.tree.structure(gradients) == jax.tree.structure(expected)
    for (path, found), wanted in zip(
        jax.tree_util.tree_leaves_with_path(gradients), jax.tree.leaves(expected), strict=True
    ):
        distances[f'gradient of {jax.tree_util.keystr(path)}'] = distance(found, wanted)
    too_far = {name: value for name, value in distances.items() if not value <= TOLERANCE}
    assert not too_far
