"""An LSTM language model's core (Hochreiter & Schmidhuber, 1997): the memory that the others are measured against."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax import struct

from memjax.models.contract import RECURRENT_WARMUP
from memjax.models.open_segment import OpenSegment


@struct.dataclass
class LSTMMemory:
    """The cells' states."""

    cell_LxBxD: jax.Array
    hidden_LxBxD: jax.Array


@struct.dataclass
class LSTMTail:
    """A segment that is being read: an LSTM needs no more than its memory, and a segment's end is no event to it."""

    memory: LSTMMemory

    @property
    def is_full(self) -> jax.Array:
        """Never."""
        return jnp.zeros((), bool)


class LSTM(nn.Module):
    """Layers of LSTM cells of the model's width, with dropout between them.

    Attributes:
      config: the model section, frozen.
    """

    config: Any
    reads_several = False

    def setup(self):
        dtype = jnp.dtype(self.config.dtype)
        self.layers = [
            nn.RNN(nn.OptimizedLSTMCell(self.config.model_dim, dtype=dtype), return_carry=True)
            for _ in range(self.config.num_layers)
        ]
        self.dropout = nn.Dropout(self.config.dropout_rate)

    @property
    def span(self) -> int:
        """Tokens of warm-up in evaluation; what is older may still show a little."""
        return RECURRENT_WARMUP

    @property
    def temporal_range(self) -> None:
        """Without a bound."""
        return None

    def init_memory(self, batch_size: int) -> LSTMMemory:
        """States of zeros; needs no parameters."""
        shape = (self.config.num_layers, batch_size, self.config.model_dim)
        zeros = jnp.zeros(shape, jnp.dtype(self.config.dtype))
        return LSTMMemory(cell_LxBxD=zeros, hidden_LxBxD=zeros)

    def __call__(
        self, x_BxTxD: jax.Array, start_B: jax.Array, memory: LSTMMemory, lengths_B: jax.Array, train: bool
    ) -> tuple[jax.Array, LSTMMemory, dict[str, jax.Array], dict[str, jax.Array]]:
        """Reads one segment of states; what follows a row's padding begins anew, so that padding needs no care."""
        del lengths_B
        memory = jax.tree.map(lambda state: jnp.where(start_B[:, None], jnp.zeros_like(state), state), memory)
        carries = []
        for layer, carry in zip(self.layers, self._carries(memory), strict=True):
            carry, x_BxTxD = layer(x_BxTxD, initial_carry=carry)
            x_BxTxD = self.dropout(x_BxTxD, deterministic=not train)
            carries.append(carry)
        return x_BxTxD, _stacked(carries), {}, {}

    def cache(self, memory: LSTMMemory, segment_length: int) -> LSTMMemory:
        """The memory as it is: there is nothing to project."""
        del segment_length
        return memory

    def apart(self, params: Any) -> Any:
        """The parameters as they are: each layer's are by themselves."""
        return params

    def map_rows(self, function: Callable[..., jax.Array], *memories: LSTMMemory) -> LSTMMemory:
        """See `fifo.map_rows`."""
        return jax.tree.map(lambda *states: function(1, *states), *memories)

    def open(self, memory: LSTMMemory, segment_length: int) -> OpenSegment:
        """Begins a segment that is read token by token; there is no past but what its memory says."""
        del segment_length
        return OpenSegment(None, LSTMTail(memory))

    def extend(self, x_BxD: jax.Array, past: None, tail: LSTMTail) -> tuple[jax.Array, LSTMTail]:
        """Reads one token of each row."""
        del past
        carries = []
        for layer, carry in zip(self.layers, self._carries(tail.memory), strict=True):
            carry, x_BxD = layer.cell(carry, x_BxD)
            carries.append(carry)
        return x_BxD, LSTMTail(_stacked(carries))

    def close(self, state: OpenSegment) -> OpenSegment:
        """The same: there is no segment that could be full."""
        return state

    def _carries(self, memory: LSTMMemory) -> list[tuple[jax.Array, jax.Array]]:
        return list(zip(memory.cell_LxBxD, memory.hidden_LxBxD, strict=True))


def _stacked(carries: list[tuple[jax.Array, jax.Array]]) -> LSTMMemory:
    cells, hiddens = zip(*carries, strict=True)
    return LSTMMemory(cell_LxBxD=jnp.stack(cells), hidden_LxBxD=jnp.stack(hiddens))
