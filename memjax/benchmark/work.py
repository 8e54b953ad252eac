"""What is timed: pieces of work that every system can be asked to do, and the processes that do them.

A system is a program that reads one JSON object a line from standard input, does what it says, and writes one back:

    {"kind": "evaluate", "batch_size": 1, .., "count": 24}   ->   {"seconds": 1.25, "tokens": 1920, "bytes": 8601600}

What it builds for one piece of work it keeps, filled and compiled, so that a later request for the same is only timed.
Other systems than ours live in Python environments of their own, and their programs import nothing of this project but
`torch_peer.py`, which lies beside them.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from typing import Any

from memjax.errors import BenchmarkError


@dataclasses.dataclass(frozen=True)
class Work:
    """A piece of work, on random weights.

    Attributes:
      kind: `evaluate`: the losses of segments that follow one another, memory full from the start; `decode`: one token
        after another, each the likeliest after those before, memory full from the start.
      batch_size: rows.
      segment_length: tokens that are read at once; for `decode`, after how many tokens memory moves, where it does so
        by segments.
      memory_length: n_m, in slots.
      count: how many segments, or tokens, of each row are timed; of segments a multiple of those in a system's call.
      num_layers: L.
      model_dim: D.
      num_heads: H.
      mlp_dim: F.
      vocab_size: V.
      compressed_memory_length: n_cm, in slots; above 0: a Compressive Transformer.
      compression_rate: c, if it is one.
      compression: how it compresses, as the config names it.
    """

    kind: str
    batch_size: int
    segment_length: int
    memory_length: int
    count: int
    num_layers: int = 4
    model_dim: int = 256
    num_heads: int = 4
    mlp_dim: int = 1024
    vocab_size: int = 256
    compressed_memory_length: int = 0
    compression_rate: int = 1
    compression: str = 'mean'


@dataclasses.dataclass(frozen=True)
class Timing:
    """One timed piece of work.

    Attributes:
      seconds: wall time.
      tokens: that were read or made in it, all rows together.
      bytes: of the memory state, where the system tells.
    """

    seconds: float
    tokens: int
    bytes: int | None = None

    @property
    def rate(self) -> float:
        """Tokens a second."""
        return self.tokens / self.seconds


class Worker:
    """A system's process, on as many threads as it is given."""

    def __init__(self, name: str, command: Sequence[str], threads: int):
        """Starts it.

        Args:
          name: for messages.
          command: program and arguments.
          threads: CPU threads that it may use.

        Raises:
          BenchmarkError: there is no such program.
        """
        self.name = name
        counts = {key: str(threads) for key in ('OMP_NUM_THREADS', 'MKL_NUM_THREADS')}
        pins = hasattr(os, 'sched_setaffinity')  # not everywhere; the counts above serve where it is not
        cores = os.sched_getaffinity(0) if pins else set()
        # A pipe that nobody reads would stop it when full.
        self._complaints = tempfile.TemporaryFile('w+')  # noqa: SIM115
        # Inherited by the process, for which no Python need run between fork and exec.
        if pins:
            os.sched_setaffinity(0, sorted(cores)[:threads])
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._complaints,
                text=True,
                env={**os.environ, **counts, 'JAX_PLATFORMS': 'cpu', 'PYTHONWARNINGS': 'ignore'},
            )
        except OSError as error:
            self._complaints.close()
            raise BenchmarkError(f'{name} cannot be started: {error}') from error
        finally:
            if pins:
                os.sched_setaffinity(0, cores)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._complaints.close()

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def time(self, work: Work) -> Timing:
        """Does a piece of work and times it.

        Raises:
          BenchmarkError: the process ended, or answers something else.
        """
        return Timing(**self._ask(dataclasses.asdict(work)))

    def versions(self) -> dict[str, str]:
        """The system's packages and their versions."""
        return self._ask({'kind': 'versions'})

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            self._process.stdin.write(json.dumps(request) + '\n')
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())
        except (OSError, ValueError) as error:
            self._process.kill()
            self._process.wait()
            self._complaints.seek(0)
            said = self._complaints.read().strip().splitlines()
            raise BenchmarkError(f'{self.name} failed at {request}: {said[-1] if said else error}') from error
