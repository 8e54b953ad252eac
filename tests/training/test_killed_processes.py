"""Real processes, killed at several moments and started again: never a wrong number, never a lost good checkpoint."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture
def start(request, tiny_config, data_dir):
    """A function: starts `launch/train.py` on a workdir; the run is long enough to be hit anywhere."""
    root = request.config.rootpath
    model, training = tiny_config.model, tiny_config.training
    overrides = [f'--config.data.{name}={tiny_config.data[name]}' for name in ('name', 'path')]
    overrides += ['--config.data.batch_size=4', '--config.data.segment_length=8', '--config.training.figure=false']
    names = ['num_layers', 'num_heads', 'model_dim', 'mlp_dim', 'memory_length', 'compressed_memory_length']
    overrides += [f'--config.model.{name}={model[name]}' for name in [*names, 'compression_rate', 'dropout_rate']]
    overrides += ['--config.training.num_steps=400', '--config.training.decay_steps=400']
    overrides += ['--config.training.log_every=7', '--config.training.checkpoint_every=20']
    overrides += ['--config.training.eval_every=50', '--config.training.eval_segments=2']
    overrides += [f'--config.training.update_period={training.update_period}', '--config.eval.after_training=test']
    overrides += ['--config.eval.compressors=()', '--config.sample.after_training=false']

    def run(workdir):
        command = [sys.executable, root / 'launch' / 'train.py', f'--config={root / "configs" / "demo_ct.py"}']
        return subprocess.Popen(
            [*command, f'--workdir={workdir}', f'--data_dir={data_dir}', *overrides],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )

    return run


def metrics(workdir):
    lines = [json.loads(line) for line in (workdir / 'metrics.jsonl').read_text().splitlines()]
    return [
        {name: value for name, value in line.items() if name not in ('tokens_per_second', 'data_wait_share')}
        for line in lines
    ]


def finish(process):
    _, stderr = process.communicate(timeout=400)
    assert process.returncode == 0, stderr


def changed_at(workdir):
    path = workdir / 'metrics.jsonl'
    return path.stat().st_mtime_ns if path.exists() else None


def wait_for_metrics(process, workdir, before):
    """Until the process trains: it has rewritten the metrics that it found, and then logged."""
    found = [int(path.name) for path in workdir.glob('checkpoints/*') if path.name.isdecimal()]
    while process.poll() is None:
        time.sleep(0.02)
        if changed_at(workdir) == before:
            continue
        lines = (workdir / 'metrics.jsonl').read_text().splitlines()
        if len(lines) > 1 and json.loads(lines[-2])['step'] > max(found, default=0):
            return


def test_killed_at_several_moments_and_resumed_equals_unbroken(start, tmp_path):
    whole, broken = tmp_path / 'whole', tmp_path / 'broken'
    finish(start(whole))
    moments = random.Random(0)
    for number in (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, signal.SIGINT):
        before = changed_at(broken)
        process = start(broken)
        wait_for_metrics(process, broken, before)
        time.sleep(moments.uniform(0.0, 1.5))
        if process.poll() is not None:
            break
        process.send_signal(number)
        process.communicate(timeout=60)
        expected = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}[number]
        # It may have come to its end first.
        assert process.returncode in (expected, 0)
    finish(start(broken))
    assert metrics(broken) == metrics(whole)
    results = [json.loads((workdir / 'eval' / 'test.json').read_text()) for workdir in (whole, broken)]
    assert results[0]['nll_nats'] == results[1]['nll_nats']


def test_second_training_on_a_workdir_exits_2_with_one_line(start, tmp_path):
    first = start(tmp_path)
    wait_for_metrics(first, tmp_path, None)
    second = start(tmp_path)
    _, stderr = second.communicate(timeout=120)
    assert second.returncode == 2
    assert [line for line in stderr.splitlines() if line.startswith('error: ')] == [
        f'error: another training runs on {tmp_path}'
    ]
    assert 'Traceback' not in stderr
    first.terminate()
    first.communicate(timeout=60)
    assert first.returncode == 143
