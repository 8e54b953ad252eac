"""A small stand-in for enwik8, and configs of corpora."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from memjax.config import base_config
from memjax.data import enwik8


@pytest.fixture
def tiny_enwik8(monkeypatch):
    """10,000 bytes with newlines and two-byte characters, which this test takes for enwik8."""
    letters = np.random.default_rng(0).choice(list('etaoin \nü'), 20_000)
    text = ''.join(letters).encode()[:9_999] + b'.'
    monkeypatch.setattr(enwik8, 'NUM_BYTES', len(text))
    monkeypatch.setattr(enwik8, 'SHA256', hashlib.sha256(text).hexdigest())
    return text


@pytest.fixture
def data_config():
    """Makes a `config.data` with some fields set."""

    def make(**fields):
        data = base_config().data
        data.update(fields)
        return data

    return make


@pytest.fixture
def books(tmp_path):
    """A folder of three short books without split folders."""
    folder = tmp_path / 'books'
    folder.mkdir()
    for name, sentence in (('a', 'It was a dark night. '), ('b', 'Call me Ishmael.\n'), ('c', 'Ünter den Linden. ')):
        (folder / f'{name}.txt').write_text(sentence * 40, encoding='utf-8')
    return folder
