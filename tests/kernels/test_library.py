"""Machine code is made once, again when what it is made of changes, and done without where it cannot be made."""

import logging
import os
import shutil
import stat

import pytest

from memjax.kernels import library


@pytest.fixture
def unloaded(monkeypatch):
    """As in a process that has not loaded the library yet; XLA keeps what it was told first."""
    library.load.cache_clear()
    monkeypatch.setattr(library.jax.ffi, 'register_ffi_target', lambda *args, **named: None)
    yield
    library.load.cache_clear()


@pytest.fixture
def compiler(tmp_path):
    """A compiler that notes each of its calls and writes what it was given last."""
    program = tmp_path / 'compiler'
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\nfor last; do :; done\necho code > "$last"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)

    def calls():
        lines = (tmp_path / 'calls').read_text().splitlines()
        return [line for line in lines if '--version' not in line]

    return [str(program), '-pipe'], calls


def test_it_compiles_once(compiler, tmp_path, monkeypatch):
    program, calls = compiler
    monkeypatch.chdir(tmp_path)  # it takes `--version` for a file
    cache = tmp_path / 'new' / 'cache'
    path = library.build(program, cache)
    assert path.read_text() == 'code\n'
    assert library.build(program, cache) == path
    assert len(calls()) == 1
    assert '-pipe' in calls()[0]
    assert list(cache.iterdir()) == [path]  # nothing else is left
    for name, value in {'_processor': lambda: 'another', '_source': lambda name: 'another'}.items():
        with monkeypatch.context() as patch:
            patch.setattr(library, name, value)
            assert library.build(program, cache) != path
    assert len(calls()) == 3


def test_without_a_compiler_there_is_none_and_it_is_told(unloaded, monkeypatch, tmp_path, caplog):
    monkeypatch.setenv('PATH', str(tmp_path))
    monkeypatch.delenv('CXX', raising=False)
    with caplog.at_level(logging.WARNING):
        assert library.load() is None
    assert 'no C++ compiler' in caplog.text


@pytest.mark.parametrize('command', ['false', 'true'], ids=['a compiler that fails', 'one that writes nothing'])
def test_what_fails_is_told_in_a_warning(command, unloaded, monkeypatch, tmp_path, caplog):
    monkeypatch.setenv('CXX', command)
    monkeypatch.setattr(library, 'CACHE', tmp_path)
    with caplog.at_level(logging.WARNING):
        assert library.load() is None
    (record,) = caplog.records
    assert 'tokens are read by XLA alone' in record.getMessage()
    assert os.path.basename(shutil.which(command)) in record.getMessage()
    assert not list(tmp_path.iterdir())


def test_a_cache_that_cannot_be_written_is_told_too(unloaded, monkeypatch, tmp_path, caplog):
    (tmp_path / 'file').write_text('')
    monkeypatch.setattr(library, 'CACHE', tmp_path / 'file' / 'cache')
    with caplog.at_level(logging.WARNING):
        assert library.load() is None
    assert len(caplog.records) == 1


def test_the_environment_names_the_compiler(monkeypatch):
    monkeypatch.setenv('CXX', 'true')
    assert library.find_compiler() == [shutil.which('true')]
    monkeypatch.setenv('CXX', 'env "a b" -c')
    assert library.find_compiler() == [shutil.which('env'), 'a b', '-c']


def test_a_compiler_that_is_not_there_is_told(unloaded, monkeypatch, caplog):
    monkeypatch.setenv('CXX', 'no-such-compiler -c')
    with caplog.at_level(logging.WARNING):
        assert library.load() is None
    assert 'no-such-compiler' in caplog.text


def test_a_damaged_file_is_made_again(unloaded, monkeypatch, tmp_path):
    monkeypatch.setattr(library, 'CACHE', tmp_path)
    compiler = library.find_compiler()
    whole = library.build(compiler, tmp_path)
    size = whole.stat().st_size
    whole.write_bytes(b'')
    assert library.load() is not None
    assert whole.stat().st_size == size


def test_without_a_home_it_is_made_for_the_process(unloaded, monkeypatch, tmp_path):
    def nobody(path):
        raise RuntimeError('Could not determine home directory.')

    monkeypatch.setattr(library.Path, 'expanduser', nobody)
    assert library.load() is not None


def test_words_of_a_compiler_in_any_encoding(unloaded, monkeypatch, tmp_path, caplog):
    program = tmp_path / 'compiler'
    program.write_bytes(b'#!/bin/sh\nprintf "\\351" >&2\nexit 1\n')
    program.chmod(0o700)
    monkeypatch.setenv('CXX', str(program))
    with caplog.at_level(logging.WARNING):
        assert library.load() is None
    assert len(caplog.records) == 1


def test_this_machine_compiles_it():
    assert library.find_compiler(), 'these tests want a C++ compiler'
    assert library.load() is not None
