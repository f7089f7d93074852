"""Seekable compressed files: any place readable, any flipped bit noticed."""

from __future__ import annotations

import os
import shutil
import subprocess
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.errors import DamagedData
from recollect.store.archive import objects
from recollect.store.archive.objects import SeekableReader, SeekableWriter, cut_frames
from recollect.store.logs.reader import LogReader, read_lines
from tests.store.archive.kept_sessions import lines


def packed(path: Path, raw: bytes) -> Path:
    """Write a seekable file."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    writer = SeekableWriter(fd)
    for frame in cut_frames([raw]):
        writer.add(frame)
    writer.finish()
    os.close(fd)
    return path


def unpacked(path: Path) -> bytes:
    """Everything a reader gives, in odd steps."""
    fd = os.open(path, os.O_RDONLY)
    try:
        reader, parts, place = SeekableReader(fd, path), [], 0
        while chunk := reader.read(70_001, place):
            parts.append(chunk)
            place += len(chunk)
        return b"".join(parts)
    finally:
        os.close(fd)


@given(st.lists(st.integers(0, 900), max_size=60), st.integers(50, 700))
@settings(deadline=None, max_examples=60)
def test_frames_are_the_same_however_the_bytes_arrive(lengths: list[int], frame_bytes: int) -> None:
    """Where the cuts are depends on the bytes alone, and they lie behind newlines."""
    raw = b"".join(b"x" * length + b"\n" for length in lengths)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(objects, "FRAME_BYTES", frame_bytes)
        whole = list(cut_frames([raw]))
        pieces = list(cut_frames(raw[at : at + 97] for at in range(0, len(raw), 97)))
    assert whole == pieces
    assert raw == b"".join(whole)
    assert all(frame.endswith(b"\n") and len(frame) >= frame_bytes for frame in whole[:-1])


def test_the_plain_tool_unpacks_it(tmp_path: Path) -> None:
    """`zstd -d` gives the raw bytes: the archive is readable without us."""
    if shutil.which("zstd") is None:
        pytest.skip("the zstd tool is not installed")
    raw = lines(9_000)
    path = packed(tmp_path / "log.zst", raw)
    out = subprocess.run(["zstd", "-dc", path], check=True, capture_output=True).stdout
    assert raw == out


def test_every_place_reads_as_in_the_raw_log(tmp_path: Path) -> None:
    """Readers of logs take a compressed one as any other: lines, pages from the end, entries by offset."""
    raw = lines(9_000)
    plain = tmp_path / "log.jsonl"
    plain.write_bytes(raw)
    path = packed(tmp_path / "log.jsonl.zst", raw)
    assert raw == unpacked(path)
    assert list(read_lines(plain)) == list(read_lines(path))
    assert LogReader(plain).tail(5) == LogReader(path).tail(5)
    from_there = [list(islice(LogReader(log).entries(1_500_000), 3)) for log in (plain, path)]
    assert from_there[0] == from_there[1]


@pytest.mark.parametrize("cut", [0, 1, 8, 9, 17, 400])
def test_a_file_that_is_cut_short_is_damage(tmp_path: Path, cut: int) -> None:
    """A file without its table is refused by name, not misread."""
    path = packed(tmp_path / "log.zst", lines(50))
    data = path.read_bytes()
    path.write_bytes(data[:cut] if cut < 100 else data[:-cut])
    with pytest.raises(DamagedData):
        unpacked(path)


def test_a_frame_that_claims_too_much_is_never_unpacked(tmp_path: Path) -> None:
    """A few bytes that would become gigabytes are refused by what their header says."""
    import zstandard

    bomb = zstandard.ZstdCompressor(level=1).compress(bytes(64 << 20))
    path = tmp_path / "bomb.zst"
    path.write_bytes(bomb + objects.seek_table([objects.FrameSize(len(bomb), 100)]))
    with pytest.raises(DamagedData, match="another length"):
        unpacked(path)
