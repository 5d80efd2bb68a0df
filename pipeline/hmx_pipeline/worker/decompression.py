"""Bounded decompression of a Kafka record batch (gzip, snappy, lz4, zstd).

Enters: a batch in format version 2. Leaves: the same batch uncompressed, with the CRC of the compressed one. Raises
UnpackingError if it exceeds UNPACKED_BYTES or is invalid.
"""

import mmap
import struct
import zlib
from collections.abc import Callable, Mapping
from typing import Final

import cramjam

from hmx_pipeline.contracts.limits import UNPACKED_BYTES

_HEADER: Final = 61
"""Bytes of a batch before its records."""
_ATTRIBUTES: Final = 21
_CODEC: Final = 0x07
_GZIP: Final = 31
"""zlib's window bits for data with a gzip header."""
_XERIAL: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = 16

_scratch: Final = mmap.mmap(-1, UNPACKED_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
"""Output buffer of all batches; takes memory only as far as it was filled. Only the consumer's thread decompresses.
Private, or a fork would write into its siblings' batches."""


class UnpackingError(Exception):
    pass


def unpacked(batch: memoryview | bytes, codec: int) -> bytes:
    """Decompresses a batch, see the module."""
    packed = memoryview(batch)
    try:
        size = _UNPACK[codec](packed[_HEADER:])
    except (KeyError, ValueError, OSError, zlib.error, struct.error, cramjam.DecompressionError) as error:
        raise UnpackingError(str(error)) from error
    header = bytearray(packed[:_HEADER])
    header[_ATTRIBUTES + 1] &= ~_CODEC
    with memoryview(_scratch) as scratch, scratch[:size] as records:
        return b"".join((header, records))


def _gunzip(packed: memoryview) -> int:
    """Decompresses gzip, which may have several members."""
    size, rest = 0, bytes(packed)
    while rest:
        member = zlib.decompressobj(_GZIP)
        piece = member.decompress(rest, UNPACKED_BYTES - size + 1)
        if len(piece) > UNPACKED_BYTES - size:
            raise ValueError("too large")
        if not member.eof:
            raise ValueError("cut off")
        _scratch[size : size + len(piece)] = piece
        size, rest = size + len(piece), member.unused_data
    return size


def _unsnap(packed: memoryview) -> int:
    """Decompresses snappy, in Java's block format or unframed."""
    if bytes(packed[: len(_XERIAL)]) != _XERIAL:
        return _unsnap_block(packed, 0)
    size, at = 0, _XERIAL_HEADER
    while at < len(packed):
        (length,) = struct.unpack_from(">i", packed, at)
        size += _unsnap_block(packed[at + 4 : at + 4 + length], size)
        at += 4 + length
    return size


def _unsnap_block(packed: memoryview, at: int) -> int:
    size = cramjam.snappy.decompress_raw_len(packed)
    if at + size > UNPACKED_BYTES:
        raise ValueError("too large")
    with memoryview(_scratch) as scratch, scratch[at : at + size] as target:
        return int(cramjam.snappy.decompress_raw_into(packed, target))


_UNPACK: Final[Mapping[int, Callable[[memoryview], int]]] = {
    1: _gunzip,
    2: _unsnap,
    3: lambda packed: cramjam.lz4.decompress_into(packed, _scratch),
    4: lambda packed: cramjam.zstd.decompress_into(packed, _scratch),
}
"""aiokafka's codec number → function that fills the buffer and returns the size."""
