"""Two small checkpoints, saved once a test file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from small_checkpoints import save

from memjax.runs.checkpoint import Checkpoints


@pytest.fixture(scope='module')
def saved(tmp_path_factory):
    """Checkpoints 1 and 2; tests that change something copy it."""
    directory = tmp_path_factory.mktemp('saved')
    with Checkpoints(directory, keep=2) as checkpoints:
        save(checkpoints, 1, validation_loss=1.0)
        save(checkpoints, 2, validation_loss=2.0)
    return directory


@pytest.fixture
def copied(saved, tmp_path):
    return Path(shutil.copytree(saved, tmp_path / 'checkpoints'))
