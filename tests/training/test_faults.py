"""Kills, truncated and changed files and a full disk, in any order: never a wrong number, never a lost checkpoint.

Real trainings of a few seconds, each in a process of its own, on a file system of their own.
"""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import shutil
import time
from pathlib import Path

import fault_child
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from memjax.config import to_json
from memjax.runs.checkpoint import Checkpoints

pytestmark = pytest.mark.slow

SHARE = st.floats(0, 1, exclude_max=True)
FAULTS = st.one_of(
    st.tuples(st.just('kill training'), SHARE),
    st.tuples(st.just('kill preparation'), SHARE),
    st.tuples(st.just('truncate checkpoint'), SHARE, SHARE),
    st.tuples(st.just('change checkpoint'), SHARE, SHARE),
    st.tuples(st.just('truncate store'), SHARE, SHARE),
    st.tuples(st.just('change store'), SHARE, SHARE),
    st.tuples(st.just('fill disk'), st.integers(0, 400_000)),
)


class House:
    """A run, its corpus, and the disk that both are on."""

    def __init__(self, disk: Path, config):
        self.disk, self.workdir, self.data_dir = disk, disk / 'run', disk / 'data'
        self._config_json = to_json(config)
        # Processes that begin with everything imported but no backend started.
        self._context = multiprocessing.get_context('forkserver')
        self._context.set_forkserver_preload(['memjax.training.loop', 'fault_child'])

    def clear(self) -> None:
        for path in self.disk.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def run(self, action: str, killed_after: float | None = None) -> tuple[int, str]:
        """Runs a child to its end, or kills it after so many seconds; its exit code and what it told."""
        told = self.disk.parent / f'{self.disk.name}.told'
        told.unlink(missing_ok=True)
        arguments = (action, self._config_json, str(self.workdir), str(self.data_dir), str(told))
        child = self._context.Process(target=fault_child.begin, args=arguments)
        child.start()
        child.join(killed_after)
        if child.is_alive():
            child.kill()
        child.join()
        return child.exitcode, told.read_text() if told.exists() else ''

    def finish(self) -> None:
        assert self.run('train') == (0, '')

    def metrics(self) -> list[dict]:
        lines = [json.loads(line) for line in (self.workdir / 'metrics.jsonl').read_text().splitlines()]
        return [
            {name: value for name, value in line.items() if name not in ('tokens_per_second', 'data_wait_share')}
            for line in lines
        ]

    def score(self) -> float:
        return json.loads((self.workdir / 'eval' / 'test.json').read_text())['nll_nats']

    def good_steps(self) -> list[int]:
        return Checkpoints(self.workdir / 'checkpoints').good_steps()

    def damage(self, folder: Path, kind: str, which: float, where: float) -> Path | None:
        """Truncates a file below the folder, or changes one of its bits; None if there is none to damage."""
        files = sorted(path for path in folder.rglob('*') if path.is_file() and path.stat().st_size)
        if not files:
            return None
        path = files[int(which * len(files))]
        content = bytearray(path.read_bytes())
        if kind == 'truncate':
            content = content[: int(where * len(content))]
        else:
            bit = int(where * 8 * len(content))
            content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)
        return path


def suffer(house: House, fault: tuple, seconds: float) -> None:
    """Lets one fault happen, and checks what must hold right after it."""
    kind, *how = fault
    before = house.good_steps()
    if kind == 'kill training':
        house.run('train', killed_after=how[0] * seconds)
    elif kind == 'kill preparation':
        house.run('prepare', killed_after=how[0] * seconds / 2)
    elif kind == 'fill disk':
        free = shutil.disk_usage(house.disk).free
        filler = house.disk / 'filler'
        with filler.open('wb') as file:
            os.posix_fallocate(file.fileno(), 0, max(1, free - how[0]))
        code, told = house.run('train')
        filler.unlink()
        assert code in (0, 2), told
        assert code == 0 or os.strerror(errno.ENOSPC) in told
        assert '\n' not in told
    elif kind.endswith('checkpoint'):
        path = house.damage(house.workdir / 'checkpoints', kind.split()[0], *how)
        if path is not None:
            hit = path.relative_to(house.workdir / 'checkpoints').parts[0].split('.')[0]
            assert house.good_steps() == [step for step in before if str(step) != hit]
        return
    else:
        path = house.damage(house.data_dir, kind.split()[0], *how)
        code, told = house.run('train')
        assert code in (0, 2), told
        if code == 2:
            assert 'prepare' in told, told  # what to do about it
            assert house.run('prepare') == (0, '')
    assert max(house.good_steps(), default=0) >= max(before, default=0)


def test_faults_in_any_order_change_no_number_and_lose_no_checkpoint(tmpfs, tiny_config):
    tiny_config.training.update(num_steps=60, decay_steps=60, checkpoint_every=5, eval_every=20, log_every=5)
    tiny_config.eval.after_training = 'test'
    house = House(tmpfs('size=48m'), tiny_config)
    house.finish()  # compiles
    house.clear()
    began = time.monotonic()
    house.finish()
    seconds, metrics, score = time.monotonic() - began, house.metrics(), house.score()

    @settings(
        max_examples=8, deadline=None, derandomize=True, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.lists(FAULTS, min_size=3, max_size=7))
    def check(faults):
        house.clear()
        house.run('train', killed_after=0.8 * seconds)  # so that there is something to damage
        for fault in faults:
            suffer(house, fault, seconds)
        if house.run('train')[0] == 2:  # a store damaged last
            assert house.run('prepare') == (0, '')
            house.finish()
        assert house.metrics() == metrics
        assert house.score() == score

    check()
