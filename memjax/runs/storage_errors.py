"""What orbax and TensorStore report when storage fails: recognised, put into a few words, and told only once.

A failed save (a full disk) is raised as an error, but also logged with a traceback, complained about by asyncio as an
exception that nobody fetched, printed when TensorStore's threads call an event loop that is gone, and warned of for
each write that had not begun. What is raised reaches the user as one line; the rest would only bury it.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import warnings
from typing import Any

# TensorStore reports the file system's errors as ValueErrors that begin with a status such as `RESOURCE_EXHAUSTED: `.
_STATUS = re.compile(r'[A-Z]+(_[A-Z]+)*: ')
_ERRNO = re.compile(r"os_error_code='(\d+)'")
# When writing one part of an array fails, the coroutines of the other parts are dropped.
_UNSTARTED_WRITE = "coroutine '.*(serialize|write).*' was never awaited"
_ORBAX = f'{os.sep}orbax{os.sep}'


def is_storage_error(error: BaseException) -> bool:
    """Whether storage failed, rather than the program."""
    return isinstance(error, OSError) or (
        isinstance(error, (ValueError, RuntimeError)) and _STATUS.match(str(error)) is not None
    )


def reason(error: BaseException) -> str:
    """A storage error in a few words, such as `No space left on device`."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    number = _ERRNO.search(str(error))
    return os.strerror(int(number[1])) if number else str(error).splitlines()[0]


def silence() -> None:
    """Silences all but what is raised, for the rest of the process; calling it again changes nothing."""
    for name in ('absl', 'asyncio'):
        logging.getLogger(name).addFilter(_is_worth_telling)
    if not isinstance(sys.unraisablehook, _QuietHook):
        sys.unraisablehook = _QuietHook(sys.unraisablehook)
    warnings.filterwarnings('ignore', message=_UNSTARTED_WRITE, category=RuntimeWarning)


def _is_worth_telling(record: logging.LogRecord) -> bool:
    if record.name != 'asyncio':
        return _ORBAX not in record.pathname
    # The file of a failed coroutine is in the message; a bare future has only its exception.
    return _ORBAX not in record.getMessage() and not (record.exc_info and is_storage_error(record.exc_info[1]))


class _QuietHook:
    """Passes on every exception that nobody can catch except a late callback into a closed event loop."""

    def __init__(self, previous: Any):
        self._previous = previous

    def __call__(self, unraisable: Any) -> None:
        late = unraisable.exc_type is RuntimeError and str(unraisable.exc_value) == 'Event loop is closed'
        if not late:
            self._previous(unraisable)
