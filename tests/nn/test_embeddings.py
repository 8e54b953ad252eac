"""Embedding, head and likelihood."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from memjax.nn.embeddings import Embedding, SoftmaxHead, negative_log_likelihood

V, D = 7, 4
TABLE = np.random.default_rng(0).normal(size=(V, D)).astype(np.float32)
Y = np.random.default_rng(1).normal(size=(2, 3, D)).astype(np.float32)


def test_embeddings_are_rows_times_the_root_of_the_width():
    tokens = jnp.array([[0, 6], [3, 3]])
    x = Embedding(V, D, 0.0, 0.02, jnp.float32).apply({'params': {'table': TABLE}}, tokens, False)
    np.testing.assert_allclose(x, TABLE[np.asarray(tokens)] * np.sqrt(D), rtol=1e-6)


def test_a_tied_head_reads_the_table_and_an_untied_one_does_not():
    bias = np.arange(V, dtype=np.float32)
    tied = SoftmaxHead(V, True, 0.02, jnp.float32)
    np.testing.assert_allclose(tied.apply({'params': {'bias': bias}}, Y, TABLE), Y @ TABLE.T + bias, rtol=1e-5)
    untied = SoftmaxHead(V, False, 0.02, jnp.float32)
    params = {'params': {'bias': bias, 'kernel': TABLE[::-1]}}
    np.testing.assert_allclose(untied.apply(params, Y, TABLE), Y @ TABLE[::-1].T + bias, rtol=1e-5)


@pytest.mark.parametrize('tied, names', [(True, {'bias'}), (False, {'bias', 'kernel'})])
def test_parameters_of_the_head(tied, names):
    shapes = jax.eval_shape(SoftmaxHead(V, tied, 0.02, jnp.float32).init, jax.random.key(0), Y, TABLE)
    assert set(shapes['params']) == names


def test_logits_of_a_bfloat16_model_are_float32_and_not_rounded():
    wide = jnp.ones((1, 1, 4097), jnp.bfloat16)
    head = SoftmaxHead(1, True, 0.02, jnp.bfloat16)
    logits = head.apply({'params': {'bias': jnp.full((1,), 2.0**-10)}}, wide, wide[0])
    assert logits.dtype == jnp.float32 and logits.item() == 4097 + 2.0**-10


def test_likelihood_is_the_logsumexp_identity():
    logits = np.random.default_rng(2).normal(size=(2, 3, V)) * 5
    targets = np.array([[0, 1, 6], [2, 2, 5]])
    expected = np.zeros((2, 3))
    for b in range(2):
        for t in range(3):
            expected[b, t] = np.log(sum(np.exp(logit) for logit in logits[b, t])) - logits[b, t, targets[b, t]]
    nll = negative_log_likelihood(jnp.asarray(logits, jnp.float32), jnp.asarray(targets))
    np.testing.assert_allclose(nll, expected, rtol=1e-5, atol=1e-5)


def test_likelihood_survives_large_logits():
    nll = negative_log_likelihood(jnp.array([[[1e4, 0.0, -1e4]]]), jnp.array([[1]]))
    assert nll.item() == 1e4
