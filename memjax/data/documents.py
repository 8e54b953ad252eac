"""What a document is within a source's files: the whole file, an article, a sentence, or the text of a line of JSON.

Records hold files as they are. Their documents are found when tokens are made, so that a corpus of millions of them
needs neither a Python object nor a record for each.

A splitter takes the pieces of a file, which may be cut anywhere, and yields its documents, each as pieces to be read
before the next document is asked for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator

from memjax.errors import DataError

Splitter = Callable[[Iterable[bytes]], Iterator[Iterable[bytes]]]

# ` = Title = `, but not ` = = Section = = `.
_TITLE = re.compile(rb'\s*= (?!= )\S.*(?<! =) =\s*')


def whole_file(pieces: Iterable[bytes]) -> Iterator[Iterable[bytes]]:
    """One document."""
    yield pieces


def sentences(pieces: Iterable[bytes]) -> Iterator[Iterable[bytes]]:
    """A document a line, with its newline; lines of white space are left out."""
    for line in lines(pieces):
        if not line.isspace():
            yield (line,)


def articles(pieces: Iterable[bytes]) -> Iterator[Iterable[bytes]]:
    """A document an article of WikiText: from a title of the first level after an empty line to the next.

    What comes before the first title belongs to the first article. An article is held in memory.
    """
    article: list[bytes] = []
    has_title, after_empty_line = False, True
    for line in lines(pieces):
        is_title = after_empty_line and _TITLE.fullmatch(line) is not None
        if is_title and has_title:
            yield article
            article = []
        has_title |= is_title
        after_empty_line = line.isspace()
        article.append(line)
    if article:
        yield article


def json_texts(pieces: Iterable[bytes]) -> Iterator[Iterable[bytes]]:
    """A document a line of JSON: the field `text` of its object. Empty lines are left out.

    Raises:
      DataError: a line is no such object.
    """
    for number, line in enumerate(lines(pieces), start=1):
        if not line.isspace():
            yield (json_text(line, number),)


def json_text(line: bytes, number: int) -> bytes:
    """The text of a line of JSON, in UTF-8; half a surrogate pair becomes U+FFFD.

    Raises:
      DataError: it is not an object with a field `text` that is text; names the line by its number.
    """
    try:
        text = json.loads(line)['text']
        if not isinstance(text, str):
            raise TypeError
    except (ValueError, TypeError, KeyError, RecursionError):
        raise DataError(f'line {number:,} is not a JSON object with a text in its field "text"') from None
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode('utf-16-le', 'surrogatepass').decode('utf-16-le', 'replace').encode()


def lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a text with their newlines; the last may have none."""
    rest: list[bytes] = []
    for piece in pieces:
        begin = 0
        while (end := piece.find(b'\n', begin) + 1) > 0:
            rest.append(piece[begin:end])
            yield b''.join(rest)
            rest, begin = [], end
        if begin < len(piece):
            rest.append(piece[begin:])
    if rest:
        yield b''.join(rest)
