from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
import warnings
from types import SimpleNamespace

import pytest

from memjax.runs import storage_errors


@pytest.fixture
def unraisable(monkeypatch):
    """What reaches the hook that was there before."""
    seen = []
    monkeypatch.setattr(sys, 'unraisablehook', seen.append)
    storage_errors.silence()
    storage_errors.silence()
    return seen


def test_only_late_callbacks_into_a_closed_loop_are_swallowed(unraisable):
    closed = RuntimeError('Event loop is closed')
    others = [RuntimeError('other'), ValueError('Event loop is closed')]
    for error in (closed, *others):
        sys.unraisablehook(SimpleNamespace(exc_type=type(error), exc_value=error, exc_traceback=None))
    assert [seen.exc_value for seen in unraisable] == others


def leave_failed(error, file='/lib/mine.py'):
    """Runs a task of that file that fails with the error, and never asks how it went."""
    namespace = {'error': error}
    exec(compile('async def fail():\n    raise error', file, 'exec'), namespace)

    async def run():
        task = asyncio.create_task(namespace['fail']())
        await asyncio.wait([task])
        del task
        gc.collect()

    asyncio.run(run())


@pytest.mark.parametrize(
    ('error', 'heard'),
    [
        (OSError(28, 'No space left on device'), False),
        (ValueError("RESOURCE_EXHAUSTED: Error writing [os_error_code='28']"), False),
        (ValueError('a fault of the program'), True),
        (KeyError('OUT_OF_RANGE: '), True),
    ],
)
def test_asyncio_complains_of_what_nobody_fetched_unless_it_is_a_storage_error(unraisable, caplog, error, heard):
    leave_failed(error)
    assert ['never retrieved' in record.getMessage() for record in caplog.records] == heard * [True]


def test_asyncio_does_not_complain_of_orbaxs_tasks(unraisable, caplog):
    leave_failed(RuntimeError('cannot schedule new futures after shutdown'), file='/lib/orbax/checkpoint/path.py')
    assert caplog.records == []


def test_logs_of_other_code_are_heard(unraisable, caplog):
    logging.getLogger('absl').warning('ours')
    assert [record.getMessage() for record in caplog.records] == ['ours']


@pytest.mark.parametrize(
    ('coroutine', 'heard'),
    [('async_serialize_from_host.<locals>.write_fragment', False), ('_background_serialize', False), ('mine', True)],
)
def test_a_write_that_never_began_is_not_warned_of(unraisable, coroutine, heard):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter('always')
        storage_errors.silence()
        warnings.warn(f"coroutine '{coroutine}' was never awaited", RuntimeWarning, stacklevel=1)
    assert len(seen) == heard


@pytest.mark.parametrize(
    ('error', 'words'),
    [
        (OSError(30, 'Read-only file system', '/a'), 'Read-only file system'),
        (TimeoutError('Timed out at the barrier.\nNotes'), 'Timed out at the barrier.'),
        (ValueError("RESOURCE_EXHAUSTED: Error [os_error_code='28'] [source locations='a']"), os.strerror(28)),
        (ValueError('UNAVAILABLE: no answer\nmore'), 'UNAVAILABLE: no answer'),
    ],
)
def test_a_reason_is_a_few_words_on_one_line(error, words):
    assert storage_errors.reason(error) == words
