"""Running an iterator ahead in a thread of its own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any, TypeVar

T = TypeVar('T')

_POLL_SECONDS = 0.05


def prefetched(iterator: Iterator[T], size: int) -> Iterator[T]:
    """The same items, of which up to `size` are made ahead by a background thread.

    What the iterator raises is raised here, after the items before it. The thread ends, and closes the iterator if that
    can be closed, when the items are used up, when this generator is closed or dropped, or when it raises.

    Args:
      iterator: used by the thread alone from the first item on.
      size: at least 1.
    """
    items: queue.Queue[tuple[str, Any]] = queue.Queue(maxsize=size)
    stopped = threading.Event()

    def put(kind: str, value: Any) -> None:
        while not stopped.is_set():
            try:
                return items.put((kind, value), timeout=_POLL_SECONDS)
            except queue.Full:
                continue

    def run() -> None:
        try:
            for item in iterator:
                put('item', item)
                if stopped.is_set():
                    break
        except BaseException as error:
            put('error', error)
        else:
            put('end', None)
        finally:
            if hasattr(iterator, 'close'):
                iterator.close()

    thread = threading.Thread(target=run, name='prefetch', daemon=True)
    thread.start()
    try:
        while True:
            kind, value = items.get()
            if kind == 'item':
                yield value
            elif kind == 'error':
                raise value
            else:
                return
    finally:
        stopped.set()
        thread.join()
