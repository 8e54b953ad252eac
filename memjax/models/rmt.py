"""Recurrent Memory Transformer (Bulatov et al., arXiv 2207.06881), alone or on top of Transformer-XL's memory.

A few memory tokens stand at both ends of the segment: the first ones hold what the segment before wrote, the last ones
begin as the same states and become, after all layers, what the next segment reads. The gradient goes through them to
earlier segments of the same step.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax import struct

from memjax.memory import fifo
from memjax.memory.parts import Memory, join, split
from memjax.models.contract import RECURRENT_WARMUP
from memjax.models.replay import Replay
from memjax.models.transformer_xl import TransformerXL


@struct.dataclass
class RecurrentMemory:
    """What one segment leaves for the next."""

    cached: Memory  # Transformer-XL's, of length 0 for the plain model
    written_BxMxD: jax.Array  # compute dtype
    is_empty_B: jax.Array  # bool, nothing is written yet: the learned initial tokens are read


class RecurrentMemoryTransformer(Replay, TransformerXL):
    """The core: Transformer-XL whose segments have memory tokens at both ends."""

    reads_several = False

    def setup(self):
        super().setup()
        shape = (self.config.num_memory_tokens, self.config.model_dim)
        self.initial_MxD = self.param('memory_tokens', nn.initializers.normal(1.0), shape, jnp.float32)

    @property
    def span(self) -> int:
        """Tokens of warm-up in evaluation; what is older may still show a little."""
        return self.config.memory_length + RECURRENT_WARMUP

    @property
    def temporal_range(self) -> None:
        """Without a bound."""
        return None

    def init_memory(self, batch_size: int) -> RecurrentMemory:
        """An empty memory; needs no parameters."""
        shape = (batch_size, self.config.num_memory_tokens, self.config.model_dim)
        return RecurrentMemory(
            cached=super().init_memory(batch_size),
            written_BxMxD=jnp.zeros(shape, jnp.dtype(self.config.dtype)),
            is_empty_B=jnp.ones((batch_size,), bool),
        )

    def batch_size(self, memory: RecurrentMemory) -> int:
        """B."""
        return memory.is_empty_B.shape[0]

    def map_rows(self, function: Callable[..., jax.Array], *memories: RecurrentMemory) -> RecurrentMemory:
        """See `fifo.map_rows`."""
        return RecurrentMemory(
            cached=super().map_rows(function, *(memory.cached for memory in memories)),
            written_BxMxD=function(0, *(memory.written_BxMxD for memory in memories)),
            is_empty_B=function(0, *(memory.is_empty_B for memory in memories)),
        )

    def cache(self, memory: RecurrentMemory, segment_length: int) -> RecurrentMemory:
        """See `TransformerXL.cache`; a segment has memory tokens at both ends."""
        return memory.replace(cached=super().cache(memory.cached, segment_length + 2 * self.config.num_memory_tokens))

    def __call__(
        self, x_BxTxD: jax.Array, start_B: jax.Array, memory: RecurrentMemory, lengths_B: jax.Array, train: bool
    ) -> tuple[jax.Array, RecurrentMemory, dict[str, jax.Array], dict[str, jax.Array]]:
        """Reads one segment of states (see `TransformerXL.__call__`)."""
        M, T = self.config.num_memory_tokens, x_BxTxD.shape[1]
        is_empty_B = memory.is_empty_B | start_B
        tokens_BxMxD = jnp.where(
            is_empty_B[:, None, None], self.initial_MxD.astype(x_BxTxD.dtype), memory.written_BxMxD
        )
        cached = [fifo.forget(each, start_B) for each in split(memory.cached)]
        y_BxNxD, gathered = self._read(
            jnp.concatenate([tokens_BxMxD, x_BxTxD, tokens_BxMxD], axis=1), cached, lengths_B, train
        )
        # The text alone is cached; to the next segment it is farther by the tokens that are read between.
        texts = [
            jax.tree.map(lambda array: array[..., M : M + T, :], inputs_LxBxNxD) for inputs_LxBxNxD, _, _ in gathered
        ]
        memory = RecurrentMemory(
            cached=join(map(fifo.push, cached, texts)),
            written_BxMxD=y_BxNxD[:, M + T :],
            is_empty_B=jnp.zeros_like(is_empty_B),
        )
        return y_BxNxD[:, M : M + T], memory, {}, {}
