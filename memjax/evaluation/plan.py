"""What a config will cost, from shapes alone: parameters, operations, reach and memory state."""

from __future__ import annotations

import math
from typing import Any

import jax
from ml_collections import config_dict

from memjax.evaluation.flops import count_flops
from memjax.models.contract import LanguageModel
from memjax.models.factory import build_model, empty_segment, init_params


def plan(config: config_dict.ConfigDict) -> dict[str, Any]:
    """The cost of a config, at its training lengths.

    Returns:
      `parameters`: how many;
      `parameters_by_module`: dotted module -> how many, layers summed;
      `flops_per_token`: of the forward pass with full memory (matrix products, 2 a multiply-add), auxiliary losses
        left out;
      `training_flops_per_token`: of the gradient of a training step, forward and backward, auxiliary losses and
        recomputation included;
      `temporal_range`: tokens back that the last layer can be reached from, L (n_m + c n_cm); None: no bound;
      `memory_state_bytes`: of the whole batch's memory.
    """
    model = build_model(config.model)
    batch_size, segment_length = config.data.batch_size, config.data.segment_length
    params = jax.eval_shape(lambda: init_params(model, segment_length, jax.random.key(0)))
    # One row is enough for a count a token, and traces as fast as any.
    segment = jax.eval_shape(lambda: empty_segment(1, segment_length))
    memory = jax.eval_shape(lambda: model.init_memory(1))

    def forward(params, segment, memory):
        return model.apply({'params': params}, segment, memory)[0].nll_BxT

    def loss(params, segment, memory):
        rngs = {'dropout': jax.random.key(0)}
        output, _ = model.apply({'params': params}, segment, memory, True, rngs=rngs)
        return output.nll_BxT.mean() + sum(output.aux.values())

    by_module = _parameters_by_module(params)
    return {
        'parameters': sum(by_module.values()),
        'parameters_by_module': by_module,
        'flops_per_token': count_flops(forward, params, segment, memory) // segment_length,
        'training_flops_per_token': count_flops(jax.grad(loss), params, segment, memory) // segment_length,
        'temporal_range': model.core.temporal_range,
        'memory_state_bytes': memory_state_bytes(model, batch_size),
    }


def memory_state_bytes(model: LanguageModel, batch_size: int) -> int:
    """Bytes of the memory of so many rows, as training carries it."""
    memory = jax.eval_shape(lambda: model.init_memory(batch_size))
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(memory))


def _parameters_by_module(params: Any) -> dict[str, int]:
    """Counts by the module that holds the parameters directly."""
    counts: dict[str, int] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        module = '.'.join(part.key for part in path[:-1])
        counts[module] = counts.get(module, 0) + leaf.size
    return counts
