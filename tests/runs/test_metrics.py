from __future__ import annotations

import json
import struct

import jax.numpy as jnp
import numpy as np
import pytest
from tensorboardX.proto.event_pb2 import Event, SessionLog

from memjax import atomic
from memjax.errors import WorkdirError
from memjax.runs import metrics_file
from memjax.runs.metrics import JsonlWriter, MultiWriter, TensorBoardWriter, open_writers


@pytest.fixture
def path(tmp_path):
    return tmp_path / 'metrics.jsonl'


def write_steps(path, steps, resumed_step=None):
    writer = JsonlWriter(path, resumed_step)
    for step in steps:
        writer.write(step, 'train', {'loss': 1 / step})
    writer.close()


def steps_of(path):
    return [json.loads(line)['step'] for line in path.read_text().splitlines()]


def test_a_line_is_a_json_object_with_step_split_and_the_values_in_order(path):
    writer = JsonlWriter(path)
    writer.write(50, 'train', {'loss': jnp.float32(0.5), 'tokens': np.int64(2**40), 'learning_rate': 0.1})
    # On disk although neither flushed nor closed.
    assert path.read_text() == (
        '{"step": 50, "split": "train", "loss": 0.5, "tokens": 1099511627776, "learning_rate": 0.1}\n'
    )


def test_what_json_cannot_say_is_null(path):
    writer = JsonlWriter(path)
    writer.write(1, 'train', {'nan': float('nan'), 'inf': np.float32(np.inf), 'minus': jnp.float32(-jnp.inf)})
    strict = json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(f'{name} is not JSON'))
    assert strict == {'step': 1, 'split': 'train', 'nan': None, 'inf': None, 'minus': None}


def test_resuming_gives_the_lines_of_an_unbroken_run(path, tmp_path):
    write_steps(path, range(1, 8))
    write_steps(path, range(5, 11), resumed_step=4)
    unbroken = tmp_path / 'unbroken.jsonl'
    write_steps(unbroken, range(1, 11))
    assert path.read_bytes() == unbroken.read_bytes()


@pytest.mark.parametrize('garbage', [b'{"step": 3, "sp', b'\0' * 100, b'\xff\xfe', b'[]', b'3', b'{"step": null}'])
def test_what_a_crash_left_at_the_end_is_dropped(path, garbage):
    write_steps(path, [1, 2])
    good = path.read_bytes()
    path.write_bytes(good + garbage)
    assert metrics_file.read(path) == [json.loads(line) for line in good.splitlines()]
    write_steps(path, [3], resumed_step=9)
    assert steps_of(path) == [1, 2, 3]


def test_a_last_line_that_lacks_only_its_end_of_line_is_kept(path):
    write_steps(path, [1, 2])
    path.write_bytes(path.read_bytes()[:-1])
    write_steps(path, [3], resumed_step=2)
    assert steps_of(path) == [1, 2, 3]


def test_a_new_run_keeps_nothing_of_one_that_died_before_its_first_checkpoint(path):
    write_steps(path, [1, 2])
    write_steps(path, [1])
    assert steps_of(path) == [1]


def test_a_disk_that_fills_up_is_a_workdir_error_and_whole_lines_stay(tmpfs):
    path = tmpfs('size=8k') / 'metrics.jsonl'
    writer = JsonlWriter(path)
    with pytest.raises(WorkdirError, match=f'cannot write {path}: No space left on device'):
        for step in range(1, 1000):
            writer.write(step, 'train', {'loss': 0.1})
    assert [record['step'] for record in metrics_file.read(path)] == list(range(1, step))


def test_where_nothing_can_be_appended_a_flush_writes_all_lines(path, monkeypatch):
    monkeypatch.setattr(atomic, 'is_local', lambda _: False)
    writer = JsonlWriter(path)
    writer.write(1, 'train', {'loss': 1.0})
    assert path.read_bytes() == b''
    writer.flush()
    assert steps_of(path) == [1]
    writer.write(2, 'train', {'loss': 1.0})
    writer.flush()
    resumed = JsonlWriter(path, resumed_step=1)
    resumed.write(3, 'train', {'loss': 1.0})
    resumed.close()
    assert steps_of(path) == [1, 3]


def events_of(directory):
    """Events of all files in the order in which they were opened: u64 length, u32 checksum, bytes, u32 checksum."""
    events = []
    for path in sorted(directory.iterdir(), key=lambda path: path.stat().st_mtime_ns):
        data = path.read_bytes()
        while data:
            (length,) = struct.unpack('<Q', data[:8])
            events.append(Event.FromString(data[12 : 12 + length]))
            data = data[16 + length :]
    return events


def scalars_of(directory):
    return [
        (event.step, event.summary.value[0].tag, event.summary.value[0].simple_value)
        for event in events_of(directory)
        if event.summary.value
    ]


def test_tensorboard_gets_each_value_under_its_split(tmp_path):
    writer = TensorBoardWriter(tmp_path / 'tensorboard')
    writer.write(3, 'validation', {'loss': jnp.float32(1.5), 'bpc': 2.0})
    assert scalars_of(tmp_path / 'tensorboard') == [(3, 'validation/loss', 1.5), (3, 'validation/bpc', 2.0)]
    writer.close()


def test_a_resumed_run_hides_tensorboards_later_steps_and_destroys_no_earlier_ones(tmp_path):
    for resumed_step in (None, 2):
        writer = TensorBoardWriter(tmp_path, resumed_step)
        writer.write(4, 'train', {'loss': 1.0})
        writer.close()
    starts = [event.step for event in events_of(tmp_path) if event.session_log.status == SessionLog.START]
    assert starts == [0, 3]
    assert scalars_of(tmp_path) == 2 * [(4, 'train/loss', 1.0)]


def test_a_full_disk_does_not_hang_tensorboard(tmpfs):
    writer = TensorBoardWriter(tmpfs('size=8k'))
    with pytest.raises(WorkdirError, match='No space left on device'):
        for step in range(1000):
            writer.write(step, 'train', {'loss': 0.1})


def test_a_multi_writer_hands_everything_on(path, tmp_path):
    other = tmp_path / 'other.jsonl'
    writer = MultiWriter([JsonlWriter(path), JsonlWriter(other)])
    writer.write(1, 'train', {'loss': 1.0})
    writer.flush()
    writer.close()
    assert path.read_bytes() == other.read_bytes() != b''


def test_only_process_0_writes(tmp_path):
    for process_index in (1, 0):
        writer = open_writers(tmp_path, process_index=process_index)
        writer.write(1, 'train', {'loss': 1.0})
        writer.close()
        assert len(list(tmp_path.iterdir())) == (0 if process_index else 2)
    assert steps_of(tmp_path / 'metrics.jsonl') == [1]
    assert scalars_of(tmp_path / 'tensorboard') == [(1, 'train/loss', 1.0)]
