"""How far a training is: a live line on a terminal, a plain line at each report elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from tqdm import tqdm


class Progress:
    """Shows steps done, loss, tokens a second and the time left, as a context.

    Args:
      total_steps: of the whole training.
      done_steps: before this process began (a resumed training).
      stream: where it is shown. Carriage returns would make a log file unreadable, so unless this is a terminal each
        report is a line of its own.
      enabled: False on all processes but one.
    """

    def __init__(self, total_steps: int, done_steps: int = 0, stream: TextIO | None = None, enabled: bool = True):
        self._total_steps = total_steps
        self._step = done_steps
        self._clock_started: tuple[int, float] | None = None  # at this step, at this time
        self._stream = sys.stderr if stream is None else stream
        self._enabled = enabled
        self._bar = None
        if enabled and self._stream.isatty():
            self._bar = tqdm(
                total=total_steps, initial=done_steps, file=self._stream, unit='step', dynamic_ncols=True, leave=True
            )

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def advance(self, step: int) -> None:
        """Notes that so many steps are done; cheap enough for every step.

        The first call starts the clock of the time left, since a first step compiles.
        """
        if self._clock_started is None:
            self._clock_started = step, time.monotonic()
        if self._bar is not None:
            self._bar.update(step - self._step)
        self._step = step

    def report(self, loss: str, tokens_per_second: float, data_wait_share: float = 0.0) -> None:
        """Shows the newest figures.

        Args:
          loss: in words, such as `loss 1.52 (2.19 bpc)`.
          tokens_per_second: of late.
          data_wait_share: of the time since the last report, how much went by waiting for data; shown from 1 % on.
        """
        rate = f'{tqdm.format_sizeof(tokens_per_second)} tokens/s'
        if data_wait_share >= 0.01:
            rate += f', {data_wait_share:.0%} waiting for data'
        if self._bar is not None:
            self._bar.set_postfix_str(f'{loss}, {rate}')
        else:
            self.note(f'step {self._step}/{self._total_steps}, {loss}, {rate}, {self._time_left()}')

    def note(self, text: str) -> None:
        """A line of its own, which does not tear the live one."""
        if not self._enabled:
            return
        if self._bar is not None:
            self._bar.write(text, file=self._stream)
        else:
            print(text, file=self._stream, flush=True)

    def _time_left(self) -> str:
        step, start = self._clock_started or (self._step, 0.0)
        if self._step == step:
            return 'time left unknown'
        seconds = (time.monotonic() - start) / (self._step - step) * (self._total_steps - self._step)
        return f'{tqdm.format_interval(seconds)} left'
