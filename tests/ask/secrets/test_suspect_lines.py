"""The lines of a log that need a closer look: every one with a secret, whatever happened to the file since."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recollect.ask.secrets import scan
from recollect.ask.secrets.scan import SuspectLines
from recollect.model.secrets.prefilter import suspects
from recollect.store.logs.reader import OpenLog
from tests.secret_home import token


def line(text: str) -> bytes:
    return json.dumps({"type": "user", "message": {"role": "user", "content": text}}).encode() + b"\n"


SOUND, WITH_SECRET = line("The quick brown fox."), line(f"It is {token('a seed')}, keep it.")


def spans(lines: list[bytes]) -> list[tuple[int, int]]:
    ends = [sum(map(len, lines[: number + 1])) for number in range(len(lines))]
    return [(end - len(one), len(one)) for end, one in zip(ends, lines, strict=True)]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "one.jsonl"


@pytest.mark.parametrize("block", [1 << 20, 64])
def test_only_lines_with_a_secret(log: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(scan, "_BLOCK", block)
    lines = [SOUND, WITH_SECRET, SOUND, SOUND, WITH_SECRET]
    log.write_bytes(b"".join(lines))
    assert [] == suspects(SOUND)

    with OpenLog(log) as opened:
        found = SuspectLines(opened)

    assert [one is WITH_SECRET for one in lines] == [found.may_be_in(*span) for span in spans(lines)]


def test_an_entry_over_several_lines_has_the_secrets_of_all(log: Path) -> None:
    log.write_bytes(SOUND + WITH_SECRET + SOUND)
    with OpenLog(log) as opened:
        found = SuspectLines(opened)

    both = len(SOUND) + len(WITH_SECRET)
    assert found.may_be_in(0, both)
    assert found.may_be_in(len(SOUND) + 5, both)
    assert not found.may_be_in(both, len(SOUND))


def test_an_oversize_line_is_suspect(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "LONGEST_LINE", 200)
    monkeypatch.setattr(scan, "_BLOCK", 64)
    long = line("many words " * 100)
    log.write_bytes(SOUND + long + SOUND)
    with OpenLog(log) as opened:
        found = SuspectLines(opened)

    assert [False, True, False] == [found.may_be_in(*span) for span in spans([SOUND, long, SOUND])]


def test_what_was_appended_since_is_suspect(log: Path) -> None:
    log.write_bytes(SOUND)
    with OpenLog(log) as opened:
        found = SuspectLines(opened)
        with log.open("ab") as more:
            more.write(SOUND)

        assert not found.may_be_in(0, len(SOUND))
        assert found.may_be_in(len(SOUND), len(SOUND))
