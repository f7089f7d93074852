"""The head of a log is read as the client reads it, and nothing in a directory makes us wait or raise."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.model.lines.damage import DEFAULT_LIMITS
from recollect.model.views.fact_line import FactLine, fact_line
from recollect.system.peek import ReadProblems, list_directory, open_regular, peek_lines

USER = b'{"type":"user","cwd":"/srv"}'


@pytest.mark.parametrize(
    "line",
    [
        USER,
        USER + b"\r",
        b"\xef\xbb\xbf" + USER,
        b'{"text":"\\ud83d","type":"user","cwd":"/srv"}',
        b'{"text":"\xff","type":"user","cwd":"/srv"}',
        b'{ "type" : "system", "cwd":"/srv", "type":"user" }',
        b'{"n":1e999,"type":"user","cwd":"/srv"}',
    ],
)
def test_odd_lines_the_client_accepts_are_seen(line: bytes) -> None:
    """CRLF, BOM, half a surrogate, invalid UTF-8, spacing, repeated keys, huge numbers."""
    assert FactLine(type="user", cwd="/srv") == fact_line(line)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"42",
        b"[]",
        b'"x"',
        b"\0\0\0",
        USER[:-3],
        b"x" + USER,
        b'{"a":NaN}',
        b"{" * 9,
        b'{"a":' * 99999,
    ],
)
def test_what_the_client_does_not_read_as_an_object_is_not_seen(line: bytes) -> None:
    """Other values, torn lines, text before an object, NaN, nesting without end."""
    assert fact_line(line) is None


@given(st.binary(max_size=200))
def test_no_bytes_raise(line: bytes) -> None:
    """Whatever stands in a line, the answer is an envelope or nothing."""
    assert isinstance(fact_line(line), FactLine | None)


def test_lines_are_read_only_as_far_as_asked(tmp_path: Path) -> None:
    """A line that starts behind the limit is not read; one that starts before it is read whole."""
    log = tmp_path / "a.jsonl"
    log.write_bytes(USER + b"\n" + b'{"type":"' + b"x" * 100 + b'"}\n' + USER)

    assert 2 == len(list(peek_lines(log, within=len(USER) + 1)))


def test_an_unterminated_last_line_counts_if_it_is_whole(tmp_path: Path) -> None:
    """The client loads it too; a torn one is passed over."""
    log = tmp_path / "a.jsonl"
    log.write_bytes(USER + b"\n" + USER + b"\n" + USER[:9])
    torn = len(list(peek_lines(log)))
    log.write_bytes(USER + b"\n" + USER)

    assert (2, 2) == (torn, len(list(peek_lines(log))))


def test_a_line_over_the_limit_is_stepped_over(tmp_path: Path) -> None:
    """64 MiB and a byte without a newline: the next line is found, the long one is not held."""
    log = tmp_path / "a.jsonl"
    with log.open("wb") as file:
        file.truncate(DEFAULT_LIMITS.line_bytes + 5)
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + USER + b"\n")

    assert [FactLine(type="user", cwd="/srv")] == list(peek_lines(log))


def test_packed_bytes_hold_no_lines(tmp_path: Path) -> None:
    """The client never reads gzip, and neither does a look at the head."""
    log = tmp_path / "a.jsonl"
    log.write_bytes(gzip.compress(USER * 100))

    assert [] == list(peek_lines(log))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in the file system here")
def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    """Opening it does not wait for a writer."""
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(OSError, match="not a regular file"):
        open_regular(tmp_path / "pipe")


def test_a_directory_that_can_be_read_again_is_no_longer_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Problems are those of the last look."""
    problems = ReadProblems()
    with monkeypatch.context() as closed:
        closed.setattr(os, "scandir", refuse)
        list_directory(tmp_path, problems)
    first = [(problem.path, problem.reason) for problem in problems]

    list_directory(tmp_path, problems)

    assert ([(tmp_path, "Permission denied")], 0) == (first, len(problems))


def refuse(path: Path) -> None:
    raise PermissionError(13, "Permission denied", str(path))
