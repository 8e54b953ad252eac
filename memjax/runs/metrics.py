"""What a training reports as it goes, to as many places as are wanted.

A writer is anything with the methods of `MetricsWriter`; another one is added in `open_writers`. Only process 0 writes.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Protocol

from absl import logging
from etils import epath
from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.summary import scalar

from memjax import atomic
from memjax.runs import metrics_file
from memjax.runs.workdir import writing

METRICS_FILE = 'metrics.jsonl'


class MetricsWriter(Protocol):
    """A place where metrics go."""

    def write(self, step: int, split: str, values: Mapping[str, float]) -> None:
        """Takes the values of one split after a step."""

    def flush(self) -> None:
        """Makes what was written permanent; called before each checkpoint of the same step."""

    def close(self) -> None:
        """`flush`, and no more writing."""


class JsonlWriter:
    """`metrics.jsonl`: a JSON object a line: `step`, `split`, then the values in the order given.

    JSON has no NaN and no infinities: they are written as null. Opening drops what a resumed training will write again:
    every line after its checkpoint's step, with a torn last line or other garbage that a crash left.

    On a local path each line is on disk when `write` returns. An object store cannot append: there the lines are held
    in memory and the file is written anew by `flush`.

    Args:
      path: of the file; it need not exist.
      resumed_step: the step of the checkpoint that is resumed; None: a new run, nothing is kept.

    Raises:
      WorkdirError: the file cannot be read or written (here and in every method).
    """

    def __init__(self, path: epath.PathLike, resumed_step: int | None = None):
        self._path = epath.Path(path)
        self._descriptor: int | None = None  # of a local file
        self._lines: list[bytes] = []
        with writing(self._path):
            lines = _lines_until(self._path, resumed_step)
            atomic.write_bytes(self._path, b''.join(lines))
            if atomic.is_local(self._path):
                self._descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND)
            else:
                self._lines = lines

    def write(self, step: int, split: str, values: Mapping[str, float]) -> None:
        record = {'step': step, 'split': split} | {name: _json_number(value) for name, value in values.items()}
        line = metrics_file.line(record)
        if self._descriptor is None:
            self._lines.append(line)
            return
        with writing(self._path):
            # An almost full disk takes a part without an error.
            while line:
                line = line[os.write(self._descriptor, line) :]

    def flush(self) -> None:
        with writing(self._path):
            if self._descriptor is None:
                atomic.write_bytes(self._path, b''.join(self._lines))
            else:
                os.fsync(self._descriptor)

    def close(self) -> None:
        self.flush()
        if self._descriptor is not None:
            os.close(self._descriptor)


class TensorBoardWriter:
    """Scalars `split/name` in a directory of TensorBoard event files.

    Written through tensorboardX's event file in this thread: its `SummaryWriter` queues for a thread of its own that
    dies of a full disk, after which the queue blocks for ever.

    Args:
      directory: local, or of an object store that tensorboardX has the library for.
      resumed_step: the step of the checkpoint that is resumed; later ones are hidden. None: all that is there is.

    Raises:
      WorkdirError: it cannot be written (here and in every method).
      ImportError: the library for the object store is not installed.
    """

    def __init__(self, directory: epath.PathLike, resumed_step: int | None = None):
        self._directory = epath.Path(directory)
        first_step = 0 if resumed_step is None else resumed_step + 1
        with writing(self._directory):
            if atomic.is_local(self._directory):
                self._directory.mkdir(parents=True, exist_ok=True)
            # tensorboardX names a file by the second: a run resumed at once would write over the one before.
            self._events = EventsWriter(
                os.path.join(os.fspath(self._directory), 'events'), f'.{os.getpid()}.{time.time_ns()}'
            )
            self._write(Event(step=first_step, session_log=SessionLog(status=SessionLog.START)))
            self._events.flush()

    def write(self, step: int, split: str, values: Mapping[str, float]) -> None:
        with writing(self._directory):
            for name, value in values.items():
                self._write(Event(step=step, summary=scalar(f'{split}/{name}', float(value))))
            self._events.flush()

    def flush(self) -> None:
        with writing(self._directory):
            self._events.flush()

    def close(self) -> None:
        with writing(self._directory):
            self._events.close()

    def _write(self, event: Event) -> None:
        event.wall_time = time.time()
        self._events.write_event(event)


class MultiWriter:
    """Hands everything to each of several writers."""

    def __init__(self, writers: Sequence[MetricsWriter]):
        self._writers = tuple(writers)

    def write(self, step: int, split: str, values: Mapping[str, float]) -> None:
        for writer in self._writers:
            writer.write(step, split, values)

    def flush(self) -> None:
        for writer in self._writers:
            writer.flush()

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


def open_writers(workdir: epath.PathLike, resumed_step: int | None = None, process_index: int = 0) -> MultiWriter:
    """The writers of a training: `metrics.jsonl` and `tensorboard/`; none on processes other than 0.

    Args:
      workdir: of the run; it exists.
      resumed_step: the step of the checkpoint that is resumed, or None.
      process_index: of this process.

    Raises:
      WorkdirError: they cannot be written.
    """
    if process_index != 0:
        return MultiWriter(())
    workdir = epath.Path(workdir)
    writers: list[MetricsWriter] = [JsonlWriter(workdir / METRICS_FILE, resumed_step)]
    try:
        writers.append(TensorBoardWriter(workdir / 'tensorboard', resumed_step))
    except ImportError as error:
        logging.warning('no TensorBoard files: %s', error)
    return MultiWriter(writers)


def _lines_until(path: epath.Path, step: int | None) -> list[bytes]:
    if step is None or not path.exists():
        return []
    return [metrics_file.line(record) for record in metrics_file.read(path) if record['step'] <= step]


def _json_number(value: float) -> float | int | None:
    if isinstance(value, Integral):
        return int(value)
    number = float(value)
    return number if math.isfinite(number) else None
