"""Permutations of documents too many to be listed."""

from __future__ import annotations

import numpy as np

_MASK = (1 << 64) - 1


class LargeOrder:
    """A permutation of 0 .. size - 1 that is computed item by item: a sequence, but without an array behind it.

    A Feistel network on the smallest even number of bits that holds the size; a number beyond it is put through again
    until it is within (fewer than four times on average).
    """

    _ROUNDS = 6

    def __init__(self, size: int, entropy: list[int]):
        """The permutation that these numbers stand for."""
        self._size = size
        self._bits = max((size - 1).bit_length() + 1, 2) // 2
        # Raw bits, because NumPy promises that these stay the same between versions.
        self._keys = np.random.Philox(np.random.SeedSequence(entropy)).random_raw(self._ROUNDS).tolist()

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> int:
        value = int(index)
        if not 0 <= value < self._size:
            raise IndexError(index)
        while True:
            value = self._network(value)
            if value < self._size:
                return value

    def _network(self, value: int) -> int:
        bits = self._bits
        left, right = value >> bits, value & ((1 << bits) - 1)
        for key in self._keys:
            mixed = ((right ^ key) * 0x9E3779B97F4A7C15) & _MASK
            mixed = ((mixed ^ (mixed >> 29)) * 0xBF58476D1CE4E5B9) & _MASK
            left, right = right, left ^ (mixed >> (64 - bits))
        return left << bits | right
