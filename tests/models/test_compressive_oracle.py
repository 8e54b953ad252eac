"""The Compressive Transformer against a slow reading of the paper's two algorithms (compressive_reading.py)."""

from __future__ import annotations

import itertools
import math
import operator
from typing import Any, NamedTuple

import compressive_reading as paper
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from memjax.config import base_config
from memjax.models.contract import LanguageModel, Segment
from memjax.models.factory import build_model, init_params

B, T = 2, 4
SEGMENTS = 9
VOCAB = 7
LAYERS = 2
NORMS = ('pre', 'post')
GRADIENT_SEGMENTS = 5
TOLERANCE = 1e-5

# Compression rate, memory and compressed memory, in slots. A compressed memory that is no multiple of a block's slots
# loses part of a block at a time.
LENGTHS = {'conv': (2, 8, 5), 'max': (2, 4, 5), 'mean': (4, 8, 3), 'most_used': (2, 8, 5), 'dilated_conv': (2, 4, 5)}
# Some distances of each scheme lie above, some below.
CLAMPS = {'slots': 9, 'separate': 5, 'time': 14}


class Text(NamedTuple):
    """Row 0 is one document; row 1 is a short one, padded, and then another."""

    inputs_SxBxT: np.ndarray
    targets_SxBxT: np.ndarray
    start_SxB: np.ndarray
    lengths_SxB: np.ndarray

    def real_SxBxT(self) -> np.ndarray:
        return np.arange(T) < self.lengths_SxB[..., None]


@pytest.fixture(scope='module')
def text() -> Text:
    generator = np.random.default_rng(2)
    start_SxB = np.zeros((SEGMENTS, B), bool)
    start_SxB[0] = start_SxB[3, 1] = True
    lengths_SxB = np.full((SEGMENTS, B), T, np.int32)
    lengths_SxB[2, 1] = 3
    inputs, targets = generator.integers(0, VOCAB, (2, SEGMENTS, B, T), dtype=np.int32)
    return Text(inputs, targets, start_SxB, lengths_SxB)


def make_config(compression: str, positions: str, norm: str, loss: str = 'attention') -> Any:
    """A model section. Post-norm ones also clamp distances, keep the window's length and do not share u and v."""
    model = base_config().model
    rate, memory_length, compressed_length = LENGTHS[compression]
    model.update(
        name='compressive',
        vocab_size=VOCAB,
        num_layers=LAYERS,
        num_heads=2,
        head_dim=3,
        model_dim=8,
        mlp_dim=10,
        norm=norm,
        memory_length=memory_length,
        compressed_memory_length=compressed_length,
        compression_rate=rate,
        compression=compression,
        compression_loss=loss,
        compressed_positions=positions,
        clamp_length=CLAMPS[positions] if norm == 'post' else None,
        same_length=norm == 'post',
        untie_r=norm == 'post',
    )
    return model


def to_settings(model: Any) -> paper.Settings:
    return paper.Settings(
        norm=model.norm,
        compression=model.compression,
        rate=model.compression_rate,
        positions=model.compressed_positions,
        memory_length=model.memory_length,
        compressed_length=model.compressed_memory_length,
        clamp=math.inf if model.clamp_length is None else model.clamp_length,
        same_length=model.same_length,
    )


def rich_params(model: LanguageModel) -> dict:
    """Random parameters, large enough that attention is far from uniform, biases and gains included."""
    shapes = jax.eval_shape(lambda key: init_params(model, T, key), jax.random.key(0))
    generator = np.random.default_rng(3)

    def draw(path, shape):
        gain = path[-1].key == 'scale'
        return (0.4 * generator.standard_normal(shape.shape) + gain).astype(np.float32)

    return jax.tree_util.tree_map_with_path(draw, shapes)


def to_weights(params: dict) -> dict:
    """The reading's weights, float64: a dict a layer, each with the u and v that it uses."""
    params = jax.tree.map(lambda array: np.asarray(array, np.float64), params)
    core = params['core']

    def norm(tree: dict) -> tuple[np.ndarray, np.ndarray]:
        return tree['LayerNorm_0']['scale'], tree['LayerNorm_0']['bias']

    layers = []
    for index in range(LAYERS):
        tree = jax.tree.map(operator.itemgetter(index), core['layers'])
        layer = dict(tree['attention'])
        layer |= {name: (tree if name in tree else core)[name] for name in ('u', 'v')}
        if 'far_position' in layer:
            layer['far_v'] = (tree if 'far_v' in tree else core)['far_v']
        if 'compressor' in tree:
            names = {'kernel': 'compression', 'bias': 'compression_bias'}
            names |= {'dilated_kernel': 'dilated', 'dilated_bias': 'dilated_bias'}
            layer |= {names[name]: array for name, array in tree['compressor'].items()}
        for name in ('up', 'down'):
            layer |= {name: tree['feed_forward'][name]['kernel'], f'{name}_bias': tree['feed_forward'][name]['bias']}
        layer |= {name: norm(tree[name]) for name in ('attention_norm', 'feed_forward_norm')}
        layers.append(layer)
    weights = {'embedding': params['embed']['table'], 'output_bias': params['head']['bias'], 'layers': layers}
    return weights | ({'final_norm': norm(core['final_norm'])} if 'final_norm' in core else {})


