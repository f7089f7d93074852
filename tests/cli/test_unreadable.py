"""Files that cannot be read: check, scan and redact go on, name them, and do not say that all is well."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_hardship import AS_ANYONE, needs_setpriv
from tests.web.pages import two_sessions

pytestmark = [needs_setpriv]
INCOMPLETE = 4


def run(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [
        *AS_ANYONE,
        sys.executable,
        "-m",
        "recollect",
        "--home",
        str(home),
        "--data",
        str(home.parent / "data"),
    ]
    environment = {
        "HOME": str(home.parent),
        "PATH": os.defpath,
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }
    return subprocess.run([*command, *words], env=environment, capture_output=True, text=True, check=False)


def furnished(home: Path) -> list[Path]:
    """A home with one file or directory of each kind; returns those that may be closed."""
    two_sessions(home)
    first, second = sorted(home.glob("projects/*/*.jsonl"))
    side = second.with_suffix("")
    made = {
        side / "tool-results" / "x.txt": "output",
        side / "subagents" / "agent-a1b2c3d.jsonl": "{}\n",
        home / "file-history" / second.stem / "0123456789abcdef@v1": "a file",
        home / "todos" / f"{second.stem}-agent-{second.stem}.json": "[]",
        home / "tasks" / second.stem / "1.json": "{}",
        home / "history.jsonl": "{}\n",
        home / "settings.json": "{}",
    }
    for path, text in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return [first, second, side / "tool-results", side / "subagents", first.parent, *made]


@pytest.fixture(params=range(int(os.environ.get("RECOLLECT_TORTURE", "0")) * 20 + 3))
def closed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, list[Path]]]:
    """A home of which some paths cannot be read."""
    home, dice = tmp_path / "claude", random.Random(int(request.param))
    places = furnished(home)
    chosen = dice.sample(places, dice.randrange(1, 4))
    # One inside another that is closed cannot be named.
    chosen = [one for one in chosen if not any(other in one.parents for other in chosen)]
    for path in chosen:
        path.chmod(0)
    yield home, chosen
    for path in chosen:
        path.chmod(0o700)


def test_what_cannot_be_read_is_named_and_the_rest_is_done(closed: tuple[Path, list[Path]]) -> None:
    """Exit status 4, every closed path in the answer, no word that nothing was found, and no traceback."""
    home, paths = closed
    scanned, scanned_json = run(home, "secrets"), run(home, "secrets", "--json")
    checked, checked_json = run(home, "doctor"), run(home, "doctor", "--json")

    for done in (scanned, scanned_json, checked, checked_json):
        assert (done.returncode, "Traceback" in done.stderr) == (INCOMPLETE, False), done.stdout + done.stderr
    assert "No secrets found (" not in scanned.stdout
    assert "Incomplete" in scanned.stdout
    problems = [Path(one["path"]) for one in json.loads(scanned_json.stdout)["problems"]]
    found = [
        Path(one["path"])
        for one in json.loads(checked_json.stdout)["findings"]
        if one["code"] == "unreadable"
    ]
    for path in paths:
        assert any(path == one or path in one.parents for one in problems), (path, problems)
        assert any(path == one or path in one.parents for one in found), (path, found)
    assert "error" in checked.stdout
    assert json.loads(checked_json.stdout)["summary"]["sessions"] >= 1


def test_redact_does_not_say_that_nothing_is_left(tmp_path: Path) -> None:
    """A side file, and a copy in the quarantine, that cannot be read."""
    home = tmp_path / "claude"
    furnished(home)
    first, second = sorted(home.glob("projects/*/*.jsonl"))
    kept = tmp_path / "data" / "quarantine" / second.stem / "bytes.jsonl"
    kept.parent.mkdir(parents=True)
    kept.write_text("{}\n")
    kept.chmod(0)
    plain = run(home, "secrets", "remove", second.stem)
    everywhere = run(home, "secrets", "remove", second.stem, "--everywhere", "--apply")
    (second.with_suffix("") / "tool-results" / "x.txt").chmod(0)
    side = run(home, "secrets", "remove", second.stem, "--json")

    assert (plain.returncode, everywhere.returncode, side.returncode) == (0, INCOMPLETE, INCOMPLETE)
    assert str(kept) in everywhere.stderr
    assert [Path(one["path"]).name for one in json.loads(side.stdout)["unread"]] == ["x.txt"]
    assert run(home, "secrets", "remove", first.stem).returncode == 0
