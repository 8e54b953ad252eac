from __future__ import annotations

import asyncio
import gc
import logging
import sys
from types import SimpleNamespace

import pytest

from memjax.training import quiet_orbax


@pytest.fixture
def unraisable(monkeypatch):
    """What reaches the hook that was there before."""
    seen = []
    monkeypatch.setattr(sys, 'unraisablehook', seen.append)
    quiet_orbax.silence()
    quiet_orbax.silence()
    return seen


def test_only_late_callbacks_into_a_closed_loop_are_swallowed(unraisable):
    closed = RuntimeError('Event loop is closed')
    others = [RuntimeError('other'), ValueError('Event loop is closed')]
    for error in (closed, *others):
        sys.unraisablehook(SimpleNamespace(exc_type=type(error), exc_value=error, exc_traceback=None))
    assert [seen.exc_value for seen in unraisable] == others


async def leave_a_failed_task():
    async def fail():
        raise ValueError('nobody asks')

    task = asyncio.create_task(fail())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    del task
    gc.collect()


@pytest.mark.parametrize(('place', 'heard'), [('/lib/orbax/checkpoint/task.py', False), ('/lib/mine/task.py', True)])
def test_asyncios_complaints_about_other_code_are_heard(unraisable, caplog, place, heard):
    code = compile('def run(f):\n    return f()', place, 'exec')
    namespace = {}
    exec(code, namespace)

    async def complain():
        future = asyncio.get_running_loop().create_future()

        def fail():
            raise OSError('full')

        try:
            namespace['run'](fail)
        except OSError as error:
            future.set_exception(error)
        del future
        gc.collect()

    asyncio.run(complain())
    assert bool(caplog.records) == heard


def test_logs_of_other_code_are_heard(unraisable, caplog):
    asyncio.run(leave_a_failed_task())
    logging.getLogger('absl').warning('ours')
    task, ours = [record.getMessage() for record in caplog.records]
    assert task.startswith('Task exception was never retrieved')
    assert ours == 'ours'
