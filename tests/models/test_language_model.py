"""The contract's outer layer: what a model says of a segment."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_models import CT, TXL, T, cut, each, text, tiny

from memjax.config import base_config
from memjax.errors import ConfigError
from memjax.models.factory import build_model, empty_segment, init_params


@each([TXL[0], CT[0]])
def test_losses_are_those_of_the_logits(variant):
    built = tiny(**variant)
    segment = cut(text(2, T))[0]
    output, _ = built.read(built.params, segment, built.model.init_memory(2))
    log_probabilities = np.asarray(jax.nn.log_softmax(output.logits_BxTxV))
    expected = -np.take_along_axis(log_probabilities, np.asarray(segment.targets_BxT)[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(output.nll_BxT, expected, rtol=1e-5, atol=1e-6)
    assert output.nll_BxT.dtype == jnp.float32


def test_weights_decide_nothing_here():
    built = tiny(**CT[0])
    memory = built.read_text(cut(text(2, 4 * T)))[1]
    segment = cut(text(2, T))[0].replace(start_B=jnp.zeros(2, bool))
    read = jax.jit(built.train)
    output, after = read(built.params, segment, memory)
    unscored, after_unscored = read(built.params, segment.replace(weights_BxT=jnp.zeros((2, T))), memory)
    for leaf, expected in zip(
        jax.tree.leaves((unscored, after_unscored)), jax.tree.leaves((output, after)), strict=True
    ):
        np.testing.assert_array_equal(leaf, expected)


def test_logits_come_only_when_asked_for():
    built = tiny(**TXL[0])
    segment, memory = empty_segment(2, T), built.model.init_memory(2)

    def shape(**asked):
        return jax.eval_shape(lambda: built.model.apply({'params': built.params}, segment, memory, **asked)[0])

    assert shape().logits_BxTxV is None
    assert shape(return_logits=True).logits_BxTxV.shape == (2, T, 11)
    assert shape().nll_BxT.shape == (2, T)


def test_a_new_memory_is_empty():
    memory = tiny(**CT[0]).model.init_memory(3)
    assert [level.length for level in memory.levels] == [8, 6]
    assert all((level.count_B == 0).all() and level.count_B.shape == (3,) for level in memory.levels)


def test_an_unknown_model_is_refused():
    section = base_config().model
    section.name = 'perceiver'
    with pytest.raises(ConfigError, match='unknown model'):
        build_model(section)


@pytest.mark.slow
def test_weights_start_at_their_scale():
    section = base_config().model
    section.update(name='transformer_xl', model_dim=64, mlp_dim=256, num_layers=2, init_scale=0.02)
    params = jax.jit(lambda key: init_params(build_model(section), T, key))(jax.random.key(0))
    layers = params['core']['layers']
    drawn = [*(layers['attention'].values()), layers['feed_forward']['up']['kernel'], params['embed']['table']]
    for leaf in drawn:
        assert abs(float(jnp.std(leaf)) - 0.02) < 0.001 and abs(float(jnp.mean(leaf))) < 0.001
    gain = layers['attention_norm']['LayerNorm_0']['scale']
    assert 0.01 < float(jnp.std(gain)) < 0.03 and abs(float(jnp.mean(gain)) - 1) < 0.01
    biases = [
        layers['feed_forward']['down']['bias'],
        layers['attention_norm']['LayerNorm_0']['bias'],
        params['head']['bias'],
    ]
    assert all((leaf == 0).all() for leaf in biases)
    # Layers do not start as copies of each other.
    assert (layers['attention']['query'][0] != layers['attention']['query'][1]).any()
