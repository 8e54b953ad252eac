"""Recomputing activations changes what is computed when, and nothing else."""

import jax
import numpy as np
from jax.extend.core import jaxprs_in_params
from tiny_models import CT, TXL, T, cut, each, text, tiny


def loss_and_gradient(**overrides):
    """A function of the parameters: the loss of a segment with a full memory behind it, dropout and all."""
    built = tiny(**overrides)
    segments = cut(text(2, 6 * T))
    _, memory = built.read_text(segments[:-1])

    def loss(params):
        output, _ = built.train(params, segments[-1], memory, jax.random.key(0))
        return output.nll_BxT.mean() + sum(output.aux.values())

    return jax.value_and_grad(loss)


@each([{**CT[2], 'dropout_rate': 0.2, 'attention_dropout_rate': 0.2}], [TXL[1]])
def test_values_and_gradients_do_not_change(variant):
    params = tiny(**variant).params
    loss, gradient = jax.jit(loss_and_gradient(**variant))(params)
    loss_with_remat, gradient_with_remat = jax.jit(loss_and_gradient(**variant, remat=True))(params)
    np.testing.assert_allclose(loss_with_remat, loss, rtol=1e-6)
    for with_remat, without in zip(jax.tree.leaves(gradient_with_remat), jax.tree.leaves(gradient), strict=True):
        np.testing.assert_allclose(with_remat, without, rtol=1e-4, atol=1e-5)


@each([CT[0]], [TXL[1]])
def test_only_the_flag_puts_it_into_the_program(variant):
    params = tiny(**variant).params
    assert not recomputes(loss_and_gradient(**variant), params)
    assert recomputes(loss_and_gradient(**variant, remat=True), params)


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
