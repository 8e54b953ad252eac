"""WikiText-103 and PTB: a file a split, told by its count of tokens."""

from __future__ import annotations

import dataclasses
import zipfile

import pytest

from memjax.data.ptb import PTB
from memjax.data.sources import SPLITS, SpanReader
from memjax.data.wikitext103 import WIKITEXT103
from memjax.errors import DataError

TEXTS = {'train': b' = A = \n \n a b <unk> \n', 'validation': b' c \n d', 'test': b'.'}
# Words and line ends: 3 + 1, 1, 3 + 1; 1 + 1, 1 + 1 (no newline); 1 + 1.
TOKENS = {'train': 9, 'validation': 4, 'test': 2}
SMALL = dataclasses.replace(WIKITEXT103, tokens=TOKENS)


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / 'wikitext'
    path.mkdir()
    for split, name in SMALL.file_names.items():
        (path / name).write_bytes(TEXTS[split])
    return path


def texts_of(source):
    with SpanReader(source) as reader:
        return {split: b''.join(map(reader.read, source.splits[split])) for split in SPLITS}


def refused(location, corpus=SMALL, subset=False):
    with pytest.raises(DataError) as caught:
        corpus.source(None if location is None else str(location), subset, progress=False)
    assert '\n' not in str(caught.value)
    return str(caught.value)


def test_a_folder_and_a_zip_hold_the_same(folder, tmp_path):
    source = SMALL.source(str(folder), subset=False, progress=False)
    assert texts_of(source) == TEXTS
    assert source.notes == dict.fromkeys(SPLITS, 'whole')
    archive = tmp_path / 'wikitext.zip'
    with zipfile.ZipFile(archive, 'w', zipfile.ZIP_DEFLATED) as file:
        for split, name in SMALL.file_names.items():
            file.writestr(f'wikitext-103/{name}', TEXTS[split])
    zipped = SMALL.source(str(archive), subset=False, progress=False)
    assert texts_of(zipped) == TEXTS
    assert zipped.identity == source.identity
    assert zipped.text_sha256 == source.text_sha256
    # Also one level down.
    assert SMALL.source(str(tmp_path), subset=False, progress=False).identity == source.identity


def encrypted(archive):
    """Sets the flag of encryption of every member, here and in the list at the end."""
    content = bytearray(archive.read_bytes())
    for signature, offset in ((b'PK\x03\x04', 6), (b'PK\x01\x02', 8)):
        begin = content.find(signature)
        while begin >= 0:
            content[begin + offset] |= 1
            begin = content.find(signature, begin + 1)
    archive.write_bytes(content)


def test_an_encrypted_or_broken_zip_is_one_line(tmp_path):
    archive = tmp_path / 'wikitext.zip'
    with zipfile.ZipFile(archive, 'w') as file:
        for split, name in SMALL.file_names.items():
            file.writestr(name, TEXTS[split])
    whole = archive.read_bytes()
    encrypted(archive)
    assert refused(archive).endswith('is neither a folder nor a whole .zip: wiki.train.tokens is encrypted')
    archive.write_bytes(whole[: len(whole) // 2])
    assert 'is neither a folder nor a whole .zip' in refused(archive)


def test_the_published_counts():
    assert WIKITEXT103.tokens == {'train': 103_227_021, 'validation': 217_646, 'test': 245_569}
    assert PTB.tokens == {'train': 929_589, 'validation': 73_760, 'test': 82_430}


def test_another_length_is_refused_or_said(folder):
    (folder / 'wiki.valid.tokens').write_bytes(b' c \n')
    message = refused(folder)
    assert 'wiki.valid.tokens has 2 words and line ends, that of WikiText-103 4;' in message
    assert '--config.data.subset=True' in message
    source = SMALL.source(str(folder), subset=True, progress=False)
    assert source.notes == {'train': 'whole', 'validation': 'a subset of 2 of 4 tokens', 'test': 'whole'}


@pytest.mark.parametrize(('name', 'count', 'shown'), [('valid', 11_718, '11,718'), ('test', 15_218, '15,218')])
def test_wikitext_2_is_told(folder, name, count, shown):
    (folder / 'wiki.train.tokens').write_bytes(b'a b \n')
    (folder / f'wiki.{name}.tokens').write_bytes(b'<unk> ' * count)
    assert refused(folder).endswith(f'holds WikiText-2, not WikiText-103: wiki.{name}.tokens has {shown} <unk>')


def test_what_is_not_there_is_named(folder, tmp_path):
    assert 'wiki.train.tokens' in refused(None)
    assert refused(tmp_path / 'nowhere').startswith('no such file or folder')
    (folder / 'wiki.test.tokens').unlink()
    assert refused(folder).endswith('holds no wiki.test.tokens')
    (folder / 'wiki.test.tokens').write_bytes(b'')
    assert refused(folder, subset=True).endswith('wiki.test.tokens is empty')
    (folder / 'wiki.test.tokens').write_bytes(b'a \xff')
    assert 'wiki.test.tokens is not UTF-8: invalid start byte at byte 2' in refused(folder)
    for name in ('a', 'b'):
        (folder / name).mkdir()
        (folder / name / 'ptb.train.txt').touch()
        (folder / name / 'ptb.valid.txt').touch()
        (folder / name / 'ptb.test.txt').touch()
    assert 'holds ptb.train.txt more than once' in refused(folder, PTB)
    (tmp_path / 'not.zip').write_bytes(b'PK no')
    assert 'is neither a folder nor a whole .zip' in refused(tmp_path / 'not.zip')
