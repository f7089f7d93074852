"""Eight processes at one file: nothing interleaved, lost or duplicated (P6; goals G2, G3, G8)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.writer import line_of

TORTURE = bool(os.environ.get("RECOLLECT_TORTURE"))
WRITERS = 8
ROOT = Path(__file__).resolve().parents[2]


def start(task: str, path: Path, count: int) -> list[subprocess.Popen[str]]:
    """Eight processes that begin together once all are ready."""
    command = [sys.executable, "-m", "tests.crash.writer", task, str(path)]
    processes = [
        subprocess.Popen(
            [*command, str(writer), str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for writer in range(WRITERS)
    ]
    for process in processes:
        assert process.stdout is not None
        assert "ready\n" == process.stdout.readline()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return processes


def finish(processes: list[subprocess.Popen[str]]) -> list[tuple[int, str]]:
    """Exit code and complaints of each."""
    ended = []
    for process in processes:
        _, complaints = process.communicate(timeout=3600)
        ended.append((process.returncode, complaints))
    return ended


def check(line: bytes, found: Counter[tuple[int, int]]) -> int:
    """Count a line as what it claims to be; 1 if it is not exactly that."""
    try:
        writer, number, _ = line.removeprefix(b'{"e":"').split(b".", 2)
        key = int(writer), int(number)
    except ValueError:
        return 1
    found[key] += 1
    return int(line != line_of(*key))


def whole_lines(path: Path, running: list[subprocess.Popen[str]]) -> Iterator[bytes]:
    """Read beside the writers: a chunk at a time, never past the last newline (S3)."""
    while not path.exists():
        pass
    rest = b""
    with path.open("rb") as file:
        while True:
            over = all(process.poll() is not None for process in running)
            chunk = file.read(1 << 20)
            if not chunk and over:
                break
            *lines, rest = (rest + chunk).split(b"\n")
            yield from lines
    assert b"" == rest


def test_writers_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Each of the lines of 20 B to 1 MB is in the file once, byte for byte, and nothing else is."""
    path = tmp_path / "log.jsonl"
    count = 3_000 if TORTURE else 500

    ended = finish(start("append", path, count))

    found: Counter[tuple[int, int]] = Counter()
    with path.open("rb") as file:
        wrong = sum(check(line.removesuffix(b"\n"), found) for line in file)
    expected = Counter((writer, number) for writer in range(WRITERS) for number in range(count))
    print(f"\nwriters: {found.total():,} lines, {path.stat().st_size / 1e6:,.0f} MB, {wrong} wrong")
    path.unlink()
    assert ([(0, "")] * WRITERS, 0, expected) == (ended, wrong, found)


def test_each_writer_keeps_its_order(tmp_path: Path) -> None:
    """What one process appended later stands later."""
    path = tmp_path / "log.jsonl"

    finish(start("append", path, 50))

    order: dict[bytes, list[int]] = {}
    for line in path.read_bytes().splitlines():
        writer, number, _ = line.removeprefix(b'{"e":"').split(b".", 2)
        order.setdefault(writer, []).append(int(number))
    assert {b"%d" % writer: list(range(50)) for writer in range(WRITERS)} == order


def test_a_reader_beside_the_writers_sees_no_torn_line(tmp_path: Path) -> None:
    """A reader that stops at the last newline returns every line whole while eight processes write (P2)."""
    path = tmp_path / "log.jsonl"
    count = 3_000 if TORTURE else 500
    found: Counter[tuple[int, int]] = Counter()

    running = start("append", path, count)
    wrong = sum(check(line, found) for line in whole_lines(path, running))

    ended = finish(running)
    expected = Counter((writer, number) for writer in range(WRITERS) for number in range(count))
    print(f"\nreader: {found.total():,} lines beside {WRITERS} writers, {wrong} torn")
    path.unlink()
    assert ([(0, "")] * WRITERS, 0, expected) == (ended, wrong, found)


@pytest.mark.parametrize("run", range(50 if TORTURE else 1))
def test_a_counter_under_the_lock_is_exact(tmp_path: Path, run: int) -> None:
    """8 x 2,000 increments are 16,000: two holders at once, ever, would lose some (S8)."""
    counter = tmp_path / "counter"
    counter.write_text("00000000")

    ended = finish(start("count", counter, 2_000))

    assert ([(0, "")] * WRITERS, "00016000") == (ended, counter.read_text())
