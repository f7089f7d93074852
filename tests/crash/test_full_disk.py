"""A disk that is full, limited or read-only: nothing acknowledged is lost, and it works again (S12; goal G7)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect.errors import AppendFailed, Outcome
from recollect.store.logs.log import Log
from tests.small_disk import small_disk

LINE = b"x" * 999
ROUNDS = 10

# The limit cannot be raised again by an ordinary user, so a process of its own takes it.
LIMITED = """
import resource, sys
from pathlib import Path
from recollect.errors import AppendFailed
from recollect.store.logs.log import Log
path = Path(sys.argv[1])
soft = 10_500
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, resource.RLIM_INFINITY))
log = Log(path)
stored = 0
try:
    while True:
        log.append(b"x" * 999)
        stored += 1
except AppendFailed as error:
    print(stored, path.stat().st_size, error.outcome.name, error.cause.errno, "ulimit -f" in error.hint)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
log.append(b"again")
log.close()
print(path.read_bytes() == (b"x" * 999 + b"\\n") * stored + b"again\\n")
"""

# Root may write anywhere, so it becomes nobody first.
FORBIDDEN = """
import os, sys
from pathlib import Path
from recollect.errors import AppendFailed
from recollect.store.logs.log import Log
if os.geteuid() == 0:
    os.setuid(65534)
try:
    Log(Path(sys.argv[1])).append(b"x")
except AppendFailed as error:
    print(error.outcome.name, error.cause.errno, "owner and mode" in error.hint)
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "size=64k,nr_inodes=64") as place:
        yield place


def fill(log: Log, path: Path) -> tuple[int, AppendFailed]:
    """Append until refused; how many lines the file has then, and the refusal."""
    for _ in range(1000):
        try:
            log.append(LINE)
        except AppendFailed as error:
            return path.read_bytes().count(b"\n"), error
    raise AssertionError("a disk of 64 kB took 1 MB")


def test_a_full_disk_refuses_and_works_again(disk: Path) -> None:
    """Ten times: fill it, be refused with the file as it was, free space, append with the same object."""
    path, ballast = disk / "log.jsonl", disk / "ballast"
    seen = []

    with Log(path) as log:
        log.append(b"first")
        for _ in range(ROUNDS):
            ballast.write_bytes(b"b" * 40_000)
            before, error = fill(log, path)
            whole = path.read_bytes().endswith(LINE + b"\n")
            ballast.unlink()
            log.append(b"after")
            after = path.read_bytes().count(b"\n")
            os.truncate(path, 0)
            seen.append((error.outcome, error.cause and error.cause.strerror, whole, after - before))

    assert [(Outcome.NOT_STORED, "No space left on device", True, 1)] * ROUNDS == seen


def test_a_disk_too_full_for_a_lock_file_says_so(disk: Path) -> None:
    """Not even an empty file can be made: the refusal is typed and says what to do."""
    for number in range(100):
        try:
            (disk / str(number)).touch()
        except OSError:
            break

    with Log(disk / "log.jsonl") as log, pytest.raises(AppendFailed) as caught:
        log.append(b"x")

    assert (Outcome.NOT_STORED, True) == (caught.value.outcome, "free space" in caught.value.hint)


def test_a_disk_that_turns_read_only_refuses(disk: Path) -> None:
    """A file system remounted read-only gives "not stored"; for writing again, the log goes on."""
    path = disk / "log.jsonl"
    with Log(path) as log:
        log.append(b"one")
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    with Log(path) as log, pytest.raises(AppendFailed) as caught:
        log.append(b"two")
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    with Log(path) as log:
        log.append(b"three")

    assert (Outcome.NOT_STORED, "Read-only file system", b"one\nthree\n") == (
        caught.value.outcome,
        caught.value.cause and caught.value.cause.strerror,
        path.read_bytes(),
    )


@pytest.mark.skipif(os.name != "posix", reason="there are no such limits on Windows")
def test_a_file_size_limit_refuses_and_works_again(tmp_path: Path) -> None:
    """With a limit of 10,500 bytes ten lines of 1,000 fit; the eleventh is taken back (EFBIG is 27)."""
    ran = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "log.jsonl")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert ("10 10000 NOT_STORED 27 True\nTrue\n", "") == (ran.stdout, ran.stderr)


@pytest.mark.skipif(os.name != "posix", reason="there are no such modes on Windows")
def test_a_forbidden_directory_refuses(tmp_path: Path) -> None:
    """Without the right to write the answer is "not stored", with a hint about owner and mode (EACCES is 13)."""
    place = tmp_path / "forbidden"
    place.mkdir(mode=0o500)
    ran = subprocess.run(
        [sys.executable, "-c", FORBIDDEN, str(place / "log.jsonl")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert ("NOT_STORED 13 True\n", "") == (ran.stdout, ran.stderr)
