"""Segments of one's own tokens, for a model used as a library."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from memjax.models.contract import Segment


def segments(tokens: np.ndarray, segment_length: int) -> Iterator[Segment]:
    """Cuts one document into the segments that a model reads one after the other, every target scored once.

    Args:
      tokens: integers [n], n >= 2; the first is input only.
      segment_length: T; the last segment is padded.

    Yields:
      Segments of one row; the first has `start` set, so that a memory in use is emptied.
    """
    tokens = np.asarray(tokens, np.int32)
    for begin in range(0, len(tokens) - 1, segment_length):
        pairs = tokens[begin : begin + segment_length + 1]
        length = len(pairs) - 1
        padded_T = np.zeros((2, segment_length), np.int32)
        padded_T[0, :length], padded_T[1, :length] = pairs[:-1], pairs[1:]
        yield Segment(
            inputs_BxT=padded_T[None, 0],
            targets_BxT=padded_T[None, 1],
            weights_BxT=(np.arange(segment_length) < length).astype(np.float32)[None],
            start_B=np.array([begin == 0]),
            lengths_B=np.array([length], np.int32),
        )
