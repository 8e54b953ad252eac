"""What several tests need: file systems that are full or read-only, and free ports."""

from __future__ import annotations

import socket
import subprocess

import pytest


@pytest.fixture
def tmpfs(tmp_path_factory):
    """A function `mount(options) -> Path` of a fresh tmpfs; the test is skipped where mounting is not allowed.

    Root ignores permissions, so `chmod` cannot stand in for a file system that refuses.
    """
    mounted = []

    def mount(options):
        path = tmp_path_factory.mktemp('tmpfs')
        try:
            subprocess.run(['mount', '-t', 'tmpfs', '-o', options, 'tmpfs', path], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip('needs the right to mount a tmpfs')
        mounted.append(path)
        return path

    yield mount
    for path in mounted:
        subprocess.run(['umount', '--lazy', path], check=True)


@pytest.fixture
def unused_port():
    """A TCP port of this machine that nothing listens on."""
    with socket.socket() as server:
        server.bind(('localhost', 0))
        return server.getsockname()[1]
