"""No line of a mirror is longer than our readers take, and its records are still kept byte for byte."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import recollect
from recollect.agents import lines
from recollect.agents.mirror import AgentMirror
from recollect.agents.mirror_files import originals
from recollect.cli.main import main
from recollect.model.conversation.chain import entries_of
from recollect.model.text.titles import typed_text
from tests.agents import tiny_homes

MIB = 1 << 20
HOMES: dict[str, tuple[str, Callable[[Path], Path]]] = {
    "codex": ("codex", tiny_homes.codex),
    "codex compressed": ("codex", tiny_homes.codex_compressed),
    "codex bare": ("codex", tiny_homes.codex_bare),
    "gemini documents": ("gemini", tiny_homes.gemini_document),
    "gemini lines": ("gemini", tiny_homes.gemini_lines),
    "opencode files": ("opencode", tiny_homes.opencode_files),
    "opencode database": ("opencode", tiny_homes.opencode_database),
    "qwen": ("qwen", tiny_homes.qwen),
}
Records = dict[str, dict[str, list[bytes]]]


def mirrored(agent: str, home: Path, data: Path) -> AgentMirror:
    mirror = AgentMirror(agent, home, data)
    mirror.refresh()
    assert not mirror.problems
    return mirror


def records(mirror: AgentMirror) -> Records:
    logs = sorted(mirror.root.rglob("projects/**/*.jsonl"))
    return {
        str(log.relative_to(mirror.root)): originals(map(json.loads, log.read_bytes().splitlines()))
        for log in logs
    }


def longest(mirror: AgentMirror) -> int:
    logs = mirror.root.rglob("projects/**/*.jsonl")
    return max(len(line) for log in logs for line in log.read_bytes().split(b"\n"))


@pytest.mark.parametrize("name", HOMES)
def test_records_that_do_not_fit_are_kept_in_pieces(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each comes back as one record, of every agent."""
    agent, make = HOMES[name]
    make(tmp_path / "home")
    whole = mirrored(agent, tmp_path / "home", tmp_path / "whole")
    limit = longest(whole) * 2 // 3
    monkeypatch.setattr(lines, "LONGEST", limit)
    cut = mirrored(agent, tmp_path / "home", tmp_path / "cut")
    assert longest(cut) <= limit < longest(whole)
    assert records(cut) == records(whole)


def test_bytes_that_are_no_text_are_kept_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut inside characters, or without any place to cut at."""
    file = tiny_homes.codex(tmp_path / "home")
    odd = [b"\xff" * 5000, "ü漢".encode() * 3000, b"\x80" * 5000, b"x" * 5000]
    file.write_bytes(file.read_bytes() + b"".join(line + b"\n" for line in odd))
    monkeypatch.setattr(lines, "LONGEST", 4096)
    mirror = mirrored("codex", tmp_path / "home", tmp_path / "data")
    assert longest(mirror) <= 4096
    (found,) = (of_log for log, of_log in records(mirror).items() if tiny_homes.CHANGED in log)
    assert b"".join(next(iter(found.values()))) == file.read_bytes()


def said(number: int, role: str, text: str) -> str:
    item = {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}
    line = {"timestamp": tiny_homes.AT, "ordinal": number, "type": "response_item", "payload": item}
    return f"{json.dumps(line)}\n"


def test_a_record_of_many_megabytes_is_shown_found_and_restored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of 34 MiB whole; one that is too long by itself is kept, and every surface tells it alike."""
    home, out = tmp_path / "home", tmp_path / "out"
    where = ["--home", str(home), "--data", str(tmp_path / "data")]
    file = tiny_homes.codex(home)
    long, longer = "needle " + "hay " * (34 * MIB // 4), "haystack " + "straw " * (65 * MIB // 6)
    file.write_text(said(1, "user", long) + said(2, "user", longer) + said(3, "assistant", "after all"))
    session = recollect.Home(home, data=tmp_path / "data", index=False).session(tiny_homes.CHANGED)
    entries = entries_of(session.conversation().nodes, session.load)
    assert [text for entry in entries if (text := typed_text(entry))] == [long.strip()]
    words = ["export", tiny_homes.CHANGED, "--format", "original", "--no-redact", "--output", str(out)]
    assert main([*words, *where]) == 0
    assert (out / file.relative_to(home)).read_bytes() == file.read_bytes()
    capsys.readouterr()
    assert main(["search", "needle", "--json", *where]) == 0
    assert len(json.loads(capsys.readouterr().out)["sessions"]) == 1
    assert main(["list", "--json", *where]) == 0
    listed = {one["id"]: one["damaged"] for one in json.loads(capsys.readouterr().out)["sessions"]}
    assert listed == {tiny_homes.CHANGED: 1, tiny_homes.UNTOUCHED: 0}
    report = recollect.Home(home, data=tmp_path / "data", index=False).check()
    assert report.summary.damaged == 1
    assert report.summary.by_code == {"oversize-record": 1}
    assert f"{len(said(2, 'user', longer)):,} bytes" in report.findings[0].what
