from __future__ import annotations

import io
import re

import pytest

from memjax.training import progress as progress_lib
from memjax.training.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """A list whose only element is the time that progress sees, in seconds."""
    now = [100.0]
    monkeypatch.setattr(progress_lib.time, 'monotonic', lambda: now[0])
    return now


def test_in_a_file_each_report_is_a_plain_line_with_rate_and_time_left(clock):
    stream = io.StringIO()
    with Progress(total_steps=100, done_steps=40, stream=stream) as progress:
        clock[0] += 30.0  # the first step compiles
        progress.advance(41)
        progress.report('loss 3.00', 10.0)
        for step in range(42, 52):
            clock[0] += 2.0
            progress.advance(step)
        progress.report('loss 1.52 (2.19 bpc)', 12_345.0, 0.25)
        progress.note('validation: 2.2 bpc')
    assert stream.getvalue().splitlines() == [
        'step 41/100, loss 3.00, 10.0 tokens/s, time left unknown',
        'step 51/100, loss 1.52 (2.19 bpc), 12.3k tokens/s, 25% waiting for data, 01:38 left',
        'validation: 2.2 bpc',
    ]


def test_on_a_terminal_one_line_is_alive():
    stream = Terminal()
    with Progress(total_steps=10, done_steps=4, stream=stream) as progress:
        for step in range(5, 11):
            progress.advance(step)
        progress.report('loss 1.52', 12_345.0)
        progress.note('a line of its own')
    shown = stream.getvalue()
    assert '\r' in shown
    assert re.search(r'100%.*10/10.*loss 1\.52, 12\.3k tokens/s', shown)
    assert 'a line of its own\n' in shown
    assert shown.endswith('\n')


@pytest.mark.parametrize('stream', [io.StringIO(), Terminal()])
def test_other_processes_show_nothing(stream):
    with Progress(total_steps=10, stream=stream, enabled=False) as progress:
        progress.advance(1)
        progress.report('loss 1.52', 1.0)
        progress.note('text')
    assert stream.getvalue() == ''
