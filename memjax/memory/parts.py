"""A core's whole memory: one queue of all layers, or several, where layers differ in shape or are cached."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memjax.memory import fifo

# One, or one for each stack of layers; one for each layer where slots are projected.
Memory = fifo.Memory | tuple[fifo.Memory, ...]


def split(memory: Memory) -> tuple[fifo.Memory, ...]:
    """The memories of all stacks."""
    return memory if isinstance(memory, tuple) else (memory,)


def join(memories: Iterable[fifo.Memory]) -> Memory:
    """What `split` takes apart."""
    memories = tuple(memories)
    return memories[0] if len(memories) == 1 else memories


def is_cached(memory: Memory | Sequence[fifo.Memory]) -> bool:
    """Whether its slots hold projections."""
    first = memory if isinstance(memory, fifo.Memory) else memory[0]
    return isinstance(first.levels[0].slots_LxBxMxD, fifo.Projected)
