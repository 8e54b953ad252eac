"""Words as symbols: what stands between white space, and one symbol at each line's end.

The vocabulary is that of the training text: the symbol of a line's end first, then the words by falling count, those
of equal count in the order in which they first occur. Transformer-XL's scripts number WikiText-103's so, for which
this gives their ids.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from memjax.data.tokenizers import fingerprint_of
from memjax.errors import DataError

# str.split makes an object a word; slices keep that to some tens of megabytes.
_SLICE_BYTES = 1 << 20


@dataclass(frozen=True)
class WordRules:
    """How a corpus's words are read.

    Attributes:
      end: the symbol of a line's end.
      unknown: the symbol for words that have none.
      begins: whether every document begins with `end`, as a BOS, so that all its words are targets.
      min_count: words that occur less often in the training text have no symbol of their own.
    """

    end: str = '<eos>'
    unknown: str = '<unk>'
    begins: bool = False
    min_count: int = 1


class WordTokenizer:
    """Every word is a symbol, every line's end another.

    A last line without a newline has its end too. Text that is decoded has single spaces between words.

    Attributes:
      counts: int64 [vocab_size], how often each symbol occurs in the training text, without the BOS.
    """

    def __init__(self, words: Sequence[str], counts: Sequence[int], rules: WordRules):
        """A tokenizer of these symbols in the order of their ids, among them `rules.end`."""
        self._words = list(words)
        self._rules = rules
        self._ids = {word: index for index, word in enumerate(self._words)}
        self._unknown = self._ids.get(rules.unknown)
        self.counts = np.array(counts, np.int64)
        self.vocab_size = len(self._words)
        self.bos_id = self._ids[rules.end] if rules.begins else None
        self.fingerprint = fingerprint_of({**self.to_json(), 'counts': None})

    def encode(self, text: str) -> np.ndarray:
        """The ids of a text that begins a document, int32 [symbols]; its last line is left open.

        Raises:
          DataError: a word that has no symbol, and there is none for unknown ones.
        """
        begin = [] if self.bos_id is None or text else [self.bos_id]
        pieces = self.encode_pieces([text.encode(errors='surrogateescape')], is_open=True)
        return np.concatenate([np.array(begin, np.int32), *pieces])

    def encode_pieces(self, pieces: Iterable[bytes], is_open: bool = False) -> Iterator[np.ndarray]:
        """The ids of a document's pieces, int32; nothing for a document without a byte. A last line that is open has no
        end.

        Raises:
          DataError: as for `encode`, or the text is not UTF-8.
        """
        last = b''
        for block in _blocks(pieces):
            if not last and self.bos_id is not None:
                yield np.array([self.bos_id], np.int32)
            last = block[-1:]
            yield self._encode(_decoded(block))
        if last and last != b'\n' and not is_open:
            yield np.array([self._ids[self._rules.end]], np.int32)

    def _encode(self, text: str) -> np.ndarray:
        words = text.replace('\n', f' {self._rules.end} ').split()
        ids = np.fromiter(map(self._ids.get, words, itertools.repeat(-1)), np.int32, len(words))
        unknown = ids < 0
        if unknown.any():
            if self._unknown is None:
                raise DataError(
                    f'the word {words[int(unknown.argmax())]!r} does not occur in the training text, and neither does '
                    f'{self._rules.unknown}, which would stand for it'
                )
            ids[unknown] = self._unknown
        return ids

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """The words of ids with a space between two and a newline at a line's end; no symbol becomes U+FFFD."""
        words = (self._words[i] if 0 <= i < self.vocab_size else '\ufffd' for i in np.asarray(ids, np.int64).tolist())
        parts = ('\n' if word == self._rules.end else word for word in words)
        return ' '.join(parts).replace(' \n', '\n').replace('\n ', '\n')

    def to_json(self) -> dict[str, Any]:
        """What `word_tokenizer_from_json` makes it from."""
        rules = self._rules
        return {
            'kind': 'words',
            'end': rules.end,
            'unknown': rules.unknown,
            'begins': rules.begins,
            'words': ' '.join(self._words),
            'counts': self.counts.tolist(),
        }


def word_tokenizer_from_json(description: dict[str, Any]) -> WordTokenizer:
    """The tokenizer that a store describes."""
    rules = WordRules(description['end'], description['unknown'], description['begins'])
    return WordTokenizer(description['words'].split(' '), description['counts'], rules)


def count_words(documents: Iterable[Iterable[bytes]], rules: WordRules) -> WordTokenizer:
    """The tokenizer of a training text.

    Args:
      documents: of the training split, each in pieces.
      rules: of the corpus.

    Raises:
      DataError: there are no words, or the text is not UTF-8.
    """
    counter: collections.Counter[str] = collections.Counter()
    ends = 0
    for pieces in documents:
        last = b''
        for block in _blocks(pieces):
            counter.update(_decoded(block).split())
            ends += block.count(b'\n')
            last = block[-1:]
        ends += bool(last) and last != b'\n'
    ends += counter.pop(rules.end, 0)
    if not counter:
        raise DataError('the training text holds no words')
    rare = {word for word, count in counter.items() if count < rules.min_count and word != rules.unknown}
    dropped = sum(counter.pop(word) for word in rare)
    symbols = [(rules.end, ends)]
    if dropped and rules.unknown not in counter:
        symbols.append((rules.unknown, dropped))
    elif dropped:
        counter[rules.unknown] += dropped
    symbols += counter.most_common()
    words, counts = zip(*symbols, strict=True)
    return WordTokenizer(words, counts, rules)


def _decoded(block: bytes) -> str:
    try:
        return block.decode()
    except UnicodeDecodeError as error:
        raise DataError(f'text is not UTF-8 ({error.reason}): it has no words') from None


def _blocks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same text in blocks that end with a space or a newline, the last perhaps without; none is empty."""
    rest = b''
    for piece in pieces:
        for begin in range(0, len(piece), _SLICE_BYTES):
            rest += piece[begin : begin + _SLICE_BYTES]
            end = max(rest.rfind(b' '), rest.rfind(b'\n')) + 1
            if end:
                yield rest[:end]
                rest = rest[end:]
    if rest:
        yield rest
