"""Compressive Transformer: what Transformer-XL would drop is compressed and kept (arXiv 1911.05507, section 3).

Beyond the paper, what a compressed memory would drop may be compressed once more, and so on: level k + 1 is made of
level k. With one level it is the paper's model.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
from ml_collections import config_dict

from memjax.memory import compression, fifo, reconstruction
from memjax.models.block import LayerMemory, Shared, TransformerXLBlock, attention_sum, holds_projections
from memjax.models.transformer_xl import TransformerXL


class CompressiveBlock(TransformerXLBlock):
    """A Transformer-XL layer whose oldest memories are compressed by functions of its own, one a level."""

    def setup(self):
        super().setup()
        config = self.config
        dtype = jnp.dtype(config.dtype)
        rates = rates_of(config)
        self.compressor = compression.Compression(config.compression, rates[0], dtype)
        self.higher_compressors = [compression.Compression(config.compression, rate, dtype) for rate in rates[1:]]
        if config.compression_loss == 'auto_encoding':
            self.decompressors = [compression.Decompression(rate, dtype) for rate in rates]

    def usage(self, weights_BxHxTxN: jax.Array, lengths_B: jax.Array) -> jax.Array | None:
        """Attention that each key got, for a compression that goes by it."""
        return attention_sum(weights_BxHxTxN, lengths_B) if self.config.compression == 'most_used' else None

    def compress(
        self, memory: LayerMemory, segment_length: int, usage_BxN: jax.Array | None, segments_B: jax.Array
    ) -> tuple[fifo.Candidate, ...]:
        """The compressed form of each level's block that leaves it when this segment enters the memory."""
        candidates = []
        for level, compressor in enumerate((self.compressor, *self.higher_compressors)):
            block_BxWxD = self._leaving_block(memory, level, segment_length)
            batch_size, width = block_BxWxD.shape[:2]
            if level == 0:
                ages_BxW = jnp.broadcast_to(fifo.block_ages(self.config.memory_length, width), (batch_size, width))
            else:
                ages_BxW = memory.ages[level][:, :width]
            scores_BxW = self._scores(memory, level, width, usage_BxN, segments_B)
            ages_BxC = compression.slot_ages(compressor.kind, compressor.rate, ages_BxW, scores_BxW)
            slots = self._held(memory, level + 1, compressor(block_BxWxD, scores_BxW), None, None)
            candidates.append(fifo.Candidate(slots, ages_BxC))
        return tuple(candidates)

    def auxiliary_losses(
        self, inputs_BxTxD: jax.Array, memory: LayerMemory, candidates: tuple[fifo.Candidate, ...], shared: Shared
    ) -> dict[str, jax.Array]:
        """The loss that moves the compressors and nothing else, a mean over levels.

        Attention reconstruction is the paper's Algorithm 2, auto-encoding its lossless objective; a compression
        without parameters has the first for a measure.
        """
        config = self.config
        if config.compression_loss == 'none':
            return {}
        losses = []
        for level, candidate in enumerate(candidates):
            block_BxWxD = self._leaving_block(memory, level, inputs_BxTxD.shape[1])
            full_B, slots_BxCxD = shared.full_KxB[level], candidate.slots_LxBxCxD
            if config.compression_loss == 'auto_encoding':
                decoded_BxWxD = self.decompressors[level](slots_BxCxD)
                loss = reconstruction.auto_encoding_loss(
                    block_BxWxD, decoded_BxWxD, full_B, config.compression_loss_reduction
                )
            else:
                loss = reconstruction.attention_reconstruction_loss(
                    self.attention.frozen_content(inputs_BxTxD, block_BxWxD),
                    self.attention.frozen_content(inputs_BxTxD, slots_BxCxD),
                    full_B,
                    shared.lengths_B,
                    config.compression_loss_reduction,
                )
            losses.append(loss)
        return {'compression_loss': sum(losses) / len(losses)}

    def keeps_states(self, level: int) -> bool:
        """Those of a level that is compressed into another."""
        return level < len(rates_of(self.config))

    def frozen_levels(self, memory: LayerMemory) -> tuple[fifo.Slots, ...]:
        """As in Transformer-XL, but that without an auxiliary loss the compressor learns from the language model's.

        The gradient then reaches it through the compressed slots of an earlier segment of the same step.
        """
        if self.config.compression_loss == 'none':
            return (jax.lax.stop_gradient(memory.slots[0]), *memory.slots[1:])
        return super().frozen_levels(memory)

    def _leaving_block(self, memory: LayerMemory, level: int, segment_length: int) -> jax.Array:
        """The oldest block of a level, as long as what enters it in a segment.

        Without a gradient, except where compressors learn from the language model's loss: there a level's compressor
        is reached through all the levels above.
        """
        width = segment_length // math.prod(rates_of(self.config)[:level])
        slots = memory.slots[level]
        block_BxWxD = (slots.states_LxBxMxD if holds_projections(memory) else slots)[:, :width]
        if level and self.config.compression_loss == 'none':
            return block_BxWxD
        return jax.lax.stop_gradient(block_BxWxD)

    def _scores(
        self, memory: LayerMemory, level: int, width: int, usage_BxN: jax.Array | None, segments_B: jax.Array
    ) -> jax.Array | None:
        """What a selection goes by, for the oldest `width` slots of a level."""
        if self.config.compression == 'most_used':
            # The keys are [.., level 2, level 1, level 0, segment].
            before = sum(map(fifo.num_slots, memory.slots[level + 1 :]))
            return usage_BxN[:, before : before + width]
        if self.config.compression == 'random':
            key = jax.random.fold_in(jax.random.key(0), level)
            return compression.random_scores(key, segments_B, memory.layer, width)
        return None


class CompressiveTransformer(TransformerXL):
    """The core: Transformer-XL with further, compressed levels of memory."""

    block: type[TransformerXLBlock] = CompressiveBlock
    reads_several = False

    @property
    def parts(self) -> tuple[Any, ...]:
        """A stack for each run of layers of equal rate."""
        rates = self.config.compression_rate_by_layer or (self.config.compression_rate,) * self.config.num_layers
        runs = [(rate, len(list(run))) for rate, run in itertools.groupby(rates)]
        return tuple(_changed(self.config, compression_rate=rate, num_layers=count) for rate, count in runs)

    @property
    def memory_lengths(self) -> tuple[int, ...]:
        """n_m, n_cm, and what is compressed further, in slots."""
        config = self.config
        return (config.memory_length, config.compressed_memory_length, *config.higher_memory_lengths)

    def span_of(self, part: Any) -> int:
        """n_0 + c_1 n_1 + c_1 c_2 n_2 + .. (section 3.3 for one compressed level)."""
        rates = (1, *itertools.accumulate(rates_of(part), lambda product, rate: product * rate))
        return sum(rate * length for rate, length in zip(rates, self.memory_lengths, strict=True))

    def oldest_age_of(self, part: Any, segment_length: int) -> int:
        """As in Transformer-XL; but what is left of a block that was selected from may be its oldest states."""
        if part.compression not in compression.SELECTIONS:
            return self.span_of(part)
        return self.span_of(part) + segment_length * len(rates_of(part))


def rates_of(config: Any) -> tuple[int, ...]:
    """c_1, c_2, ..: how many slots of the level before become one of each compressed level."""
    return (config.compression_rate, *config.higher_compression_rates)


def _changed(config: config_dict.FrozenConfigDict, **fields: Any) -> config_dict.FrozenConfigDict:
    changed = config_dict.ConfigDict(config)
    changed.update(fields)
    return config_dict.FrozenConfigDict(changed)