class Result(NamedTuple):
    """What either side says of a text."""

    losses_SxBxT: np.ndarray  # nats; 0 for padding
    reconstruction_SxL: np.ndarray
    memories_SxB: list[list[list[paper.LayerMemory]]] | None = None  # as each segment read them, by layer


def read_text(
    weights: dict,
    settings: paper.Settings,
    text: Text,
    compressor: list[dict] | None = None,
    memories_SxB: list[list[list[paper.LayerMemory]]] | None = None,
) -> Result:
    """The reading of all segments and rows; from given memories, if any, instead of its own."""
    S = len(text.inputs_SxBxT)
    losses_SxBxT, reconstruction_SxL, read_SxB = np.zeros((S, B, T)), np.zeros((S, LAYERS)), []
    own_B = [[paper.LayerMemory()] * LAYERS for _ in range(B)]
    for s in range(S):
        errors = [[] for _ in range(LAYERS)]
        for b in range(B):
            if text.start_SxB[s, b]:
                own_B[b] = [paper.LayerMemory()] * LAYERS
            if memories_SxB is not None:
                own_B[b] = memories_SxB[s][b]
        read_SxB.append(list(own_B))
        for b in range(B):
            length = text.lengths_SxB[s, b]
            tokens, targets = text.inputs_SxBxT[s, b, :length], text.targets_SxBxT[s, b, :length]
            reading = paper.read_segment(weights, settings, own_B[b], tokens, targets, T, compressor)
            losses_SxBxT[s, b, :length] = reading.losses
            own_B[b] = reading.memories
            for layer, of_row in zip(errors, reading.reconstruction, strict=True):
                layer.extend(of_row)
        reconstruction_SxL[s] = [np.mean(layer) if layer else 0.0 for layer in errors]
    return Result(losses_SxBxT, reconstruction_SxL, read_SxB)


def run(model: LanguageModel, params: dict, text: Text):
    """The same by memjax, and the core's auxiliary loss by segment."""

    def read(memory, step):
        segment = Segment(step.inputs_SxBxT, step.targets_SxBxT, jnp.ones((B, T)), step.start_SxB, step.lengths_SxB)
        output, memory = model.apply({'params': params}, segment, memory, True)
        zeros_L = jnp.zeros((LAYERS,))
        by_layer = output.stats.get('compression_loss', zeros_L)
        return memory, (output.nll_BxT, by_layer, output.aux.get('compression_loss', 0.0))

    _, (nll_SxBxT, by_layer_SxL, aux_S) = jax.lax.scan(read, model.init_memory(B), text)
    return jnp.where(text.real_SxBxT(), nll_SxBxT, 0.0), by_layer_SxL, aux_S


def distance(found: jax.Array, expected: np.ndarray) -> float:
    """The largest difference, in units of the largest value expected."""
    return float(np.abs(np.asarray(found, np.float64) - expected).max() / np.abs(expected).max())


def stepped(params: dict, path: tuple, step: np.ndarray) -> dict:
    """The parameters, one of them moved, in float64: float32 would not tell so small a step."""

    def move(place: tuple, array: np.ndarray) -> np.ndarray:
        return array.astype(np.float64) + step if place == path else array

    return jax.tree_util.tree_map_with_path(move, params)


def combinations() -> list:
    """Every combination; the fast tier has each pair of pooled compression and positions, and both norms of each."""
    cases = []
    for (i, compression), (j, positions), (k, norm) in itertools.product(*map(enumerate, (LENGTHS, CLAMPS, NORMS))):
        # The selection and the wider convolution once each; the former's slots keep ages beyond what pooling gives.
        fast = (i + j + k) % 2 == 0 if i < 3 else (positions, norm) == ('time', NORMS[(i + 1) % 2])
        marks = [] if fast else [pytest.mark.slow]
        cases.append(pytest.param(compression, positions, norm, marks=marks))
    return cases


