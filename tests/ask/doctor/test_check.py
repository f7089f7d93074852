"""`ask.doctor`: every code of the table has a home that raises it, and a sound home raises none."""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recollect.ask.doctor.check import CheckReport, check
from recollect.ask.doctor.log_report import MOST_OF_A_CODE
from recollect.ask.library import Home
from recollect.model.checks import lines as line_checks
from recollect.model.checks.rules import CODES, Severity
from recollect.model.checks.scan import LogIdentity
from recollect.store.changes.journal import ChangeJournal, ChangePlan
from tests.model.checks.planted import ENDS, PLANTS, SESSION, image, planted, png
from tests.small_home import (
    ONE,
    TALK,
    TWO,
    call,
    lines,
    link,
    open_in_this_process,
    outcome,
    prompt,
    put,
    reply,
    said,
    uuid_of,
)

IN_THE_MODEL = {"api-not-checked"}
# A log that is open, or has a name of its own, has a case of its own.
PLANTED = [name for name in (*PLANTS, *ENDS) if planted("tools", [name]).identity == LogIdentity(SESSION)]
AGENT = "a1b2c3d"


def closed(root: Path) -> None:
    """Give everything the modes a client gives it."""
    for path in [root, *root.rglob("*")]:
        path.chmod(0o700 if path.is_dir() else 0o600)


def checked(root: Path, *, now: dt.datetime | None = None, secrets: bool = False) -> CheckReport:
    """Check a whole home; its data directory lies beside it."""
    home = Home(root, data=root.parent / "data")
    return check(home, data=root.parent / "data", now=now, with_secrets=secrets)


def log_of(root: Path, data: bytes, session: str = ONE) -> Path:
    log = put(root, session, [])
    log.write_bytes(data)
    return log


