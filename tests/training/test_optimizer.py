"""Schedules over training steps, accumulation, and clips that do not touch each other."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from memjax.config import base_config
from memjax.training.optimizer import learning_rate, make_optimizer, part_labels, part_norms, training_step


@pytest.fixture
def fields():
    training = base_config().training
    training.update({'warmup_steps': 4, 'decay_steps': 20, 'learning_rate': 3e-4})
    return training


def params(scale=1.0):
    return {
        'core': {
            'layers': {'attention': {'query': jnp.full((3,), scale)}, 'compressor': {'kernel': jnp.full((2,), scale)}}
        }
    }


def test_compressor_is_a_part_of_its_own():
    assert part_labels(params()) == {
        'core': {'layers': {'attention': {'query': 'model'}, 'compressor': {'kernel': 'compressor'}}}
    }
    norms = part_norms(params(2.0))
    assert norms['grad_norm'] == pytest.approx(2 * 3**0.5)
    assert norms['compression_grad_norm'] == pytest.approx(2 * 2**0.5)


def test_schedule_is_the_papers(fields):
    rate = learning_rate(fields)
    assert float(rate(0)) == pytest.approx(1e-6, rel=1e-4)
    assert float(rate(2)) == pytest.approx((1e-6 + 3e-4) / 2, rel=1e-5)
    assert float(rate(4)) == pytest.approx(3e-4)
    assert float(rate(12)) == pytest.approx((3e-4 + 1e-6) / 2, rel=1e-5)
    assert float(rate(20)) == float(rate(50)) == pytest.approx(1e-6, rel=1e-4)


def test_schedule_without_warmup_begins_at_its_peak(fields):
    fields.warmup_steps = 0
    assert float(learning_rate(fields)(0)) == pytest.approx(3e-4)


def test_updates_stand_for_training_steps(fields):
    fields.update({'update_period': 4, 'update_period_start': 60})
    steps = [int(training_step(jnp.asarray(update), fields)) for update in (0, 59, 60, 61, 70)]
    assert steps == [0, 59, 60, 64, 100]


def test_period_accumulates_means_and_skips_updates_between(fields):
    fields.update({'update_period': 3, 'update_period_start': 2, 'gradient_clip': 1e9, 'warmup_steps': 0})
    optimizer = make_optimizer(fields)
    values = params()
    state = optimizer.init(values)
    changed, gradients = [], [1.0, -2.0, 3.0, 5.0, 1.0, 4.0, 1.0, 1.0]
    for gradient in gradients:
        updates, state = jax.jit(optimizer.update)(params(gradient), state, values)
        changed.append(bool(optax.tree.norm(updates) > 0))
        values = optax.apply_updates(values, updates)
    # Steps 1 and 2 update each, then every third does.
    assert changed == [True, True, False, False, True, False, False, True]
    # The same values from the means, given to an optimizer that updates every step, at rates of steps 0, 1, 2, 5.
    reference, means = optax.scale_by_adam(fields.adam_b1, fields.adam_b2, fields.adam_eps), [1.0, -2.0, 3.0, 2.0]
    expected = {'w': jnp.ones(1)}
    state = reference.init(expected)
    for mean, step in zip(means, (0, 1, 2, 5), strict=True):
        updates, state = reference.update({'w': jnp.full(1, mean)}, state)
        expected = optax.apply_updates(expected, optax.tree.scale(-learning_rate(fields)(step), updates))
    np.testing.assert_allclose(values['core']['layers']['attention']['query'][0], expected['w'][0], rtol=1e-6)


def test_large_auxiliary_gradient_does_not_starve_the_model(fields):
    # Adam hides the scale of a constant gradient, so the clips are seen in its second moments.
    optimizer = make_optimizer(fields)
    gradients = params(0.01)
    gradients['core']['layers']['compressor']['kernel'] = jnp.full((2,), 1e6)
    _, state = optimizer.update(gradients, optimizer.init(params()), params())
    moments = optax.tree.get_all_with_path(state, 'nu')
    by_part = {leaf.shape: leaf for _, tree in moments for leaf in jax.tree.leaves(tree)}
    beta = 1 - fields.adam_b2
    np.testing.assert_allclose(by_part[(3,)], beta * 0.01**2, rtol=1e-5)  # below its own clip: untouched
    np.testing.assert_allclose(by_part[(2,)], beta * (0.1 / 2**0.5) ** 2, rtol=1e-5)  # clipped to a norm of 0.1
