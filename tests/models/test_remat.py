"""Recomputing activations changes what is computed when, and nothing else."""

import functools

import jax
import numpy as np
from jax.extend.core import jaxprs_in_params
from tiny_models import CT, TXL, T, compiled, cut, each, stacked, text, tiny

SEGMENTS = 3


@functools.cache
def loss_and_gradient(**overrides):
    built = tiny(**overrides)
    segments = stacked(cut(text(2, SEGMENTS * T)))
    key = jax.random.key(0)

    def loss(params):
        def body(memory, segment_and_key):
            output, memory = built.train(params, segment_and_key[0], memory, segment_and_key[1])
            return memory, output.nll_BxT.mean() + sum(output.aux.values())

        keys = jax.random.split(key, SEGMENTS)
        return jax.lax.scan(body, built.model.init_memory(2), (segments, keys))[1].sum()

    return jax.value_and_grad(loss), built.params


@each([{**TXL[0], 'dropout_rate': 0.2, 'attention_dropout_rate': 0.2}, CT[5]])
def test_values_and_gradients_do_not_change(variant):
    function, params = loss_and_gradient(**variant)
    with_remat, _ = loss_and_gradient(**variant, remat=True)
    loss, gradient = compiled(function)(params)
    loss_with_remat, gradient_with_remat = compiled(with_remat)(params)
    np.testing.assert_allclose(loss_with_remat, loss, rtol=1e-6)
    for with_remat, without in zip(jax.tree.leaves(gradient_with_remat), jax.tree.leaves(gradient), strict=True):
        np.testing.assert_allclose(with_remat, without, rtol=1e-4, atol=1e-5)


@each([TXL[0], CT[0]])
def test_only_the_flag_puts_it_into_the_program(variant):
    function, params = loss_and_gradient(**variant)
    with_remat, _ = loss_and_gradient(**variant, remat=True)
    assert not recomputes(function, params)
    assert recomputes(with_remat, params)


def recomputes(function, params) -> bool:
    primitives = set()

    def collect(jaxpr) -> None:
        for equation in jaxpr.eqns:
            primitives.add(equation.primitive.name)
            for inner in jaxprs_in_params(equation.params):
                collect(inner)

    collect(jax.make_jaxpr(function)(params).jaxpr)
    assert 'dot_general' in primitives
    return bool(primitives & {'checkpoint', 'remat', 'remat2'})