def sound(root: Path) -> None:
    """A session with tools, thinking, parallel calls, a sub-agent and a task."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    put(
        root,
        ONE,
        [
            *TALK,
            prompt(5, 4, "Q3"),
            reply(6, 5, thought, answer="msg_x"),
            reply(7, 6, call("toolu_1"), answer="msg_x"),
            reply(8, 7, call("toolu_2"), answer="msg_x"),
            outcome(9, 7, "toolu_1", "R1"),
            outcome(10, 8, "toolu_2", "R2"),
            reply(11, 10, said("A3")),
        ],
    )
    agent = root / "projects" / "-srv-app" / ONE / "subagents" / f"agent-{AGENT}.jsonl"
    agent.parent.mkdir(parents=True)
    agent.write_bytes(
        lines([prompt(1, None, "go", isSidechain=True), reply(2, 1, said("done"), isSidechain=True)])
    )
    (root / "tasks" / ONE).mkdir(parents=True)
    (root / "tasks" / ONE / "1.json").write_text("{}")
    (root / "settings.json").write_text('{"permissions": {"deny": ["Read(./x)"]}, "cleanupPeriodDays": 30}')
    (root / ".claude.json").write_text("{}")


def entries(*more: dict[str, Any]) -> Callable[[Path], None]:
    """A home whose session is the talk and what is given."""
    return lambda root: void(put(root, ONE, [*TALK, *more]))


def raw(data: bytes) -> Callable[[Path], None]:
    """A home whose session has these bytes."""
    return lambda root: void(log_of(root, data))


def void(_: object) -> None:
    """Drop a result."""


def _at(minutes: int) -> str:
    return f"2026-11-15T{10 + minutes // 60:02d}:{minutes % 60:02d}:00.000Z"


def far_orphan() -> bytes:
    late = [{**TALK[2], "parentUuid": uuid_of(99), "timestamp": _at(50)}, {**TALK[3], "timestamp": _at(51)}]
    return lines([*TALK[:2], *late])


def with_agent_of(root: Path, owner: str) -> None:
    sound(root)
    agent = root / "projects" / "-srv-app" / f"agent-{AGENT}.jsonl"
    agent.write_bytes(lines([{**prompt(1, None, "go", isSidechain=True), "sessionId": owner}]))


def with_empty_newest(root: Path) -> None:
    old = put(root, ONE, TALK)
    os.utime(old, (1_700_000_000, 1_700_000_000))
    log_of(root, b"", TWO)


def with_collision(root: Path) -> None:
    put(root, ONE, TALK, cwd="/srv/my-app")
    two = put(root, TWO, TALK, cwd="/srv/my.app")
    assert two.parent.name == "-srv-my-app"


def with_file(name: str, text: str) -> Callable[[Path], None]:
    def build(root: Path) -> None:
        sound(root)
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return build


def with_directory(root: Path) -> None:
    """A directory where a log should be."""
    sound(root)
    (root / "projects" / "-srv-app" / f"{TWO}.jsonl").mkdir()


def with_open_tail(root: Path) -> None:
    log_of(root, lines(TALK) + b'{"type":"user","mess')
    open_in_this_process(root, ONE)


def with_secret(root: Path) -> None:
    letters = random.Random(7).choices(string.ascii_letters + string.digits, k=36)
    put(root, ONE, [*TALK, prompt(5, 4, f"the token is ghp_{''.join(letters)}")])


def with_interrupted_change(root: Path) -> None:
    with_record(root, state="ready")


def with_record(root: Path, state: str | None) -> None:
    """A change of ours, and what a crash could have left of its record."""
    sound(root)
    plan = ChangePlan("test", "a subject", root)
    plan.create(root / "note.txt", b"x")
    journal = ChangeJournal(root.parent / "data" / "undo")
    applied = journal.apply(plan)
    record = next(path for path in (journal.root / applied.id).iterdir() if path.suffix == ".json")
    if state is None:
        record.write_bytes(b"nonsense")
    else:
        record.write_text(json.dumps({**json.loads(record.read_text()), "state": state}))


def lost_by_compaction() -> list[dict[str, Any]]:
    """A boundary between a call and its result."""
    cut = link(7, None, type="system", subtype="compact_boundary", content="x", logicalParentUuid=uuid_of(6))
    return [
        prompt(5, 4, "Q3"),
        reply(6, 5, call("toolu_1")),
        cut,
        outcome(8, 7, "toolu_1", "R"),
        reply(9, 8, said("A")),
    ]


CASES: dict[str, Callable[[Path], None]] = {
    "torn-tail": raw(lines(TALK) + lines(TALK)[:50]),
    "skipped-bytes": raw(lines(TALK[:2]) + b"{nonsense}\n" + lines(TALK[2:])),
    "oversize-line": raw(lines(TALK) + b'{"type":"x","a":"' + b"a" * (64 << 20) + b'"}\n'),
    "being-written": with_open_tail,
    "duplicate-id": entries({**TALK[3], "extra": 1}),
    "history-cut": raw(far_orphan()),
    "nothing-said": raw(lines([{k: v for k, v in one.items() if k != "message"} for one in TALK])),
    "no-conversation": raw(lines([{"type": "mode", "mode": "normal"}])),
    "empty-log": raw(b""),
    "foreign-name": lambda root: void(log_of(root, lines(TALK), "notes")),
    "time-order": raw(lines([TALK[0], {**TALK[1], "timestamp": "2026-11-15T09:00:00.000Z"}, *TALK[2:]])),
    "result-cut-off": entries(*lost_by_compaction()),
    "result-not-reached": entries(
        prompt(5, 4, "Q3"),
        reply(6, 5, call("toolu_1")),
        {**outcome(7, 6, "toolu_1", "R"), "isSidechain": True},
        prompt(8, 6, "Q4"),
    ),
    "captures-continue": with_empty_newest,
    "unreadable": with_directory,
    "orphan-agent": lambda root: with_agent_of(root, TWO),
    "orphan-todos": with_file(f"todos/{TWO}-agent-{TWO}.json", "[]"),
    "orphan-tasks": with_file(f"tasks/{TWO}/1.json", "{}"),
    "path-collision": with_collision,
    "ignored-settings": with_file(
        "settings.json", '{"cleanupPeriodDays": "30", "permissions": {"deny": ["Bash"]}}'
    ),
    "unreadable-config": with_file(".claude.json", '{"projects": {'),
    "unfinished-change": with_interrupted_change,
    "damaged-change": lambda root: with_record(root, None),
}
ELSEWHERE = {"open-mode", "expiring", "expiring-archived", "secrets"}


def test_every_code_has_a_case() -> None:
    """No rule is in the table without a test that breaks it, here or among the planted damage."""
    planted_codes = {code for name in PLANTED for code in planted("plain", [name]).codes}
    assert set(CODES) == CASES.keys() | planted_codes | ELSEWHERE | IN_THE_MODEL


@pytest.mark.parametrize("name", PLANTED)
def test_planted_damage_is_what_a_check_of_its_home_finds(name: str, tmp_path: Path) -> None:
    """With the severity of the table, and a fix."""
    log, root = planted("tools", [name]), tmp_path / "home"
    log_of(root, log.data, SESSION)
    closed(root)
    found = checked(root).findings

    assert log.codes == {one.code for one in found}
    assert all(
        (CODES[one.code].severity, True) == (one.severity, bool(one.fix and one.what)) for one in found
    )


@pytest.mark.parametrize("code", CASES)
def test_a_broken_rule_is_found(code: str, tmp_path: Path) -> None:
    """With the severity of the table, and a fix."""
    root = tmp_path / "home"
    root.mkdir()
    CASES[code](root)
    closed(root)
    found = [one for one in checked(root).findings if one.code == code]

    assert found, f"{code} was not found"
    assert {CODES[code].severity} == {one.severity for one in found}
    assert all(one.fix and one.what for one in found)


@pytest.mark.parametrize(
    "code", [code for code in CASES if CODES[code].fix.startswith("recollect doctor --fix")]
)
def test_where_the_fix_is_repair_there_is_something_to_repair(code: str, tmp_path: Path) -> None:
    """And afterwards check does not find it again."""
    from recollect.change.repair import planned_repair

    root = tmp_path / "home"
    root.mkdir()
    CASES[code](root)
    home = Home(root, data=tmp_path / "data")
    session = home.session(ONE)
    with planned_repair(session) as plan:
        is_needed, mended = plan.is_needed, b"".join(plan.mending.draft.output())
    session.path.write_bytes(mended)
    after = check(home, [home.session(ONE)], data=tmp_path / "data").summary.by_code

    assert (True, False) == (is_needed, code in after)


def test_a_sound_home_has_no_findings(tmp_path: Path) -> None:
    """Tools, thinking, parallel calls, agents, tasks and settings as a client writes them."""
    root = tmp_path / "home"
    sound(root)
    closed(root)
    answer = checked(root, secrets=True)

    assert ([], 0) == (answer.findings, answer.exit_code)
    assert (1, 2, 13, 13, 0) == (
        answer.summary.sessions,
        answer.summary.logs,
        answer.summary.lines,
        answer.summary.valid,
        answer.summary.damaged,
    )


def test_modes_too_open_are_found(tmp_path: Path) -> None:
    """A log that others may read, below directories that they may enter."""
    root = tmp_path / "home"
    sound(root)
    closed(root)
    for path in (root, root / "projects", root / "projects" / "-srv-app"):
        path.chmod(0o755)
    log = root / "projects" / "-srv-app" / f"{ONE}.jsonl"
    log.chmod(0o644)

    assert {"open-mode": 1} == checked(root).summary.by_code


def test_a_closed_directory_closes_what_is_below_it(tmp_path: Path) -> None:
    """Open files behind a directory nobody else may enter are no finding."""
    root = tmp_path / "home"
    sound(root)
    closed(root)
    for path in root.rglob("*"):
        path.chmod(0o755)

    assert {} == checked(root).summary.by_code


def test_sessions_that_the_client_will_delete_are_told(tmp_path: Path) -> None:
    """By the time of the file: 25 days later there are 5 days left of 30."""
    root = tmp_path / "home"
    sound(root)
    closed(root)
    written = dt.datetime.fromtimestamp((root / "projects/-srv-app" / f"{ONE}.jsonl").stat().st_mtime, dt.UTC)
    soon = checked(root, now=written + dt.timedelta(days=25)).findings

    assert ["expiring"] == [one.code for one in soon]
    assert "1 session expires within 7 days, 1 of them not archived" in soon[0].what
    assert {} == checked(root, now=written + dt.timedelta(days=22)).summary.by_code


def test_archived_sessions_may_expire(tmp_path: Path) -> None:
    """What the archive has is a remark only."""
    from recollect.ask.archive import add, archive_at

    root = tmp_path / "home"
    sound(root)
    closed(root)
    archive, now = archive_at(tmp_path / "data"), dt.datetime.now(dt.UTC)
    with archive.adding():
        add(archive, Home(root).session(ONE), now)

    assert {"expiring-archived": 1} == checked(root, now=now + dt.timedelta(days=29)).summary.by_code


def test_secrets_are_counted(tmp_path: Path) -> None:
    """One token is one; without being asked for, none is looked for."""
    root = tmp_path / "home"
    root.mkdir()
    with_secret(root)
    closed(root)
    found = checked(root, secrets=True)

    assert [("secrets", "1 different credential")] == [(one.code, one.what) for one in found.findings]
    assert (0, {}) == (found.exit_code, checked(root).summary.by_code)


def test_the_place_of_a_finding(tmp_path: Path) -> None:
    """Line from 1, byte from 0, the id of the entry, the log."""
    root = tmp_path / "home"
    root.mkdir()
    log = log_of(root, far_orphan())
    found = next(one for one in checked(root).findings if one.code == "history-cut")

    expected = (3, len(lines(TALK[:2])), uuid_of(3), str(log), ONE, "recollect doctor 3f2a9c1e --fix")
    assert expected == (found.line, found.offset, found.uuid, found.path, found.session, found.fix)


@pytest.mark.parametrize(("code", "counts"), [("skipped-bytes", (5, 4, 1)), ("torn-tail", (4, 4, 0))])
def test_lines_are_counted(code: str, counts: tuple[int, int, int], tmp_path: Path) -> None:
    """As lists count them: a damaged line is a line that is not valid, half a line at the end is not a line yet."""
    root = tmp_path / "home"
    root.mkdir()
    CASES[code](root)
    summary = checked(root).summary

    assert counts == (summary.lines, summary.valid, summary.damaged)


@pytest.mark.parametrize("end", [b"\n", b"", b"garbage"], ids=["ended", "not ended", "cut"])
def test_lines_are_those_of_an_editor(end: bytes, tmp_path: Path) -> None:
    """A value that goes over several lines is several: in counts, as lists count them, and before the place of a finding."""
    root = tmp_path / "home"
    root.mkdir()
    before = lines(TALK[:1]) + json.dumps(TALK[1], indent=1).encode() + b"\n"
    last = json.dumps(reply(4, 3, said("Done")), indent=1).encode()
    log = log_of(root, before + b"no JSON\n" + lines(TALK[2:3]) + last + end)
    shown, report = log.read_bytes().split(b"\n"), checked(root)
    place = shown.index(b"no JSON") + 1

    counted = Home(root, data=tmp_path / "data").session(ONE).counts().lines
    assert counted == report.summary.lines == len(shown) - (end == b"\n")
    assert [one.line for one in report.findings if one.offset == len(before)] == [place]
    unended = [one.line for one in report.findings if one.code == "missing-final-newline"]
    assert unended == ([] if end == b"\n" else [place + 2])


def test_a_rule_that_is_broken_over_and_over_is_cut_off(tmp_path: Path) -> None:
    """The first are listed, all are counted, and the last that is listed says how many there are besides."""
    root = tmp_path / "home"
    root.mkdir()
    log_of(root, lines(TALK) + b"nonsense\n" * (MOST_OF_A_CODE + 7))
    answer = checked(root)
    listed = [one for one in answer.findings if one.code == "skipped-bytes"]

    assert (MOST_OF_A_CODE, MOST_OF_A_CODE + 7) == (len(listed), answer.summary.by_code["skipped-bytes"])
    assert listed[-1].what.endswith("(and 7 more such lines)")


def test_every_unknown_type_is_named_once_with_its_count(tmp_path: Path) -> None:
    """A line that no one could read is told apart from one of an unknown type."""
    root = tmp_path / "home"
    root.mkdir()
    kinds = ("codex:unreadable", "codex:hologram", "codex:opera", "codex:unreadable", "codex:hologram")
    put(root, ONE, [*TALK, *({"type": kind} for kind in kinds)])

    answer = checked(root)

    assert {one.what for one in answer.findings if one.code == "unknown-type"} == {
        "type 'codex:hologram' (and 1 more such line)",
        "type 'codex:opera'",
    }
    assert [one.what for one in answer.findings if one.code == "unreadable-record"] == [
        "a line of codex's file is no record (and 1 more such line)"
    ]
    counts = answer.summary.by_code
    assert (counts["unknown-type"], counts["unreadable-record"]) == (3, 2)


def test_of_very_many_unknown_types_the_first_are_named(tmp_path: Path) -> None:
    root = tmp_path / "home"
    root.mkdir()
    put(root, ONE, [*TALK, *({"type": f"type-{number}"} for number in range(MOST_OF_A_CODE + 7))])

    answer = checked(root)

    listed = [one for one in answer.findings if one.code == "unknown-type"]
    assert (MOST_OF_A_CODE, MOST_OF_A_CODE + 7) == (len(listed), answer.summary.by_code["unknown-type"])
    assert listed[-1].what.endswith("(and 7 more types)")


def test_only_the_sessions_that_are_named(tmp_path: Path) -> None:
    """Neither other sessions nor the home are looked at."""
    root = tmp_path / "home"
    put(root, ONE, TALK)
    log_of(root, b"nonsense\n", TWO)
    home = Home(root, data=tmp_path / "data")

    assert [] == check(home, [home.session(ONE)], data=tmp_path / "data").findings


def test_exit_codes(tmp_path: Path) -> None:
    """1 for what matters, 0 for remarks, 4 for what cannot be read."""
    codes = {}
    for name in ("history-cut", "duplicate-id", "time-order", "unreadable"):
        root = tmp_path / name
        root.mkdir()
        CASES[name](root)
        closed(root)
        codes[name] = checked(root).exit_code

    assert {"history-cut": 1, "duplicate-id": 1, "time-order": 0, "unreadable": 4} == codes


def test_looking_changes_nothing(tmp_path: Path) -> None:
    """Not a byte, mode or time of a home with damage."""
    from tests.small_home import state

    root = tmp_path / "home"
    root.mkdir()
    CASES["torn-tail"](root)
    before = state(root)
    checked(root)

    assert before == state(root)


def with_long_texts(root: Path) -> None:
    """Every rule about what is sent that a conversation can break by itself, between texts of 30 kB."""
    long = "word " * 6_000
    put(
        root,
        ONE,
        [
            prompt(1, None, long),
            reply(2, 1, {"type": "thinking", "thinking": long}, said(long)),
            prompt(3, 2, long),
            reply(4, 3, said("  "), call("toolu_1")),
            outcome(5, 4, "toolu_1", long),
            reply(6, 5, call("not valid!")),
            outcome(7, 6, "not valid!", long),
            link(8, 7, type="user", message={"role": "user", "content": [image(png(9000, 10)), said(long)]}),
            reply(9, 8, said(long)),
        ],
    )


def test_a_conversation_beyond_the_bound_is_checked_with_its_texts_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same findings at the same places, though no text is held whole."""
    with_long_texts(tmp_path)
    whole = checked(tmp_path).findings
    monkeypatch.setattr(line_checks, "LARGEST_CONVERSATION", 40_000)

    assert {
        "api-unsigned-thinking",
        "api-empty-text",
        "api-bad-call-id",
        "api-oversize-image",
    } <= {one.code for one in whole}
    assert whole == checked(tmp_path).findings


