"""Silences what orbax says besides raising an error.

It logs every save, and a failed one (a full disk) several times over: with tracebacks in its own log, as tasks of
asyncio's whose exceptions nobody fetched, and as calls from TensorStore's threads to an event loop that is gone.
Whatever fails is also raised, and told to the user in one line; the rest would only bury it.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from typing import Any

_ORBAX = f'{os.sep}orbax{os.sep}'


def _is_not_orbax(record: logging.LogRecord) -> bool:
    if record.name != 'asyncio':
        return _ORBAX not in record.pathname
    # The message names the coroutine's file; a bare future shows only in the traceback of its exception.
    frames = traceback.extract_tb(record.exc_info[2]) if record.exc_info else []
    return _ORBAX not in record.getMessage() and not any(_ORBAX in frame.filename for frame in frames)


def silence() -> None:
    """Silences it for the rest of the process; calling it again changes nothing."""
    for name in ('absl', 'asyncio'):
        logging.getLogger(name).addFilter(_is_not_orbax)
    if not isinstance(sys.unraisablehook, _QuietHook):
        sys.unraisablehook = _QuietHook(sys.unraisablehook)


class _QuietHook:
    """Passes on every exception that nobody can catch except a late callback into a closed event loop."""

    def __init__(self, previous: Any):
        self._previous = previous

    def __call__(self, unraisable: Any) -> None:
        late = unraisable.exc_type is RuntimeError and str(unraisable.exc_value) == 'Event loop is closed'
        if not late:
            self._previous(unraisable)
