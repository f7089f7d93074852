"""Compressed files that can be read from any position: independent zstd frames and a seek table at the end.

The format is that of zstd's ``contrib/seekable_format``, so the plain ``zstd`` tool unpacks such a file as a
whole. Frames are cut at line ends after one and a half megabytes of raw bytes; reading a position
decompresses only its frame.

A reader trusts nothing: the table must describe the file exactly, and every frame must give exactly the
promised bytes, or ``DamagedData`` names the frame.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import zstandard

from recollect.errors import DamagedData
from recollect.system import fsops

# Measured on generated and on real logs (docs/design/keeping.md): frames of 1 MiB are 3 % and 11 % larger at
# the same level, because distant repetitions are in different frames; level 9 takes half as long again for 3
# % less.
FRAME_BYTES = 3 << 19
LEVEL = 6
_SKIPPABLE = 0x184D2A5E
_FOOTER_MAGIC = 0x8F92EAB1
_HEADER = struct.Struct("<II")
_ENTRY = struct.Struct("<II")
_FOOTER = struct.Struct("<IBI")
_LONGEST_TABLE = 64 << 20
# A frame holds whole lines, so a single huge line makes it larger than usual.
LONGEST_FRAME = (64 << 20) + (2 << 20)
_KEPT_FRAMES = 4


class FrameSize(NamedTuple):
    """The length of one frame, packed and unpacked."""

    stored: int
    raw: int


def cut_frames(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Cut raw bytes near ``FRAME_BYTES``, after a newline where there is one.

    The cuts depend only on the bytes from the start, so a log that grew has the same frames as before, except
    for its last one.
    """
    pending = bytearray()
    for chunk in chunks:
        pending += chunk
        while len(pending) >= FRAME_BYTES:
            end = pending.find(b"\n", FRAME_BYTES - 1) + 1
            if not end:
                if len(pending) < LONGEST_FRAME - FRAME_BYTES:
                    break
                end = LONGEST_FRAME - FRAME_BYTES
            yield bytes(pending[:end])
            del pending[:end]
    if pending:
        yield bytes(pending)


class Compression:
    """Compression tables of several megabytes, created once for many files. Not thread-safe."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True, write_content_size=True)
        self.unpacker = zstandard.ZstdDecompressor()


class SeekableWriter:
    """Writes frames, then the table. The caller provides an empty readable file, syncs it and names it."""

    def __init__(self, fd: int, packing: Compression | None = None) -> None:
        import hashlib  # reading a page needs no hashes and should not load them

        self._fd = fd
        self._packing = packing or Compression()
        self.frames: list[FrameSize] = []
        self.digest = hashlib.sha256()
        self.size = 0

    def add(self, raw: bytes) -> None:
        """Compress and write one frame, and read it back: an unverified copy is not a backup."""
        start = self.size
        self.copy(self._packing.compressor.compress(raw), len(raw))
        written = fsops.pread(self._fd, self.size - start, start)
        if self._packing.unpacker.decompress(written, max_output_size=len(raw)) != raw:
            raise DamagedData(
                f"archive: frame {len(self.frames) - 1} does not unpack to what was read",
                hint="check memory and disk, then try again",
            )

    def copy(self, packed: bytes, raw_length: int) -> None:
        """Write a frame that is already compressed."""
        self._write(packed)
        self.frames.append(FrameSize(len(packed), raw_length))

    def finish(self) -> None:
        self._write(seek_table(self.frames))

    def _write(self, data: bytes) -> None:
        fsops.write_all(self._fd, data)
        self.digest.update(data)
        self.size += len(data)


def seek_table(frames: Iterable[FrameSize]) -> bytes:
    """The table as written at the end of a file."""
    entries = b"".join(_ENTRY.pack(frame.stored, frame.raw) for frame in frames)
    footer = _FOOTER.pack(len(entries) // _ENTRY.size, 0, _FOOTER_MAGIC)
    return _HEADER.pack(_SKIPPABLE, len(entries) + len(footer)) + entries + footer


class SeekableReader:
    """Raw bytes of a compressed file by position. Caches a few unpacked frames. Not thread-safe."""

    def __init__(self, fd: int, path: Path) -> None:
        self._fd, self._path = fd, path
        self.frames = self._read_table()
        self._raw_starts = _running(frame.raw for frame in self.frames)
        self._stored_starts = _running(frame.stored for frame in self.frames)
        self.size = self._raw_starts[-1] + self.frames[-1].raw if self.frames else 0
        self._unpacker = zstandard.ZstdDecompressor()
        self._kept: OrderedDict[int, bytes] = OrderedDict()

    def read(self, size: int, offset: int) -> bytes:
        """At most ``size`` raw bytes from ``offset``, from one frame; empty at the end."""
        if not 0 <= offset < self.size:
            return b""
        number = bisect_right(self._raw_starts, offset) - 1
        start = offset - self._raw_starts[number]
        return self.frame(number)[start : start + size]

    def frame(self, number: int) -> bytes:
        """One frame, unpacked."""
        known = self._kept.get(number)
        if known is None:
            known = self._unpacked(number)
            self._kept[number] = known
            if len(self._kept) > _KEPT_FRAMES:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(number)
        return known

    def packed(self, number: int) -> bytes:
        """One frame as it is stored."""
        data = fsops.pread(self._fd, self.frames[number].stored, self._stored_starts[number])
        if len(data) != self.frames[number].stored:
            raise self._damaged(f"frame {number} is cut short")
        return data

    def _unpacked(self, number: int) -> bytes:
        expected = self.frames[number].raw
        packed = self.packed(number)
        try:
            claimed = zstandard.frame_content_size(packed)
            # Checked before unpacking: a few bytes may claim to become gigabytes.
            if claimed != expected:
                raise self._damaged(f"frame {number} has another length than the table says")
            data = self._unpacker.decompress(packed, max_output_size=expected, allow_extra_data=False)
        except zstandard.ZstdError as problem:
            raise self._damaged(f"frame {number}: {problem}") from problem
        if len(data) != expected:
            raise self._damaged(f"frame {number} has another length than the table says")
        return data

    def _read_table(self) -> list[FrameSize]:
        size = os.fstat(self._fd).st_size
        footer = fsops.pread(self._fd, _FOOTER.size, max(size - _FOOTER.size, 0))
        if len(footer) < _FOOTER.size:
            raise self._damaged("it is too short")
        count, flags, magic = _FOOTER.unpack(footer)
        length = _HEADER.size + count * _ENTRY.size + _FOOTER.size
        if magic != _FOOTER_MAGIC or flags or length > min(size, _LONGEST_TABLE):
            raise self._damaged("it has no seek table")
        table = fsops.pread(self._fd, length, size - length)
        entries = table[_HEADER.size : -_FOOTER.size]
        frames = [FrameSize(*_ENTRY.unpack_from(entries, at * _ENTRY.size)) for at in range(count)]
        if table != seek_table(frames) or sum(frame.stored for frame in frames) != size - length:
            raise self._damaged("its seek table does not describe it")
        if any(frame.raw > LONGEST_FRAME for frame in frames):
            raise self._damaged("a frame is larger than any we write")
        return frames

    def _damaged(self, problem: str) -> DamagedData:
        return DamagedData(
            f"{self._path.name}: {problem}", hint="`recollect archive verify` checks every byte"
        )


def _running(lengths: Iterable[int]) -> list[int]:
    starts, total = [], 0
    for length in lengths:
        starts.append(total)
        total += length
    return starts
