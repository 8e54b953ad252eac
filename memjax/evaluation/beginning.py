"""The beginning of a split, where the whole would take too long; every result says that it read no more."""

from __future__ import annotations

import dataclasses

import numpy as np

from memjax.data.store import TokenSplit
from memjax.errors import DataError


def beginning_of(split: TokenSplit, max_targets: int | None) -> TokenSplit:
    """A split's first documents, the last of them cut, so that they have so many targets.

    Args:
      split: the text.
      max_targets: None: all.

    Returns:
      The split itself if it has no more; else one whose `words` are None, for they were counted in the whole.

    Raises:
      DataError: no target would be left.
    """
    if max_targets is None or max_targets >= split.num_targets:
        return split
    if max_targets < 1:
        raise DataError(f'max_targets={max_targets} leaves no target to score')
    last_target = np.cumsum(np.maximum(np.diff(split.document_offsets) - 1, 0))
    document = int(np.searchsorted(last_target, max_targets))
    left = int(last_target[document]) - max_targets
    offsets = split.document_offsets[: document + 2].copy()
    offsets[-1] -= left
    return dataclasses.replace(split, tokens=split.tokens[: offsets[-1]], document_offsets=offsets, words=None)


def target_tokens(split: TokenSplit) -> np.ndarray:
    """The ids of all targets, in the order of the text: every symbol but each document's first."""
    is_target = np.ones(len(split.tokens), bool)
    is_target[split.document_offsets[:-1]] = False
    return split.tokens[is_target]