def test_one_of_too_many_lines_is_not_checked_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where cutting texts does not help; the other rules are looked at all the same."""
    with_long_texts(tmp_path)
    monkeypatch.setattr(line_checks, "LARGEST_CONVERSATION", 2_000)

    found = {one.code for one in checked(tmp_path).findings}

    assert "api-not-checked" in found
    assert not any(code.startswith("api-") for code in found - {"api-not-checked"})


def test_an_empty_log_beside_logs_of_client_2_0_is_no_error(tmp_path: Path) -> None:
    """That client leaves such files behind itself, and skips them."""
    with_empty_newest(tmp_path)
    log = tmp_path / "projects" / "-srv-app" / f"{ONE}.jsonl"
    log.write_bytes(lines([{**one, "version": "2.0.76"} for one in TALK]))
    os.utime(log, (1_700_000_000, 1_700_000_000))
    closed(tmp_path)

    now = dt.datetime.fromtimestamp(1_700_000_100, dt.UTC)

    assert {"empty-log": 1} == checked(tmp_path, now=now).summary.by_code


def test_a_warmup_agent_is_no_orphan(tmp_path: Path) -> None:
    """Client 2.0 makes it before its session has a log, which may never come."""
    with_agent_of(tmp_path, TWO)
    agent = tmp_path / "projects" / "-srv-app" / f"agent-{AGENT}.jsonl"
    agent.write_bytes(lines([{**prompt(1, None, "Warmup", isSidechain=True), "sessionId": TWO}]))
    closed(tmp_path)

    assert {} == checked(tmp_path).summary.by_code


def test_the_samples_have_neither_errors_nor_warnings(log_homes: Path) -> None:
    """Sessions that real clients wrote are sound."""
    found = set()
    for root in sorted((log_homes / "samples" / "claude-home").glob("*/.claude")):
        answer = check(Home(root, data="/nonexistent"), data=Path("/nonexistent"), with_secrets=False)
        found |= {one.code for one in answer.findings if one.severity != Severity.INFO and one.session}

    assert found == set()
