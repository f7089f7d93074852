"""`recollect`: the first thing anybody sees."""

from __future__ import annotations

import datetime as dt
import json
import os
import shlex
import time
from pathlib import Path
from typing import Any

import pytest

from recollect.cli.main import main
from tests.change.migrations.old_sessions import put_inline
from tests.cli.session_logs import SessionLog, call, text
from tests.cli.terminals import COLOUR, environment, on_terminal, recollect

TITLE = '{"type":"custom-title","customTitle":"%s","sessionId":"%s"}\n'
PROMPT = (
    '{"parentUuid":null,"type":"user","message":{"role":"user","content":"Hi"},"uuid":"u","cwd":"/srv/app",'
    '"sessionId":"%s","timestamp":"2026-11-15T10:00:00.000Z"}\n'
)
SESSION = "3f2a9c1e-0000-4000-8000-000000000001"
OTHER = "5b1d9c1e-0000-4000-8000-000000000002"


def make_home(root: Path) -> Path:
    """A home with two sessions, one damaged line and a hostile title."""
    project = root / "projects" / "-srv-app"
    project.mkdir(parents=True)
    (project / f"{SESSION}.jsonl").write_text(PROMPT % SESSION + TITLE % ("\\u001b[31mRed", SESSION))
    (project / f"{OTHER}.jsonl").write_text(PROMPT % OTHER + "{torn\n")
    agents = project / SESSION / "subagents"
    agents.mkdir(parents=True)
    (agents / "agent-a1.jsonl").write_text(PROMPT % SESSION)
    return root


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """The JSON document a command printed."""
    assert 0 == main([*arguments, "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_without_a_home_it_says_so_and_shows_the_sample(capsys: pytest.CaptureFixture[str]) -> None:
    """A newcomer sees where it looked, and what it would look like."""
    assert 0 == main([])
    shown = capsys.readouterr().out

    assert shown.startswith("No home of an agent on this machine: looked in")
    assert "$CLAUDE_CONFIG_DIR" in shown
    assert "2 projects, 3 sessions, 1 sub-agent" in shown
    assert "Basket totals off by a cent" in shown


def test_the_next_step_of_the_sample_can_be_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    """Other commands know the sample only by name: the step names it, and finds the session."""
    assert 0 == main([])
    told = capsys.readouterr().out
    step = shlex.split(told.partition("cannot be read: recollect ")[2].partition("\n")[0])

    assert ["--home", ":sample", "doctor"] == step[:3]
    assert 1 == main(step)


def test_it_counts_what_is_there(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Homes, projects, sessions, sub-agents, bytes, damage; the newest first."""
    home = make_home(own_home / ".claude")
    logs = list(home.rglob("*.jsonl"))
    os.utime(home / "projects/-srv-app" / f"{OTHER}.jsonl", (1, 1))
    document = answer(capsys)

    assert (False, 1, 2, 1) == (
        document["sample"],
        document["projects"],
        document["sessions"],
        document["agents"],
    )
    assert sum(log.stat().st_size for log in logs) == document["bytes"]
    assert [str(home)] == [one["path"] for one in document["homes"]]
    assert (1, {"invalid-json": 1}, True) == (
        document["damage"]["lines"],
        document["damage"]["by_code"],
        document["damage"]["complete"],
    )
    assert {SESSION, OTHER} == {one["id"] for one in document["newest"]}


def test_looking_changes_nothing(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No file appears, grows or gets a new time, in the home or anywhere below HOME but our cache (H10)."""
    home = make_home(own_home / ".claude")

    def state() -> list[tuple[str, int, int]]:
        ours = own_home / "xdg-cache"
        paths = [home, *(path for path in sorted(own_home.rglob("*")) if ours not in (path, *path.parents))]
        return [(str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in paths]

    before = state()
    main([])

    assert "1 line of 1 file cannot be read" in capsys.readouterr().out
    assert before == state()


def test_an_unreadable_log_is_counted_not_fatal(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A directory in a log's place is passed over; everything else is still told."""
    home = make_home(own_home / ".claude")
    (home / "projects/-srv-app/8b1d9c1e-0000-4000-8000-000000000003.jsonl").mkdir()

    assert 2 == answer(capsys)["sessions"]


def aged(home: Path, session: str, days: float) -> Path:
    """Nothing was written to the session for so many days."""
    log = home / "projects/-srv-app" / f"{session}.jsonl"
    moment = time.time() - days * 86_400
    os.utime(log, (moment, moment))
    return log


def test_it_says_what_the_client_is_about_to_delete(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Untouched for 25 of 30 days: it goes within 7, and only the client has it. 20 days are no reason yet."""
    home = make_home(own_home / ".claude")
    aged(home, SESSION, 25)
    aged(home, OTHER, 20)
    found = answer(capsys)["expiring"]

    assert (7, 1, 1) == (found["within_days"], found["sessions"], found["not_archived"])
    main([])
    shown = capsys.readouterr().out
    assert (
        "Losing    Claude deletes 1 session within 7 days, not protected: recollect protect --apply" in shown
    )


def test_what_is_archived_is_not_lost(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """After `archive add` the sentence says so."""
    home = make_home(own_home / ".claude")
    aged(home, SESSION, 25)
    main(["protect", "now", SESSION])
    capsys.readouterr()
    found = answer(capsys)["expiring"]

    assert (1, 0) == (found["sessions"], found["not_archived"])


def test_findings_are_the_damage_seen_and_what_concerns_homes(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A damaged line, a settings file the client would ignore, a session about to go.

    Only `check` tells that no message is lost with the line.
    """
    home = make_home(own_home / ".claude")
    home.chmod(0o700)
    aged(home, SESSION, 25)
    (home / "settings.json").write_text("{")
    document = answer(capsys)
    found = document["damage"]["findings"] + document["findings"]

    assert {"invalid-json", "ignored-settings", "expiring"} == {one["code"] for one in found}
    damaged = next(one for one in found if one["code"] == "invalid-json")
    assert ("warning", OTHER, "1 line", f"recollect doctor {OTHER[:8]}") == (
        damaged["severity"],
        damaged["session"],
        damaged["what"],
        damaged["fix"],
    )
    main(["doctor", "--no-secrets", "--json"])
    checked = {one["code"] for one in json.loads(capsys.readouterr().out)["findings"]}
    assert {"skipped-bytes", "ignored-settings", "expiring"} <= checked


def test_the_sample_is_nobodys_home(capsys: pytest.CaptureFixture[str]) -> None:
    """No client deletes anything in it, and its modes are those of the package: only its one damaged line is told."""
    document = answer(capsys)

    assert (0, ["invalid-json"], []) == (
        document["expiring"]["sessions"],
        [one["code"] for one in document["damage"]["findings"]],
        document["findings"],
    )


def test_sub_agents_inside_their_sessions_are_counted(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `list` counts them: clients of 1.0 wrote them into the log of the session."""
    put_inline(own_home / ".claude")

    assert 0 == main([])
    assert "1 session, 1 sub-agent," in capsys.readouterr().out


def said(capsys: pytest.CaptureFixture[str], label: str) -> str:
    """The sentence with that label, in a pipe; "" where it is not said."""
    capsys.readouterr()
    assert 0 == main([])
    return next((line[10:] for line in capsys.readouterr().out.splitlines() if line.startswith(label)), "")


def test_what_seven_days_cost_is_said_with_the_project_that_cost_most(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three dollars an answer: three in seven days, two of them on one project, one answer in the seven before; `report` agrees."""
    now = dt.datetime.now(dt.UTC)
    for number, (days, cwd) in enumerate(
        [(0, "/srv/app"), (1, "/srv/app"), (2, "/srv/web"), (9, "/srv/app")]
    ):
        log = SessionLog(f"{SESSION[:-1]}{number}", cwd).answer(f"a{number}", text("Yes."))
        log.lines = [
            log.lines[0].replace("2026-11-15T10:00:00", f"{now - dt.timedelta(days=days):%Y-%m-%dT%H:%M:%S}")
        ]
        log.write(own_home / ".claude")

    assert "$9.00 in 7 days, $6.00 of it on app; $3.00 in the 7 before: recollect report" == said(
        capsys, "Cost"
    )
    assert "9" == answer(capsys)["cost"]["last_7_days"]
    assert 0 == main(["report"])
    assert "$9.00" in capsys.readouterr().out


def test_without_usage_no_cost_is_said(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_home(own_home / ".claude")
    assert not said(capsys, "Cost")


def test_nothing_is_fine_that_changed_since_it_was_checked(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before a check nothing is said; then that no history is lost; then which sessions nobody looked at since."""
    home = own_home / ".claude"
    home.mkdir(mode=0o700)
    for session in (SESSION, OTHER):
        SessionLog(session).prompt("u1", "Why?").answer("a1", text("So.")).write(home).chmod(0o600)
    (home / "projects").chmod(0o700)
    assert ("", "") == (said(capsys, "Health"), said(capsys, "Broken"))
    main(["doctor"])
    assert "no history is lost in 2 sessions: recollect doctor" == said(capsys, "Health")
    with (home / "projects/-srv-app" / f"{OTHER}.jsonl").open("a") as log:
        log.write("\n")
    assert "1 session of 2 not checked since they last changed: recollect doctor" == said(capsys, "Health")


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (
            SessionLog()
            .prompt("u1", "Go")
            .answer("a1", call("Bash", "c1"))
            .result("r1", "c1", "no", is_error=True),
            '"Go" ended in a failed Bash call',
        ),
        (
            SessionLog().prompt("u1", "Go").answer("a1", call("AskUserQuestion", "c1")),
            '"Go" ended in a question to you',
        ),
        (
            SessionLog().prompt("u1", "Go").answer("a1", text("Done.")).prompt("u2", "And now?"),
            '"Go" ended in a prompt without an answer',
        ),
        (SessionLog().prompt("u1", "Go").answer("a1", text("Done.")), ""),
        (
            SessionLog()
            .prompt("u1", "Go")
            .answer("a1", call("Bash", "c1"))
            .result("r1", "c1", "no", is_error=True)
            .answer("a2", text("It failed; here is why.")),
            "",
        ),
    ],
    ids=["failed", "question", "prompt", "answered", "told"],
)
def test_what_a_session_ended_in_is_said(
    log: SessionLog, expected: str, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log.write(own_home / ".claude")
    assert said(capsys, "Left") == (f"{expected}: recollect resume {SESSION[:8]}" if expected else "")


def test_open_todos_are_said(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only those that are neither done nor given up."""
    SessionLog().prompt("u1", "Go").answer("a1", text("Done.")).write(own_home / ".claude")
    todos = own_home / ".claude/todos"
    todos.mkdir()
    states = ("completed", "in_progress", "pending")
    items = [{"content": state, "status": state, "activeForm": state} for state in states]
    (todos / f"{SESSION}-agent-{SESSION}.json").write_text(json.dumps(items))
    assert said(capsys, "Left") == f'"Go" 2 todos open: recollect resume {SESSION[:8]}'
    unfinished = answer(capsys)["unfinished"]
    assert (SESSION, None, 2) == (unfinished["session"], unfinished["ended_in"], unfinished["open_todos"])


def test_all_of_it_fits_a_small_terminal(own_home: Path) -> None:
    """80 columns and 24 lines, with everything to say; no path twice and no whole id."""
    home = make_home(own_home / ".claude")
    aged(home, OTHER, 25)
    for number in range(6):
        log = SessionLog(f"{SESSION[:-1]}{number + 2}", minute=number).prompt("u1", "Long words " * 30)
        log.answer("a1", call("Bash", "c1")).result("r1", "c1", "no", is_error=True).write(home)
    shown, code = on_terminal(recollect(), 80, environment())
    lines = COLOUR.sub("", shown).splitlines()
    assert 0 == code
    assert len(lines) < 24
    assert all(len(line) <= 80 for line in lines)
    assert SESSION not in shown
    assert 1 == shown.count(str(home))
    assert all(f"\n{label}" in COLOUR.sub("", shown) for label in ("Losing", "Broken", "Left"))
