"""A disk that is full, limited or read-only: nothing acknowledged is lost, and it works again (S12; goal G7)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect.errors import AppendFailed, Outcome
from recollect.storage.logs.log import Log

LINE = b"x" * 999
ROUNDS = 10

# The limit cannot be raised again by an ordinary user, so a process of its own takes it.
LIMITED = """
import resource, sys
from pathlib import Path
from recollect.errors import AppendFailed
from recollect.storage.logs.log import Log
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
from recollect.storage.logs.log import Log
if os.geteuid() == 0:
    os.setuid(65534)
try:
    Log(Path(sys.argv[1])).append(b"x")
except AppendFailed as error:
    print(error.outcome.name, error.cause.errno, "owner and mode" in error.hint)
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 kB in memory; needs the right to mount."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = shutil.which("mount")
    command = [mount or "mount", "-t", "tmpfs", "-o", "size=64k,nr_inodes=64", "tmpfs", str(place)]
    if mount is None or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip(
            "cannot mount a small tmpfs here (needs root on Linux); the file-size limit is tested instead"
        )
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(log: Log, path: Path) -> tuple[int, AppendFailed]:
    """Append until refused; how many lines the file has then, and the refusal."""
    for _ in range(1000):
        try:
            log.append(LINE)
        except AppendFailed as error:
            return path.read_bytes().count(b"\n"), error
    raise AssertionError("a disk of 64 kB took 1 MB")


def test_a_full_disk_refuses_and_works_again(small_disk: Path) -> None:
    """Ten times: fill it, be refused with the file as it was, free space, append with the same object."""
    path, ballast = small_disk / "log.jsonl", small_disk / "ballast"
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


def test_a_full_disk_loses_nothing_acknowledged(small_disk: Path) -> None:
    """What was acknowledged before the disk was full is all there, and nothing of what was refused."""
    path = small_disk / "log.jsonl"
    acknowledged = []
    with Log(path) as log:
        for number in range(10_000):
            try:
                log.append(b"%d" % number + b"." * (number * 37 % 3000), str(number))
            except AppendFailed:
                break
            acknowledged.append(number)

    stored = [int(line.split(b".")[0]) for line in path.read_bytes().splitlines()]

    assert (acknowledged, True) == (stored, len(stored) > 10)


def test_a_batch_that_does_not_fit_leaves_nothing(small_disk: Path) -> None:
    """Lines of a batch that would have fitted are taken back with those that did not."""
    path = small_disk / "log.jsonl"
    with Log(path) as log:
        log.append(b"first")
        with pytest.raises(AppendFailed) as caught:
            log.append_many([(LINE, None)] * 100)

    assert (Outcome.NOT_STORED, b"first\n") == (caught.value.outcome, path.read_bytes())


def test_a_disk_too_full_for_a_lock_file_says_so(small_disk: Path) -> None:
    """Not even an empty file can be made: the refusal is typed and says what to do."""
    for number in range(100):
        try:
            (small_disk / str(number)).touch()
        except OSError:
            break

    with Log(small_disk / "log.jsonl") as log, pytest.raises(AppendFailed) as caught:
        log.append(b"x")

    assert (Outcome.NOT_STORED, True) == (caught.value.outcome, "free space" in caught.value.hint)


def test_a_disk_that_turns_read_only_refuses(small_disk: Path) -> None:
    """A file system remounted read-only gives "not stored"; for writing again, the log goes on."""
    path = small_disk / "log.jsonl"
    with Log(path) as log:
        log.append(b"one")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with Log(path) as log, pytest.raises(AppendFailed) as caught:
        log.append(b"two")
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
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
