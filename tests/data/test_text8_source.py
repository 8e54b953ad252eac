"""text8, with a text of 1,000 characters in its place."""

from __future__ import annotations

import zipfile

import pytest

from memjax.data import text8
from memjax.data.prepare import prepare
from memjax.data.sources import SPLITS, SpanReader
from memjax.data.text8 import text8_source
from memjax.errors import DataError

TEXT = (b'the quick brown fox jumps over the lazy dog ' * 30)[:1000]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(text8, 'NUM_CHARACTERS', 1000)


def test_raw_or_zipped_it_is_cut_90_5_5(tmp_path):
    (tmp_path / 'text8').write_bytes(TEXT)
    with zipfile.ZipFile(tmp_path / 'archive', 'w') as archive:
        archive.writestr('text8', TEXT)
    for location in (tmp_path, tmp_path / 'archive'):
        source = text8_source(str(location), tmp_path, progress=False)
        with SpanReader(source) as reader:
            texts = [b''.join(map(reader.read, source.splits[split])) for split in SPLITS]
        assert texts == [TEXT[:900], TEXT[900:950], TEXT[950:]]


@pytest.mark.parametrize(
    ('text', 'complaint'),
    [
        (TEXT[:-1], '999 characters, expected 1,000'),
        (TEXT + b'a', 'more than 1,000 characters'),
        (TEXT[:-1] + b'A', "it holds b'A'"),
        (b'ab ' * 333 + b'a', "it never has b'c'"),
    ],
)
def test_what_is_not_text8(tmp_path, text, complaint):
    (tmp_path / 'text8').write_bytes(text)
    with pytest.raises(DataError, match='is not text8') as caught:
        text8_source(str(tmp_path), tmp_path, progress=False)
    assert complaint in str(caught.value)


def test_it_has_27_symbols(tmp_path, data_config):
    (tmp_path / 'text8').write_bytes(TEXT)
    data = data_config(name='text8', convention='characters')
    corpus = prepare(data, tmp_path / 'data', source=str(tmp_path / 'text8'), progress=False)
    assert corpus.vocab_size == 27
    assert corpus.splits['test'].tokens[:4].tolist() == corpus.tokenizer.encode(TEXT[950:954].decode()).tolist()
    assert corpus.tokenizer.encode(' az').tolist() == [0, 1, 26]
