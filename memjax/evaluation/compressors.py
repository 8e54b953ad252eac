"""General-purpose compressors as a yardstick: a model's bits per character mean more beside theirs."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterable
from typing import Protocol

import pyppmd

from memjax.errors import ConfigError


class _Compressor(Protocol):
    def compress(self, data: bytes) -> bytes: ...

    def flush(self) -> bytes: ...


def _gzip() -> _Compressor:
    # 16 + 15: gzip's container, the largest window. gzip itself has memory level 9's buffers.
    return zlib.compressobj(9, zlib.DEFLATED, 16 + 15, 9)


def _xz(preset: int) -> _Compressor:
    # The check that the command-line tool puts at the end of each stream.
    return lzma.LZMACompressor(check=lzma.CHECK_CRC64, preset=preset)


class _ContextModel:
    """Prediction by partial matching from up to five bytes of context (PPMd, variant H), as a compressor."""

    def __init__(self):
        # Bytes for its contexts. A text of some tens of MB fits, and the model never begins anew.
        self._encoder = pyppmd.Ppmd7Encoder(5, 1 << 28)

    def compress(self, data: bytes) -> bytes:
        return self._encoder.encode(data)

    def flush(self) -> bytes:
        return self._encoder.flush()


COMPRESSORS: dict[str, Callable[[], _Compressor]] = {
    'gzip': _gzip,
    'bzip2': lambda: bz2.BZ2Compressor(9),
    'xz': lambda: _xz(9),
    'xz_extreme': lambda: _xz(9 | lzma.PRESET_EXTREME),
    'ppmd': _ContextModel,
}


def compressed_bits_per_byte(name: str, data: bytes | Iterable[bytes]) -> float:
    """What a compressor makes of the data, container included, in bits per byte of it.

    `gzip -9`, `bzip2 -9`, `xz -9`, `xz -9e` (`xz_extreme`), or an order-5 context model (`ppmd`): the counterpart of a
    byte-level model's bits per character on the same text, except that a compressor also has to learn from that text
    alone.

    Args:
      name: gzip | bzip2 | xz | xz_extreme | ppmd.
      data: the bytes, or pieces of them in order; only one piece at a time is held.

    Returns:
      NaN for no data at all.

    Raises:
      ConfigError: no such compressor.
    """
    if name not in COMPRESSORS:
        raise ConfigError(f'no compressor {name!r}: there are {", ".join(COMPRESSORS)}')
    compressor = COMPRESSORS[name]()
    given = made = 0
    for piece in (data,) if isinstance(data, bytes) else data:
        given += len(piece)
        made += len(compressor.compress(piece))
    made += len(compressor.flush())
    return 8 * made / given if given else float('nan')
