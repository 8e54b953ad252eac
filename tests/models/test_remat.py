"""Recomputing activations changes what is computed when, and nothing else."""

import jax
import numpy as np
from jax.extend.core import jaxprs_in_params
from tiny_models import CT, TXL, T, cut, each, text, tiny

DROPOUT = {'dropout_rate': 0.2, 'attention_dropout_rate': 0.2}


def loss_and_gradient(**overrides):
    """The traced loss of a segment, its memory a random one, dropout and all, with its gradient."""
    built = tiny(**overrides)
    segment = cut(text(2, T))[0].replace(start_B=np.zeros(2, bool))
    rng = np.random.default_rng(6)
    memory = jax.tree.map(
        lambda leaf: (
            np.full(leaf.shape, 8, np.int32)
            if leaf.dtype == np.int32
            else rng.normal(size=leaf.shape).astype(np.float32)
        ),
        built.model.init_memory(2),
    )

    def loss(params):
        output, _ = built.train(params, segment, memory, jax.random.key(0))
        return output.nll_BxT.mean() + sum(output.aux.values())

    return jax.jit(jax.value_and_grad(loss)).trace(built.params), built.params


@each([CT[2]], [{**CT[4], **DROPOUT}, {**TXL[1], **DROPOUT}])
def test_only_the_flag_recomputes_and_results_do_not_change(variant):
    plain, params = loss_and_gradient(**variant)
    with_remat, _ = loss_and_gradient(**variant, remat=True)
    assert not recomputes(plain.jaxpr.jaxpr)
    assert recomputes(with_remat.jaxpr.jaxpr)
    (loss, gradient), (loss_with_remat, gradient_with_remat) = (
        traced.lower().compile()(params) for traced in (plain, with_remat)
    )
    np.testing.assert_allclose(loss_with_remat, loss, rtol=1e-6)
    for recomputed, kept in zip(jax.tree.leaves(gradient_with_remat), jax.tree.leaves(gradient), strict=True):
        np.testing.assert_allclose(recomputed, kept, rtol=1e-4, atol=1e-5)


def recomputes(jaxpr) -> bool:
    primitives = set()

    def collect(jaxpr) -> None:
        for equation in jaxpr.eqns:
            primitives.add(equation.primitive.name)
            for inner in jaxprs_in_params(equation.params):
                collect(inner)

    collect(jaxpr)
    assert 'dot_general' in primitives
    return bool(primitives & {'checkpoint', 'remat', 'remat2'})
