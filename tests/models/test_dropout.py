"""Dropout: the key decides it, evaluation has none, every layer has its own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from tiny_models import CT, TXL, T, cut, each, text, tiny

DROPOUT = {'dropout_rate': 0.5, 'attention_dropout_rate': 0.5}


@each([CT[5]], [TXL[0]])
def test_the_key_decides(variant):
    built = tiny(**variant, **DROPOUT)
    segment, memory = cut(text(2, T))[0], built.model.init_memory(2)
    nll = jax.jit(lambda key: built.train(built.params, segment, memory, key)[0].nll_BxT)
    once = np.asarray(nll(jax.random.key(0)))
    np.testing.assert_array_equal(nll(jax.random.key(0)), once)
    assert (np.asarray(nll(jax.random.key(1))) != once).all()


def test_layers_drop_different_units():
    """Every layer adds the same vector of ones, dropped by its own key, to a state that is otherwise zero."""
    built = tiny(**TXL[0], num_layers=3, **DROPOUT)
    params = jax.tree.map(jnp.zeros_like, built.params)
    layers = params['core']['layers']
    layers['feed_forward']['down']['bias'] += 1.0
    layers['attention_norm']['LayerNorm_0']['scale'] += 1.0
    segment, memory = cut(text(2, T))[0], built.model.init_memory(2)
    _, memory = jax.jit(built.train)(params, segment, memory, jax.random.key(0))
    # Memory holds the normed inputs: the second layer reads one mask, the third the sum of two.
    second, third = np.asarray(memory.levels[0].slots_LxBxMxD[1:, :, -T:])
    assert all(len(np.unique(row)) == 2 for row in second.reshape(-1, 16))
    assert any(len(np.unique(row)) == 3 for row in third.reshape(-1, 16))


def dropped(built, train: bool) -> set[tuple[tuple[int, ...], float]]:
    """Shape and rate of everything that dropout acts on."""
    seen = set()

    def record(call, args, kwargs, context):
        if isinstance(context.module, nn.Dropout) and not kwargs['deterministic']:
            seen.add((args[0].shape, context.module.rate))
        return call(*args, **kwargs)

    def run(segment, memory, key):
        return built.model.apply({'params': built.params}, segment, memory, train, rngs={'dropout': key})

    with nn.intercept_methods(record):
        jax.eval_shape(run, cut(text(2, T))[0], built.model.init_memory(2), jax.random.key(0))
    return seen


@pytest.mark.parametrize(
    'variant, keys, encodings',
    [(TXL[0], 12, [12]), (CT[0], 18, [18]), (CT[1], 18, [12, 10]), (CT[2], 18, [12, 48])],
    ids=['transformer_xl', 'slots', 'separate', 'time'],
)
def test_acts_on_states_encodings_of_distances_and_probabilities(variant, keys, encodings):
    on_states = {(2, T, 16), (2, T, 32), *((rows, 16) for rows in encodings)}
    expected = {(shape, 0.25) for shape in on_states} | {((2, 2, T, part), 0.5) for part in (keys - T, T)}
    built = tiny(**variant, dropout_rate=0.25, attention_dropout_rate=0.5)
    assert dropped(built, train=True) == expected
    assert dropped(built, train=False) == set()
