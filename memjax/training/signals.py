"""Stopping a training at the end of a step when the system or the user asks for it."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any

from jax.experimental import multihost_utils


class StopSignal:
    """Notes SIGTERM and SIGINT while the context lasts; what they did before is restored at its end.

    One process: a handler that only remembers the signal. Several: all must stop at the same step, which JAX's
    preemption service agrees on. It listens to SIGTERM itself, and a handler of Python's would silence it, so there is
    none; SIGINT is passed on as SIGTERM. A second SIGINT interrupts at once, with KeyboardInterrupt.

    Outside the main thread Python allows no handlers: there a single process is not stopped gently.

    Args:
      process_count: of the training (`jax.process_count()`).
    """

    def __init__(self, process_count: int = 1):
        self._process_count = process_count
        self._received: int | None = None
        self._interrupted = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> StopSignal:
        if threading.current_thread() is threading.main_thread():
            handled = (signal.SIGINT, signal.SIGTERM) if self._process_count == 1 else (signal.SIGINT,)
            for number in handled:
                self._previous[number] = signal.signal(number, self._remember)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()

    def requested(self, step: int) -> int | None:
        """Whether to save and stop now.

        Args:
          step: steps done. With several processes every one must ask after every step, with the same numbers.

        Returns:
          The number of the signal (the exit code is 128 + it: 143 for SIGTERM, 130 for SIGINT), or None to go on. The
          processes of one training agree on the step; those that no signal reached return SIGTERM.
        """
        if self._process_count == 1:
            return self._received
        if not multihost_utils.reached_preemption_sync_point(step):
            return None
        return self._received or int(signal.SIGTERM)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT:
            if self._interrupted:
                raise KeyboardInterrupt
            self._interrupted = True
        if self._received is None:
            self._received = number
            if self._process_count > 1:
                os.kill(os.getpid(), signal.SIGTERM)
