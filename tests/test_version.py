from __future__ import annotations

import importlib.metadata
import re
import subprocess

import pytest

from memjax.version import code_version


def git(folder, *arguments):
    identity = ('-c', 'user.name=n', '-c', 'user.email=e@example.org', '-c', 'commit.gpgsign=false')
    return subprocess.run(['git', *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def checkout(tmp_path):
    for folder in ('memjax', 'results'):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / 'file.py').write_text('')
    git(tmp_path, 'init', '--quiet')
    git(tmp_path, 'add', '.')
    git(tmp_path, 'commit', '--quiet', '-m', 'm')
    return tmp_path


def test_a_checkout_gives_its_commit(checkout):
    commit = code_version(checkout / 'memjax')
    assert re.fullmatch('[0-9a-f]{40}', commit)
    assert commit == git(checkout, 'rev-parse', 'HEAD').strip()


def test_only_edits_of_the_code_make_it_dirty(checkout):
    (checkout / 'results' / 'new.json').write_text('{}')
    (checkout / 'results' / 'file.py').write_text('edited')
    assert not code_version(checkout / 'memjax').endswith('-dirty')
    (checkout / 'memjax' / 'new.py').write_text('')
    assert code_version(checkout / 'memjax') == git(checkout, 'rev-parse', 'HEAD').strip() + '-dirty'


def test_variables_of_another_repository_do_not_mislead(checkout, tmp_path_factory, monkeypatch):
    commit = code_version(checkout / 'memjax')
    monkeypatch.setenv('GIT_DIR', str(tmp_path_factory.mktemp('other')))
    assert code_version(checkout / 'memjax') == commit


def test_a_package_inside_another_project_gives_the_installed_version(checkout, monkeypatch):
    monkeypatch.setattr(importlib.metadata, 'version', lambda name: f'{name} 1.2')
    inner = checkout / 'venv' / 'memjax'
    inner.mkdir(parents=True)
    assert code_version(inner) == 'memjax 1.2'


def test_a_copy_that_is_neither_is_unknown(tmp_path, monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, 'version', missing)
    assert code_version(tmp_path) == 'unknown'
