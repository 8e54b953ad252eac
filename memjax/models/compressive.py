"""Compressive Transformer: what Transformer-XL would drop is compressed and kept (arXiv 1911.05507, section 3)."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from memjax.memory import fifo
from memjax.memory.compression import Compression
from memjax.memory.reconstruction import attention_reconstruction_loss
from memjax.models.transformer_xl import LayerMemory, Shared, TransformerXL, TransformerXLBlock


class CompressiveBlock(TransformerXLBlock):
    """A Transformer-XL layer whose oldest memories are compressed by a function of its own."""

    def setup(self):
        super().setup()
        config = self.config
        self.compressor = Compression(config.compression, config.compression_rate, jnp.dtype(config.dtype))

    def compress(self, memory: LayerMemory, segment_length: int) -> tuple[fifo.Candidate, ...]:
        """The compressed form of the block that leaves the memory when this segment enters it."""
        newest = memory.slots[0]
        block_BxTxD = self._leaving_block(memory, segment_length)
        slots_BxCxD = self.compressor(block_BxTxD)
        ages_T = fifo.block_ages(newest.shape[1], segment_length)
        ages_C = fifo.pooled_ages(ages_T, self.config.compression_rate)
        return (fifo.Candidate(slots_BxCxD, jnp.broadcast_to(ages_C, slots_BxCxD.shape[:2])),)

    def auxiliary_losses(
        self, inputs_BxTxD: jax.Array, memory: LayerMemory, candidates: tuple[fifo.Candidate, ...], shared: Shared
    ) -> dict[str, jax.Array]:
        """The attention-reconstruction loss (Algorithm 2), which moves the compressor and nothing else."""
        if self.config.compression_loss == 'none':
            return {}
        block_BxTxD = self._leaving_block(memory, inputs_BxTxD.shape[1])
        loss = attention_reconstruction_loss(
            self.attention.frozen_content(inputs_BxTxD, block_BxTxD),
            self.attention.frozen_content(inputs_BxTxD, candidates[0].slots_LxBxCxD),
            shared.block_valid_B,
            shared.lengths_B,
        )
        return {'compression_loss': loss}

    def frozen_levels(self, memory: LayerMemory) -> tuple[jax.Array, ...]:
        """As in Transformer-XL, but that without an auxiliary loss the compressor learns from the language model's.

        The gradient then reaches it through the compressed slots of an earlier segment of the same step.
        """
        if self.config.compression_loss == 'none':
            return (jax.lax.stop_gradient(memory.slots[0]), *memory.slots[1:])
        return super().frozen_levels(memory)

    def _leaving_block(self, memory: LayerMemory, segment_length: int) -> jax.Array:
        return jax.lax.stop_gradient(memory.slots[0][:, :segment_length])


class CompressiveTransformer(TransformerXL):
    """The core: Transformer-XL with a second, compressed level of memory."""

    block: type[TransformerXLBlock] = CompressiveBlock

    @property
    def memory_lengths(self) -> tuple[int, ...]:
        """n_m and n_cm, in slots."""
        return (self.config.memory_length, self.config.compressed_memory_length)

    @property
    def span(self) -> int:
        """n_m + c n_cm (section 3.3)."""
        return self.config.memory_length + self.config.compression_rate * self.config.compressed_memory_length
