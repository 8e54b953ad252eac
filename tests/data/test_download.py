"""Downloads from a server of our own that misbehaves on request."""

from __future__ import annotations

import contextlib
import errno
import http.server
import threading
from pathlib import Path

import pytest

from memjax.data import download as download_module
from memjax.data.download import download
from memjax.errors import DataError

CONTENT = bytes(range(256)) * 20_000


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == '/missing':
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header('Content-Length', str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT if self.path == '/whole' else CONTENT[: len(CONTENT) // 2])

    def log_message(self, *_):
        pass

    def handle(self):
        with contextlib.suppress(ConnectionError):  # of a client that breaks off
            super().handle()


@pytest.fixture(scope='module')
def address():
    with http.server.ThreadingHTTPServer(('127.0.0.1', 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f'http://127.0.0.1:{server.server_port}'
        server.shutdown()
        thread.join()


def test_a_whole_file(address, tmp_path):
    download(f'{address}/whole', tmp_path / 'file', progress=False)
    assert (tmp_path / 'file').read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ['file']


@pytest.mark.parametrize(
    ('path', 'message'),
    [('missing', 'cannot download .*Not Found'), ('half', 'ended after 2,560,000 of 5,120,000 bytes')],
)
def test_a_failed_download_leaves_nothing(address, tmp_path, path, message):
    with pytest.raises(DataError, match=message):
        download(f'{address}/{path}', tmp_path / 'file', progress=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize('url', ['http://127.0.0.1:9/x', 'http://', 'file:///no/such/file', 'gopher://x/y'])
def test_an_address_that_does_not_answer(tmp_path, url):
    with pytest.raises(DataError, match='cannot download') as caught:
        download(url, tmp_path / 'file', progress=False)
    assert '\n' not in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize('fault', [KeyboardInterrupt(), OSError(errno.ENOSPC, 'No space left on device')])
def test_an_interrupted_download_leaves_nothing(address, tmp_path, monkeypatch, fault):
    seen = []

    class Bar(download_module.tqdm):
        def update(self, n=1):
            seen.append([path.name for path in tmp_path.iterdir()])
            if len(seen) == 2:
                raise fault
            return super().update(n)

    monkeypatch.setattr(download_module, 'tqdm', Bar)
    with pytest.raises(type(fault)):
        download(f'{address}/whole', tmp_path / 'file', progress=False)
    # It was under way, under a name that is not the target's, and is gone.
    assert seen == [['file.partial']] * 2
    assert not list(tmp_path.iterdir())


def test_an_old_file_stays_until_the_new_one_is_whole(address, tmp_path):
    target = Path(tmp_path, 'file')
    target.write_bytes(b'old')
    with pytest.raises(DataError):
        download(f'{address}/half', target, progress=False)
    assert target.read_bytes() == b'old'
