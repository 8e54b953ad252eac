"""Adaptive embeddings and softmax: against a dense softmax, loops, and the counts of the published models."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from memjax.config import base_config
from memjax.models.factory import build_model, init_params
from memjax.nn import adaptive
from memjax.nn.adaptive import AdaptiveEmbedding, AdaptiveSoftmax
from memjax.nn.embeddings import Embedding, SoftmaxHead

V, D, CUTOFFS = 13, 8, (4, 9)
B, T = 2, 7
TARGETS = np.random.default_rng(0).integers(0, V, (B, T)).astype(np.int32)
Y = np.random.default_rng(1).normal(size=(B, T, D)).astype(np.float32)


def make(cutoffs=CUTOFFS, width=D, div=2, tied=True, tied_projections=(False, True, True), dtype=jnp.float32):
    """Both modules with random parameters."""
    embedding = AdaptiveEmbedding(V, cutoffs, width, div, D, 0.0, 0.5, dtype)
    head = AdaptiveSoftmax(V, cutoffs, width, div, D, tied, tied_projections, 0.5, dtype)
    params = embedding.init(jax.random.key(0), TARGETS, False)['params']
    bands = embedding.apply({'params': params}, method='tied')
    shapes = jax.eval_shape(head.init, jax.random.key(1), Y, bands)
    rng = np.random.default_rng(2)
    head_params = jax.tree.map(lambda leaf: rng.normal(size=leaf.shape).astype(np.float32), shapes)
    return embedding, params, head, head_params, bands


@pytest.mark.parametrize('options', [{}, {'div': 1, 'width': 6}, {'div': 1}, {'tied': False}, {'cutoffs': (1,)}])
def test_log_probabilities_are_those_of_the_bands_in_the_order_of_the_ids(options):
    num_bands = len(options.get('cutoffs', CUTOFFS)) + 1
    _, _, head, params, bands = make(**options, tied_projections=(False,) * num_bands)
    found = np.asarray(head.apply(params, Y, bands), np.float64)
    weights, cutoffs, div = params['params'], options.get('cutoffs', CUTOFFS), options.get('div', 2)
    edges = (0, *cutoffs, V)

    def logits(y, band):
        projection = weights.get(f'projection_{0 if div == 1 else band}')
        y = y if projection is None else y @ np.asarray(projection, np.float64).T
        kernel = np.asarray(weights.get(f'kernel_{band}', bands[band].table), np.float64)
        rows = [kernel @ y + weights[f'bias_{band}']]
        if band == 0:
            rows.append(weights['tail_kernel'] @ y + weights['tail_bias'])
        return np.concatenate(rows)

    def softmax(x):
        return np.exp(x) / np.exp(x).sum()

    for b in range(B):
        for t in range(T):
            first = softmax(logits(Y[b, t].astype(np.float64), 0))
            expected = [*first[: cutoffs[0]]]
            for band in range(1, len(cutoffs) + 1):
                tail = softmax(logits(Y[b, t].astype(np.float64), band))
                assert len(tail) == edges[band + 1] - edges[band]
                expected += [*(first[cutoffs[0] + band - 1] * tail)]
            np.testing.assert_allclose(np.exp(found[b, t]), expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(np.exp(found).sum(-1), 1, rtol=1e-5)


@pytest.mark.parametrize('chunk', [1, 4, 5, 100])
def test_losses_are_the_targets_log_probabilities_in_the_order_of_the_text(chunk, monkeypatch):
    monkeypatch.setattr(adaptive, '_CHUNK', chunk)
    _, _, head, params, bands = make()
    assert len({int(np.searchsorted(CUTOFFS, target, side='right')) for target in TARGETS[0]}) == 3

    def by_nll(params, y):
        return head.apply(params, y, TARGETS, bands, method='nll')

    def by_log_probabilities(params, y):
        return -jnp.take_along_axis(head.apply(params, y, bands), TARGETS[..., None], -1)[..., 0]

    np.testing.assert_allclose(by_nll(params, Y), by_log_probabilities(params, Y), rtol=1e-5, atol=1e-5)
    weights = np.random.default_rng(3).normal(size=(B, T))
    gradients = [
        jax.grad(lambda *args, f=f: (f(*args) * weights).sum(), argnums=(0, 1))(params, Y)
        for f in (by_nll, by_log_probabilities)
    ]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), *gradients)


def test_without_cutoffs_it_is_a_dense_softmax():
    embedding, params, head, head_params, bands = make(cutoffs=(), div=1, tied_projections=(True,))
    dense = Embedding(V, D, 0.0, 0.5, jnp.float32)
    x = dense.apply({'params': {'table': params['table_0']}}, TARGETS, False)
    np.testing.assert_array_equal(embedding.apply({'params': params}, TARGETS, False), x)
    softmax = SoftmaxHead(V, True, 0.5, jnp.float32)
    variables = {'params': {'bias': head_params['params']['bias_0']}}
    table = bands[0].table
    expected = softmax.apply(variables, Y, TARGETS, table, method='nll')
    np.testing.assert_allclose(head.apply(head_params, Y, TARGETS, bands, method='nll'), expected, rtol=1e-5, atol=1e-5)
    log_probabilities = jax.nn.log_softmax(softmax.apply(variables, Y, table))
    np.testing.assert_allclose(head.apply(head_params, Y, bands), log_probabilities, rtol=1e-5, atol=1e-5)


def test_a_tokens_embedding_is_its_bands_row_projected():
    embedding, params, *_ = make()
    x = np.asarray(embedding.apply({'params': params}, np.arange(V)[None], False))[0]
    for token in range(V):
        band = int(np.searchsorted(CUTOFFS, token, side='right'))
        row = params[f'table_{band}'][token - (0, *CUTOFFS)[band]]
        np.testing.assert_allclose(x[token], row @ params[f'projection_{band}'] * D**0.5, rtol=1e-5, atol=1e-5)


def test_tied_projections_are_the_embeddings_and_others_the_heads():
    _, _, _, params, _ = make(tied_projections=(False, True, True))
    assert {name for name in params['params'] if 'projection' in name} == {'projection_0'}
    _, _, _, params, _ = make(tied_projections=(True, True, True))
    assert not [name for name in params['params'] if 'projection' in name or 'kernel_' in name]


def test_bfloat16_log_likelihoods_are_float32():
    _, _, head, params, bands = make(dtype=jnp.bfloat16)
    assert head.apply(params, Y, bands).dtype == jnp.float32
    assert head.apply(params, Y, TARGETS, bands, method='nll').dtype == jnp.float32


def count(**fields):
    model = base_config().model
    model.update(name='transformer_xl', vocab_size=267_735, compressed_memory_length=0, norm='post', **fields)
    params = jax.eval_shape(lambda: init_params(build_model(model), 8, jax.random.key(0)))
    return sum(leaf.size for leaf in jax.tree.leaves(params))


def test_wikitext_103_models_have_the_published_sizes():
    cutoffs = {'adaptive_cutoffs': (20_000, 40_000, 200_000)}
    base = {'num_layers': 16, 'model_dim': 410, 'num_heads': 10, 'head_dim': 41, 'mlp_dim': 2100}
    assert count(**base, **cutoffs) == 151_107_538
    large = {'num_layers': 18, 'model_dim': 1024, 'num_heads': 16, 'mlp_dim': 4096, 'adaptive_div': 4}
    assert count(**large, **cutoffs, tied_projections='all_but_first') == 285_170_506
    assert count(**large, **cutoffs, tied_projections='all') == 285_170_506 - 1024**2
