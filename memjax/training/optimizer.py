"""Adam with separate clips for the model and its compressor, and schedules over training steps.

The compressor's auxiliary gradients may be far larger than the model's; one clip over both would starve the model.
"""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import optax
from ml_collections import config_dict

# Parameters that an auxiliary loss trains: they are clipped, stepped and logged apart from the rest.
COMPRESSOR = re.compile(r'(^|/)(higher_|de)?compressors?(_\d+)?(/|$)')


def path_name(path: tuple[Any, ...]) -> str:
    """`core/layers/attention/query` for a pytree path; indices and attributes are named like keys."""
    return '/'.join(str(getattr(part, 'key', getattr(part, 'name', getattr(part, 'idx', part)))) for part in path)


def part_labels(params: Any) -> Any:
    """`compressor` or `model` for every parameter, in the structure of `params`."""
    return jax.tree_util.tree_map_with_path(
        lambda path, _: 'compressor' if COMPRESSOR.search(path_name(path)) else 'model', params
    )


def part_norms(gradients: Any) -> dict[str, jax.Array]:
    """Global norms of the two parts, float32: `grad_norm`, and `compression_grad_norm` if there is a compressor."""
    flat = jax.tree_util.tree_leaves_with_path(gradients)
    parts = {'grad_norm': [], 'compression_grad_norm': []}
    for path, leaf in flat:
        parts['compression_grad_norm' if COMPRESSOR.search(path_name(path)) else 'grad_norm'].append(leaf)
    return {name: optax.tree.norm(leaves) for name, leaves in parts.items() if leaves}


def learning_rate(training: config_dict.ConfigDict) -> optax.Schedule:
    """Rate at a training step: linear warmup, then cosine to `decay_steps` (Compressive Transformer, section 4.5)."""
    return optax.warmup_cosine_decay_schedule(
        init_value=training.learning_rate_start if training.warmup_steps else training.learning_rate,
        peak_value=training.learning_rate,
        warmup_steps=training.warmup_steps,
        decay_steps=training.decay_steps,
        end_value=training.learning_rate_end,
    )


def training_step(update: jax.Array, training: config_dict.ConfigDict) -> jax.Array:
    """The training step at which an update is made: u up to N, then N + k (u - N)."""
    start, period = training.update_period_start, training.update_period
    return jnp.where(update <= start, update, start + period * (update - start))


def updates_done(step: int, training: config_dict.ConfigDict) -> tuple[int, int]:
    """The updates made in so many training steps, and the gradients accumulated since for the next one."""
    start, period = training.update_period_start, training.update_period
    if period == 1 or step <= start:
        return step, 0
    updates, gradients = divmod(step - start, period)
    return start + updates, gradients


def updated_at_every_step(step: int, training: config_dict.ConfigDict) -> bool:
    """Whether each of the steps so far made an update, so that no other schedule's count differs."""
    return updates_done(step, training) == (step, 0)


def make_optimizer(training: config_dict.ConfigDict) -> optax.GradientTransformation:
    """Adam as a config's `training` section describes it; its state counts updates, its schedule training steps."""

    def part(clip: float) -> optax.GradientTransformation:
        def rate(update: jax.Array) -> jax.Array:
            return learning_rate(training)(training_step(update, training))

        return optax.chain(
            optax.clip_by_global_norm(clip),
            optax.adam(rate, training.adam_b1, training.adam_b2, training.adam_eps),
        )

    parts = {'model': part(training.gradient_clip), 'compressor': part(training.compression_gradient_clip)}
    optimizer = optax.partition(parts, part_labels)
    if training.update_period == 1:
        return optimizer

    def gradients_per_update(update: jax.Array) -> jax.Array:
        return jnp.where(update < training.update_period_start, 1, training.update_period)

    # Clipping stays inside: it acts on the accumulated mean.
    return optax.MultiSteps(optimizer, gradients_per_update).gradient_transformation()
