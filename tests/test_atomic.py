from __future__ import annotations

import os
from pathlib import Path

import pytest
from etils import epath

from memjax import atomic


def test_content_is_replaced_and_nothing_else_is_left(tmp_path):
    for text in ('old', 'né\n'):
        atomic.write_text(tmp_path / 'file.json', text)
        assert (tmp_path / 'file.json').read_bytes() == text.encode()
    atomic.write_bytes(epath.Path(tmp_path) / 'file.json', b'\0')
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [('file.json', b'\0')]


@pytest.mark.parametrize('moment', ['fsync', 'replace'])
def test_an_interruption_leaves_the_old_content(tmp_path, monkeypatch, moment):
    atomic.write_text(tmp_path / 'file', 'old')

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(*((os, 'fsync') if moment == 'fsync' else (Path, 'replace')), interrupt)
    with pytest.raises(KeyboardInterrupt):
        atomic.write_text(tmp_path / 'file', 'new')
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [('file', 'old')]


@pytest.mark.parametrize(('path', 'local'), [('/a/b', True), ('a', True), ('gs://bucket/a', False)])
def test_object_stores_are_not_local(path, local):
    assert atomic.is_local(path) == atomic.is_local(epath.Path(path)) == local
