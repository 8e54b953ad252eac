"""Commands as a shell sees them: exit code, one line, no traceback, and help without JAX."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def shell(*arguments: str, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess:
    environment = {**os.environ, 'PYTHONPATH': str(ROOT)}
    environment.pop('PYTHONUNBUFFERED', None)  # buffers are what a broken pipe is awkward with
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )


WITHOUT_CONFIG = ('recl', 'compare', 'bench', 'report')


@pytest.mark.parametrize(
    'name',
    [
        'train',
        'eval',
        'sweep',
        'analyze',
        'recl',
        'compare',
        'sample',
        'needle',
        'prepare',
        'convert',
        'plan',
        'bench',
        'reproduce',
        'report',
    ],
)
def test_help_shows_an_example_and_imports_no_jax(name):
    done = shell('-X', 'importtime', f'launch/{name}.py', '--help')
    assert done.returncode == 0
    assert f'python launch/{name}.py --' in done.stdout
    assert ('--config.NAME=VALUE' in done.stdout) == (name not in WITHOUT_CONFIG)
    imported = {line.rpartition('|')[2].strip() for line in done.stderr.splitlines()}
    assert 'memjax.command_line' in imported
    assert not imported & {'jax', 'jaxlib', 'flax', 'tensorflow', 'tensorflow_datasets', 'matplotlib'}


@pytest.mark.parametrize(
    ('arguments', 'complaint'),
    [
        (['train', '--config=configs/absent.py'], 'configs/absent.py: no such config file'),
        (['train', '--config=configs/demo_ct.py', '--config.model.num_layer=4'], 'did you mean num_layers?'),
        (['eval', '--workdir=no/such/run', '--split=test'], 'no/such/run holds no run'),
        (['convert', '--config=configs/enwik8_txl_12l.py', '--source=w.npz', '--workdir=w'], 'w.npz: no such file'),
        (['plan', '--config=configs/demo_ct.py', 'stray'], "unexpected argument 'stray'"),
        (['prepare', '--dataset=kjv', '--over_write'], 'did you mean --overwrite?'),
    ],
)
def test_a_users_error_is_one_line_and_exit_code_2(arguments, complaint):
    name, *flags = arguments
    done = shell(f'launch/{name}.py', *flags)
    assert done.returncode == 2
    assert done.stdout == ''
    assert done.stderr.startswith('error: ')
    assert done.stderr.count('\n') == 1
    assert complaint in done.stderr


FAULTY = """
import signal, sys
from absl import flags
from memjax import command_line
from memjax.config import base_config

def run(flag_values, config):
    {body}

command_line.main(command_line.Command('', flags.FlagValues(), lambda _: base_config(), run))
"""


def test_a_fault_of_ours_shows_its_traceback_and_exits_1():
    done = shell('-c', FAULTY.format(body='[][3]'))
    assert done.returncode == 1
    assert 'Traceback' in done.stderr
    assert 'IndexError' in done.stderr


def test_an_interrupt_exits_130_without_a_word():
    # A shell's background jobs, and what they start, ignore SIGINT unless they ask for it.
    body = 'signal.signal(signal.SIGINT, signal.default_int_handler); signal.raise_signal(signal.SIGINT)'
    done = shell('-c', FAULTY.format(body=body))
    assert (done.returncode, done.stderr) == (130, '')


def test_a_reader_that_goes_away_is_no_fault():
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = shell('launch/train.py', '--help', stdout=writing)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, '')
