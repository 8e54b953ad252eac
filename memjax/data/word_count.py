"""Counting words in a stream of bytes."""

from __future__ import annotations

import codecs


class WordCounter:
    """Counts the words of documents given piece by piece: maximal runs without Unicode white space (`str.split`).

    With `line_ends` every line's end counts as a word too, also that of a last line without a newline: what <eos> is to
    the perplexities published for WikiText-103 and its like. `words` is None once a document has turned out not to be
    UTF-8. A word never spans two documents.
    """

    # str.split makes an object a word; slices keep that to a few megabytes.
    _SLICE_BYTES = 1 << 18

    def __init__(self, line_ends: bool = False, words: int | None = 0):
        """A counter that has counted so many words."""
        self.words = words
        self._line_ends = line_ends
        self._start_document()

    def _start_document(self) -> None:
        self._decoder = codecs.getincrementaldecoder('utf-8')()
        self._within_word = False
        self._within_line = False

    def add(self, piece: bytes) -> None:
        """Reads on in the current document."""
        for start in range(0, len(piece), self._SLICE_BYTES):
            self._count(piece[start : start + self._SLICE_BYTES], final=False)

    def end_document(self) -> None:
        """The current document is complete."""
        self._count(b'', final=True)
        if self._line_ends and self._within_line and self.words is not None:
            self.words += 1
        self._start_document()

    def _count(self, piece: bytes, final: bool) -> None:
        if self.words is None:
            return
        try:
            text = self._decoder.decode(piece, final)
        except UnicodeDecodeError:
            self.words = None
            return
        if text:
            self.words += len(text.split()) - (self._within_word and not text[0].isspace())
            self._within_word = not text[-1].isspace()
            if self._line_ends:
                self.words += text.count('\n')
                self._within_line = text[-1] != '\n'