@pytest.mark.parametrize(('compression', 'positions', 'norm'), combinations())
def test_losses_are_those_of_the_papers_algorithms(text, compression, positions, norm):
    config = make_config(compression, positions, norm)
    model = build_model(config)
    params = rich_params(model)
    expected = read_text(to_weights(params), to_settings(config), text)
    assert expected.reconstruction_SxL[-1].min() > 0  # a block was evicted

    read = jax.jit(lambda params: run(model, params, text))
    losses_SxBxT, reconstruction_SxL, auxiliary_S = read(params)
    assert distance(losses_SxBxT, expected.losses_SxBxT) < TOLERANCE
    assert distance(reconstruction_SxL, expected.reconstruction_SxL) < TOLERANCE
    assert distance(auxiliary_S, expected.reconstruction_SxL.mean(axis=1)) < TOLERANCE


@pytest.mark.parametrize(
    ('positions', 'norm', 'loss'),
    [('separate', 'pre', 'attention'), pytest.param('time', 'post', 'none', marks=pytest.mark.slow)],
)
def test_gradients_are_the_differences_of_the_reading(text, positions, norm, loss):
    """What the differences hold fixed is what a gradient must not pass through.

    Memories, always; all but f_c for the reconstruction loss; f_c for the language model's loss, unless f_c has no
    other loss to learn from.
    """
    text = Text(*(array[:GRADIENT_SEGMENTS] for array in text))
    config = make_config('conv', positions, norm, loss)
    model, settings = build_model(config), to_settings(config)
    params = rich_params(model)
    weights = to_weights(params)
    memories_SxB = read_text(weights, settings, text).memories_SxB
    count = text.real_SxBxT().sum()

    def objective(params: dict) -> jax.Array:
        losses_SxBxT, _, auxiliary_S = run(model, params, text)
        return losses_SxBxT.sum() / count + auxiliary_S.sum()

    def language_loss(moved: dict) -> float:
        past_SxB = memories_SxB
        if loss == 'none':
            past_SxB = [[paper.recompressed(moved, settings, past) for past in past_B] for past_B in memories_SxB]
        return read_text(moved, settings, text, memories_SxB=past_SxB).losses_SxBxT.sum() / count

    def reconstruction_loss(moved: dict) -> float:
        result = read_text(weights, settings, text, moved['layers'], memories_SxB)
        return result.reconstruction_SxL.mean(axis=1).sum()

    gradients = jax.jit(jax.grad(objective))(params)
    generator = np.random.default_rng(4)
    distances = {}
    for path, gradient in jax.tree_util.tree_leaves_with_path(gradients):
        name = jax.tree_util.keystr(path)
        step = 1e-6 * generator.standard_normal(gradient.shape)
        reading = reconstruction_loss if loss == 'attention' and 'compressor' in name else language_loss
        above, below = (reading(to_weights(stepped(params, path, sign * step))) for sign in (1, -1))
        found = np.sum(np.asarray(gradient, np.float64) * step)
        distances[name] = abs(found - (above - below) / 2) / (1e-6 * np.linalg.norm(gradient))
    too_far = {name: value for name, value in distances.items() if not value < TOLERANCE}
    assert not too_far


@pytest.mark.parametrize(('compression', 'positions', 'norm'), [('mean', 'slots', 'pre')])
def test_attention_shown_to_an_analysis_is_that_of_the_reading(text, compression, positions, norm):
    config = make_config(compression, positions, norm)
    model, settings = build_model(config), to_settings(config)
    params = rich_params(model)
    weights, memories = to_weights(params), [paper.LayerMemory()] * LAYERS
    lengths = (settings.compressed_length, settings.memory_length, T)

    def read(memory, step):
        segment = Segment(step.inputs_SxBxT, step.targets_SxBxT, jnp.ones((B, T)), step.start_SxB, step.lengths_SxB)
        (_, memory), sown = model.apply({'params': params}, segment, memory, mutable=['intermediates'])
        return memory, sown['intermediates']['core']['layers']['attention_sum'][0]

    _, sums_SxLxBxN = jax.jit(lambda: jax.lax.scan(read, model.init_memory(B), text))()
    for s in range(SEGMENTS):
        tokens, targets = text.inputs_SxBxT[s, 0], text.targets_SxBxT[s, 0]
        reading = paper.read_segment(weights, settings, memories, tokens, targets, T)
        expected_LxN = np.zeros((LAYERS, sum(lengths)))
        for layer, past in enumerate(memories):
            held = (len(past.compressed), len(past.memory))
            # Slots are right-aligned in their level.
            columns = [lengths[0] - held[0] + i for i in range(held[0])]
            columns += [lengths[0] + lengths[1] - held[1] + i for i in range(held[1] + T)]
            for heads in reading.shares[layer]:
                for share in heads:
                    expected_LxN[layer, columns[: len(share)]] += share / len(heads)
        assert distance(sums_SxLxBxN[s, :, 0], expected_LxN) < TOLERANCE
        memories = reading.memories
    assert expected_LxN.min() > 0  # all levels were full in the end
