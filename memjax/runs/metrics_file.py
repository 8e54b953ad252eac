"""The lines of a run's `metrics.jsonl`: a JSON object each, with `step`, `split` and values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from etils import epath


def line(record: Mapping[str, Any]) -> bytes:
    """The record as one line. Its numbers are finite: JSON has no others."""
    return json.dumps(record, allow_nan=False).encode() + b'\n'


def read(path: epath.PathLike) -> list[dict[str, Any]]:
    """The records in order. What a crash left, such as a torn last line, is passed over.

    Raises:
      OSError: there is no such file, or it cannot be read.
    """
    return [record for text in epath.Path(path).read_bytes().splitlines() if (record := _parse(text)) is not None]


def _parse(text: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(text)
    except ValueError:
        return None
    return record if isinstance(record, dict) and isinstance(record.get('step'), int) else None
