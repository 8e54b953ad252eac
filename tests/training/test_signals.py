from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from memjax.training.signals import StopSignal


def send(number):
    os.kill(os.getpid(), number)
    time.sleep(0.01)  # Python runs handlers between two instructions of the main thread


@pytest.mark.parametrize(('number', 'exit_code'), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_is_remembered_and_not_acted_upon(number, exit_code):
    with StopSignal() as stop:
        assert stop.requested(1) is None
        send(number)
        assert 128 + stop.requested(2) == exit_code
        assert 128 + stop.requested(3) == exit_code


def test_the_first_signal_decides_the_exit_code():
    with StopSignal() as stop:
        send(signal.SIGTERM)
        send(signal.SIGINT)
        assert stop.requested(1) == signal.SIGTERM


def test_a_second_interrupt_does_not_wait():
    with pytest.raises(KeyboardInterrupt), StopSignal() as stop:
        send(signal.SIGINT)
        assert stop.requested(1) == signal.SIGINT
        send(signal.SIGINT)


def test_earlier_handlers_come_back_even_after_an_error():
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    with pytest.raises(ZeroDivisionError), StopSignal():
        assert signal.getsignal(signal.SIGTERM) != before[0]
        raise ZeroDivisionError
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


def test_a_training_in_another_thread_goes_without():
    results = []

    def train():
        with StopSignal() as stop:
            results.append(stop.requested(1))

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert results == [None]


def test_with_several_processes_pythons_sigterm_handler_is_left_alone():
    before = signal.getsignal(signal.SIGTERM)
    with StopSignal(process_count=2):
        assert signal.getsignal(signal.SIGTERM) == before


TRAIN = """
import sys, time, jax
jax.distributed.initialize(f'localhost:{sys.argv[1]}', num_processes=2, process_id=int(sys.argv[2]))
from memjax.training.signals import StopSignal
with StopSignal(jax.process_count()) as stop:
    for step in range(1, 3000):
        if step == 2:
            print('running', flush=True)
        time.sleep(0.01)
        number = stop.requested(step)
        if number is not None:
            print(step, flush=True)
            sys.exit(128 + number)
"""


@pytest.mark.slow
@pytest.mark.parametrize(('number', 'exit_codes'), [(signal.SIGTERM, (143, 143)), (signal.SIGINT, (143, 130))])
def test_two_processes_stop_at_the_same_step_when_one_gets_the_signal(unused_port, number, exit_codes):
    processes = [
        subprocess.Popen(
            [sys.executable, '-c', TRAIN, str(unused_port), str(index)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, 'JAX_PLATFORMS': 'cpu'},
        )
        for index in range(2)
    ]
    assert [process.stdout.readline() for process in processes] == 2 * ['running\n']
    processes[1].send_signal(number)
    steps = [process.communicate(timeout=60)[0] for process in processes]
    assert steps[0] == steps[1] != ''
    assert tuple(process.returncode for process in processes) == exit_codes
