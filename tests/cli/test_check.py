"""`recollect doctor`: what it prints, in which order, and how it ends."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

import pytest

from recollect.ask.doctor import check as service
from recollect.cli import check as command
from recollect.cli.main import main
from recollect.cli.terminal import output
from recollect.cli.terminal.options import CHOSEN
from recollect.model.checks.rules import CODES
from tests.agents.tiny_homes import CHANGED, codex
from tests.small_home import ONE, TALK, TWO, lines, put, uuid_of


def run(*words: str, homes: tuple[str, ...] = ()) -> int:
    """The command with these words, as ``main`` would run it."""
    parser = ArgumentParser()
    command.add_check_options(parser)
    options = parser.parse_args([*words, "--no-secrets"], Namespace(homes=list(homes), data=None))
    CHOSEN.replace(None, ())
    output.choose_options([word for home in homes for word in ("--home", home)])
    return command.run_check(options)


def damaged(home: Path) -> None:
    """Two sessions: the newer has odd ids and a number for a line, the older is cut."""
    late = {"timestamp": "2026-11-15T12:00:00.000Z"}
    cut = [*TALK[:2], {**TALK[2], **late, "parentUuid": uuid_of(99)}, {**TALK[3], **late}]
    older = put(home, ONE, cut)
    newer = put(home, TWO, [])
    newer.write_bytes(
        lines(TALK).replace(uuid_of(2).encode(), b"two").replace(ONE.encode(), TWO.encode()) + b"42\n"
    )
    for number, log in enumerate((older, newer)):
        log.chmod(0o600)
        stamp = 2_000_000_000 + number
        os.utime(log, (stamp, stamp))
    for path in (home, home / "projects", older.parent):
        path.chmod(0o700)


def shown(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_errors_first_whatever_the_limit(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Findings of one severity come in the order of ``list``; a limit never hides an error behind a remark."""
    damaged(own_home / ".claude")
    run("--json")
    found = [(one["session"][:4], one["code"]) for one in shown(capsys)["findings"]]

    assert [("3f2a", "history-cut"), ("5b1d", "not-an-object"), ("5b1d", "invalid-id")] == found
    run("--json", "--limit", "1")
    assert ["history-cut"] == [one["code"] for one in shown(capsys)["findings"]]


def test_what_people_see(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Grouped by session, each with its place and what to type."""
    damaged(own_home / ".claude")
    run("3f2a")
    text = capsys.readouterr().out.splitlines()

    assert text[0].startswith("3f2a9c1e  ")
    assert text[1].startswith("  error   history-cut: line 3, byte ")
    assert [
        "          before it is sent on resume; the history has 2 messages now, 4 after a",
        "          repair",
        "          -> recollect doctor 3f2a9c1e --fix",
        "             to link the entry to one that is in the log",
    ] == text[3:7]
    assert all(len(line) <= 80 for line in text)
    assert text[-3].endswith("4 lines, 4 valid, 0 damaged.")
    assert "  errors: 1 history-cut" == text[-2]
    assert "1 error, 0 warnings, 0 remarks." == text[-1]


def test_a_person_sees_errors_and_warnings_as_they_are_found(
    own_home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal: the newest session first, each finding once, then the rest and the same figures."""
    damaged(own_home / ".claude")
    run()
    piped = capsys.readouterr().out
    told: list[str] = []
    real = service.check

    def check(*given: Any, **named: Any) -> Any:
        done = real(*given, **named)
        told.append(capsys.readouterr().out)
        return done

    monkeypatch.setattr(command, "check", check)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "200")
    run()
    rest = capsys.readouterr().out
    plain = re.sub(r"\x1b\[[0-9;]*m", "", told[0])

    assert plain.index("not-an-object") < plain.index("history-cut")
    assert "invalid-id" not in plain
    assert "invalid-id" in rest
    assert 1 == (told[0] + rest).count("history-cut: ")
    assert piped.splitlines()[-1] == rest.splitlines()[-1]
    run("--limit", "5")
    assert "" == told[1]


def test_the_fix_repeats_the_global_options(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """So that it can be typed as it stands."""
    home = own_home / "other"
    damaged(home)
    run("--json", "--code", "history-cut", homes=(str(home),))

    assert f"recollect --home {home} doctor 3f2a9c1e --fix" == shown(capsys)["findings"][0]["fix"]


def test_limit_says_that_there_is_more(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr, with the option that shows all."""
    damaged(own_home / ".claude")
    run("--limit", "1")

    assert "1 of 3 findings are listed, the worst first; --limit 0 lists all\n" == capsys.readouterr().err


def test_the_figures_add_up(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Findings that are only counted are named, so that listed and counted ones give the sum of the codes."""
    torn = put(own_home / ".claude", ONE, TALK)
    torn.write_bytes(torn.read_bytes() + b"{torn\n" * 70)
    run(ONE, "--limit", "20")
    seen = capsys.readouterr()
    listed = sum(line.startswith("  warning ") for line in seen.out.splitlines())

    assert "  warnings: 70 skipped-bytes" in seen.out
    assert 20 == listed
    assert "20 of 50 findings are listed" in seen.err
    assert "20 more of the same kinds in the same logs are only counted" in seen.err


def test_hostile_text_is_made_visible(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An id that would drive the terminal."""
    log = put(own_home / ".claude", ONE, TALK)
    log.write_bytes(log.read_bytes().replace(uuid_of(2).encode(), b"\\u001b[2J\\u202e"))
    run(ONE)
    text = capsys.readouterr().out

    assert "invalid-id" in text
    assert not set("\x1b\u202e") & set(text)


def test_all_rules_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """With severity and meaning, in 80 columns."""
    assert 0 == run("--codes")
    lines = capsys.readouterr().out.splitlines()

    assert list(CODES) == [line.split()[0] for line in lines if not line.startswith(" ")]
    assert all(len(line) <= 80 for line in lines)


def test_the_fix_of_a_line_that_is_no_record_writes_the_file_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The printed command is taken as it stands: redacted, it would not be the file."""
    log = codex(tmp_path / "home")
    log.write_bytes(log.read_bytes() + b"no record\n")
    words = ["--home", str(tmp_path / "home"), "--data", str(tmp_path / "data")]
    main([*words, "doctor", CHANGED, "--json"])
    (fix,) = {
        one["fix"]
        for one in json.loads(capsys.readouterr().out)["findings"]
        if one["code"] == "unreadable-record"
    }
    assert main(shlex.split(fix.replace("DIR", str(tmp_path / "out")))[1:]) == 0
    assert [path.read_bytes() for path in (tmp_path / "out").rglob("*.jsonl")] == [log.read_bytes()]
