"""One training step: a scan over the segments of a batch, one gradient, one update.

Shapes: S segments a step, B rows, T segment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct

from memjax.models.contract import LanguageModel, Segment
from memjax.training.optimizer import part_norms


@struct.dataclass
class Sums:
    """What has been measured since the last line of metrics. It is part of the state, so that a resumed run's lines
    equal an unbroken one's, and so that the host need not wait for any step but those it logs."""

    nll: jax.Array  # float32, nats
    scored: jax.Array  # int32, targets
    tokens: jax.Array  # int32, tokens read, padding left out
    steps: jax.Array  # int32
    scalars: dict[str, jax.Array]  # float32, norms and auxiliary losses


@struct.dataclass
class Fault:
    """The first step whose loss or gradient was not finite: -1 if there is none."""

    step: jax.Array  # int32
    row: jax.Array  # int32, of the batch; -1: only the gradient was not finite


@struct.dataclass
class TrainState:
    """Everything that a step changes."""

    step: jax.Array  # int32, steps done
    params: Any
    opt_state: Any
    memory: Any
    sums: Sums
    fault: Fault


def empty_sums(scalars: Any) -> Sums:
    """Nothing measured; `scalars` gives the names."""
    zero = jnp.zeros((), jnp.int32)
    return Sums(
        nll=jnp.zeros((), jnp.float32),
        scored=zero,
        tokens=zero,
        steps=zero,
        scalars={name: jnp.zeros((), jnp.float32) for name in scalars},
    )


def scalar_names(model: LanguageModel, params: Any, batch: Segment) -> list[str]:
    """Names of the norms and auxiliary losses that a step of this model measures (shapes suffice)."""

    def measured(params, batch):
        first = jax.tree.map(lambda leaf: leaf[0], batch)
        memory = model.init_memory(first.inputs_BxT.shape[0])
        output, _ = model.apply({'params': params}, first, memory, True, rngs={'dropout': jax.random.key(0)})
        return output.aux

    aux = jax.eval_shape(measured, params, batch)
    return [*jax.eval_shape(part_norms, params), *aux]


def init_state(
    model: LanguageModel, optimizer: optax.GradientTransformation, params: Any, batch_size: int, names: list[str]
) -> TrainState:
    """The state before the first step."""
    return TrainState(
        step=jnp.zeros((), jnp.int32),
        params=params,
        opt_state=optimizer.init(params),
        memory=model.init_memory(batch_size),
        sums=empty_sums(names),
        fault=Fault(step=jnp.full((), -1, jnp.int32), row=jnp.full((), -1, jnp.int32)),
    )


def make_step(
    model: LanguageModel, optimizer: optax.GradientTransformation, seed: int, half_loss: bool = False
) -> Callable[[TrainState, Segment], TrainState]:
    """The function from a state and a batch to the next state, to be jitted with the state donated.

    The batch is a `Segment` whose arrays have a leading axis S. The loss is the mean over the batch's scored targets
    plus each auxiliary loss, averaged over segments. Dropout depends on (seed, step, segment) alone. With `half_loss`
    only the second half of each segment is scored (Transformer-XL, Table 6).
    """

    def loss_and_rest(params: Any, state: TrainState, batch: Segment):
        step_key = jax.random.fold_in(jax.random.key(seed), state.step)
        num_segments = batch.inputs_BxT.shape[0]

        def read(memory: Any, xs: tuple[Segment, jax.Array]):
            segment, index = xs
            rngs = {'dropout': jax.random.fold_in(step_key, index)}
            output, memory = model.apply({'params': params}, segment, memory, True, rngs=rngs)
            nll_B = (output.nll_BxT * segment.weights_BxT).sum(axis=1)
            return memory, (nll_B, output.aux)

        if num_segments > 1:
            read = jax.checkpoint(read, prevent_cse=False)
        memory, (nll_SxB, aux) = jax.lax.scan(read, state.memory, (batch, jnp.arange(num_segments)))
        aux = {name: by_segment.mean() for name, by_segment in aux.items()}
        loss = nll_SxB.sum() / jnp.maximum(batch.weights_BxT.sum(), 1.0) + sum(aux.values())
        return loss, (memory, nll_SxB.sum(axis=0), aux)

    def step(state: TrainState, batch: Segment) -> TrainState:
        if half_loss:
            T = batch.weights_BxT.shape[-1]
            batch = batch.replace(weights_BxT=jnp.where(jnp.arange(T) < T // 2, 0.0, batch.weights_BxT))
        gradient = jax.value_and_grad(loss_and_rest, has_aux=True)
        (loss, (memory, nll_B, aux)), gradients = gradient(state.params, state, batch)
        norms = part_norms(gradients)
        updates, opt_state = optimizer.update(gradients, state.opt_state, state.params)
        scalars = norms | aux
        sums = Sums(
            nll=state.sums.nll + nll_B.sum(),
            scored=state.sums.scored + (batch.weights_BxT != 0).sum(dtype=jnp.int32),
            tokens=state.sums.tokens + batch.lengths_B.sum(dtype=jnp.int32),
            steps=state.sums.steps + 1,
            scalars={name: total + scalars[name] for name, total in state.sums.scalars.items()},
        )
        finite = jnp.isfinite(loss) & jnp.isfinite(jnp.stack(list(norms.values()))).all()
        return TrainState(
            step=state.step + 1,
            params=optax.apply_updates(state.params, updates),
            opt_state=opt_state,
            memory=memory,
            sums=sums,
            fault=_first_fault(state.fault, state.step, finite, nll_B),
        )

    return step


def _first_fault(fault: Fault, step: jax.Array, finite: jax.Array, nll_B: jax.Array) -> Fault:
    bad_B = ~jnp.isfinite(nll_B)
    row = jnp.where(bad_B.any(), jnp.argmax(bad_B), -1).astype(jnp.int32)
    is_first = ~finite & (fault.step < 0)
    return Fault(step=jnp.where(is_first, step, fault.step), row=jnp.where(is_first, row, fault.row))
