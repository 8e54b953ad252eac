"""From tokens to text while they are drawn: characters that several tokens make, and strings that end a text."""

from __future__ import annotations

import numpy as np

from memjax.data.tokenizers import Tokenizer

_REPLACEMENT = '\N{REPLACEMENT CHARACTER}'
# Tokens that are decoded again with those that follow, so that a tokenizer sees what they continue.
_CONTEXT = 16


class TextStream:
    """One row's text.

    Attributes:
      is_stopped: whether the stop string was met; nothing follows then.
    """

    def __init__(self, tokenizer: Tokenizer, stop: str | None = None):
        """A text without a token.

        Args:
          tokenizer: of the tokens.
          stop: a string before which the text ends; None: none.
        """
        self._tokenizer = tokenizer
        self._stop = stop
        self._tokens = np.zeros(0, np.int64)  # the last ones
        self._given = ''  # of their text, what `_complete` has returned
        self._held = ''  # complete, but perhaps the stop string's beginning
        self.is_stopped = False

    def push(self, tokens: np.ndarray) -> str:
        """Adds tokens; returns the text that is certain now and was not returned before."""
        if self.is_stopped:
            return ''
        return self._until_stop(self._complete(tokens, is_end=False), is_end=False)

    def finish(self) -> str:
        """Returns what was held back, once no token follows."""
        if self.is_stopped:
            return ''
        return self._until_stop(self._complete(np.zeros(0, np.int64), is_end=True), is_end=True)

    def _complete(self, tokens: np.ndarray, is_end: bool) -> str:
        """New text without a last character whose bytes may not all be there: it is decoded as a replacement."""
        self._tokens = np.concatenate([self._tokens, tokens])
        text = self._tokenizer.decode(self._tokens)
        if text.endswith(_REPLACEMENT) and not is_end:
            text = text[:-1]
        new, self._given = text[len(self._given) :], text
        if len(self._tokens) > 4 * _CONTEXT:
            context = self._tokenizer.decode(self._tokens[-_CONTEXT:])
            # Only where it is certain how much of the shorter text was given.
            if not context.endswith(_REPLACEMENT):
                self._tokens, self._given = self._tokens[-_CONTEXT:], context
        return new

    def _until_stop(self, new: str, is_end: bool) -> str:
        text = self._held + new
        if self._stop is None:
            return text
        before, stop, _ = text.partition(self._stop)
        self.is_stopped = bool(stop)
        if self.is_stopped or is_end:
            self._held = ''
            return before
        length = next(n for n in range(min(len(self._stop) - 1, len(text)), -1, -1) if text.endswith(self._stop[:n]))
        self._held = text[len(text) - length :]
        return text[: len(text) - length]
