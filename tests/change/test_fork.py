"""A fork is the same conversation under another name, and nothing else changes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from recollect.ask.library import Home
from recollect.ask.sessions.session import Session
from recollect.change.fork import apply, planned_fork
from recollect.errors import UsageError
from recollect.model.lines.damage import Line
from recollect.model.views.facts import usage_facts
from recollect.model.views.ledger import Ledger
from recollect.store.logs.reader import read_lines
from tests.small_home import ONE, TALK, call, link, outcome, prompt, put, reply, said, uuid_of, written

BRANCHES = [*TALK, prompt(5, 2, "Other"), reply(6, 5, said("A3"))]
FAN_OUT = [
    prompt(1, None, "Q"),
    reply(2, 1, call("t1"), answer="msg_a"),
    outcome(3, 2, "t1", "one"),
    reply(4, 2, call("t2"), answer="msg_a"),
    outcome(5, 4, "t2", "two"),
    reply(6, 5, said("Done")),
]


def forked(
    home: Path, entries: list[dict[str, Any]], at: str | None = None, title: str | None = None
) -> Session:
    """The fork of a session with these entries."""
    put(home, ONE, entries)
    plan = planned_fork(Home(home).session(ONE), at, title)
    apply(plan)
    return Home(home).session(str(plan.new))


def chain(session: Session) -> list[dict[str, Any]]:
    return [entry for entry in written(session.path) if "uuid" in entry]


def test_every_line_is_copied_with_its_id_under_the_new_session(tmp_path: Path) -> None:
    """Only ``sessionId`` changes and ``forkedFrom`` is added, as the client's /branch does."""
    fork = forked(tmp_path, TALK)

    expected = [
        {**entry, "sessionId": fork.id, "forkedFrom": {"sessionId": ONE, "messageUuid": entry["uuid"]}}
        for entry in TALK
    ]
    assert expected == chain(fork)


def test_usage_is_counted_once_over_both_files(tmp_path: Path) -> None:
    """Two answers of 10 + 20 tokens stay two, since message id and request id are the same in the copy."""
    fork = forked(tmp_path, TALK)
    ledger = Ledger()
    for path in (fork.path, fork.path.with_name(f"{ONE}.jsonl")):
        for line in read_lines(path):
            ledger.add(usage_facts(line.data) if isinstance(line, Line) else None)
    total = ledger.total()

    assert (20, 40) == (total.tokens.input, total.tokens.output)


@pytest.mark.parametrize(
    ("at", "texts"),
    [
        (None, ["Q1", "A1", "Other", "A3"]),
        (uuid_of(4), ["Q1", "A1", "Q2", "A2"]),
        (uuid_of(2), ["Q1", "A1"]),
        (uuid_of(3), ["Q1", "A1", "Q2"]),
    ],
    ids=["the active end", "another branch's leaf", "an inner answer", "an inner prompt"],
)
def test_it_ends_where_it_is_told(tmp_path: Path, at: str | None, texts: list[str]) -> None:
    """A leaf, an inner entry, or without a word where the client would resume."""
    fork = forked(tmp_path, BRANCHES, at)

    assert texts == [message.text for message in fork.conversation().messages]


def test_results_of_parallel_calls_stand_in_a_row_behind_the_last_call(tmp_path: Path) -> None:
    """The layout every client loads: each line follows the one before, both calls before both results."""
    fork = forked(tmp_path, FAN_OUT)
    order = [1, 2, 4, 3, 5, 6]

    assert [uuid_of(number) for number in order] == [entry["uuid"] for entry in chain(fork)]
    assert [None, *(uuid_of(number) for number in order[:-1])] == [
        entry["parentUuid"] for entry in chain(fork)
    ]


@pytest.mark.parametrize(
    ("entries", "order"),
    [
        (
            [
                prompt(1, None, "Q"),
                reply(2, 1, call("t1"), answer="msg_a"),
                outcome(3, 2, "t1", "one"),
                reply(4, 3, call("t2"), answer="msg_a"),
                outcome(5, 4, "t2", "two"),
            ],
            [1, 2, 4, 3, 5],
        ),
        (
            [
                prompt(1, None, "Q"),
                reply(2, 1, said("A"), answer="msg_a"),
                prompt(3, 2, "R"),
                reply(4, 3, said("B"), answer="msg_a"),
            ],
            [1, 2, 3, 4],
        ),
    ],
    ids=["a result between two calls goes behind both", "a prompt between two answers stays"],
)
def test_one_answer_stands_together(tmp_path: Path, entries: list[dict[str, Any]], order: list[int]) -> None:
    """Lines of one message id are one answer, unless somebody spoke in between."""
    fork = forked(tmp_path, entries)

    assert [uuid_of(number) for number in order] == [entry["uuid"] for entry in chain(fork)]


def test_sub_agents_and_progress_stay_behind(tmp_path: Path) -> None:
    """What followed a progress line follows what was before it."""
    entries = [
        prompt(1, None, "Q"),
        prompt(7, None, "agent", isSidechain=True),
        link(2, 1, type="progress", data={"type": "hook_progress"}),
        reply(3, 2, said("A")),
    ]
    fork = forked(tmp_path, entries)

    assert [(uuid_of(1), None), (uuid_of(3), uuid_of(1))] == [
        (entry["uuid"], entry["parentUuid"]) for entry in chain(fork)
    ]


def test_a_compaction_is_kept(tmp_path: Path) -> None:
    """The fork starts with the boundary and sends what the original sends."""
    boundary = link(5, None, type="system", subtype="compact_boundary", content="Compacted")
    boundary["logicalParentUuid"] = uuid_of(4)
    summary = prompt(6, 5, "Summary", isCompactSummary=True)
    fork = forked(tmp_path, [*TALK, boundary, summary, reply(7, 6, said("A3"))])

    assert [uuid_of(5), uuid_of(6), uuid_of(7)] == [entry["uuid"] for entry in chain(fork)]
    assert Home(tmp_path).session(ONE).conversation().to_api() == fork.conversation().to_api()


@pytest.mark.parametrize(
    ("entries", "given", "title"),
    [
        (TALK, None, "Q1 (fork)"),
        ([*TALK, {"type": "custom-title", "customTitle": "Mine", "sessionId": ONE}], None, "Mine (fork)"),
        (TALK, "Second try", "Second try"),
        ([prompt(1, None, "a\n\tb " + "x" * 100)], None, "a b " + "x" * 76 + " (fork)"),
    ],
    ids=["from the first prompt", "from the title", "given", "long and with line ends"],
)
def test_its_last_line_is_its_title(
    tmp_path: Path, entries: list[dict[str, Any]], given: str | None, title: str
) -> None:
    """The old title and "(fork)", or the one that was given."""
    fork = forked(tmp_path, entries, title=given)

    assert {"type": "custom-title", "customTitle": title, "sessionId": fork.id} == written(fork.path)[-1]


def test_backups_and_the_lines_that_name_them_come_along(tmp_path: Path) -> None:
    """Without them a rewind in the fork could not restore a file."""
    tracked = {"a.txt": {"backupFileName": "0123456789abcdef@v1", "version": 1}}
    snapshots = [
        {
            "type": "file-history-snapshot",
            "messageId": uuid_of(number),
            "snapshot": {"messageId": uuid_of(number), "trackedFileBackups": tracked},
            "isSnapshotUpdate": False,
        }
        for number in (1, 99)
    ]
    backup = tmp_path / "file-history" / ONE / "0123456789abcdef@v1"
    backup.parent.mkdir(parents=True)
    backup.write_bytes(b"old\r\n")
    os.utime(backup, ns=(1_000, 2_000))
    fork = forked(tmp_path, [*TALK, *snapshots])
    copy = tmp_path / "file-history" / fork.id / backup.name

    assert (b"old\r\n", 2_000) == (copy.read_bytes(), copy.stat().st_mtime_ns)
    assert [uuid_of(1)] == [entry["messageId"] for entry in written(fork.path) if "messageId" in entry]


def test_a_link_among_the_backups_is_not_followed(tmp_path: Path) -> None:
    """What a planted link leads to is not copied into the home."""
    secret = tmp_path / "secret"
    secret.write_text("key")
    backups = tmp_path / "file-history" / ONE
    backups.mkdir(parents=True)
    (backups / "0123456789abcdef@v1").symlink_to(secret)
    fork = forked(tmp_path, TALK)

    assert not (tmp_path / "file-history" / fork.id).exists()


@pytest.mark.parametrize("field", [b'"\xff"', b'"\\ud800"'], ids=["not UTF-8", "half a pair"])
def test_unsound_text_is_copied_as_the_client_reads_it(tmp_path: Path, field: bytes) -> None:
    """The replacement character takes its place and the line is sound in the copy."""
    log = put(tmp_path, ONE, TALK)
    log.write_bytes(log.read_bytes().replace(b'"A2"', field))
    plan = planned_fork(Home(tmp_path).session(ONE))
    apply(plan)

    assert "\ufffd" == written(plan.path)[3]["message"]["content"][0]["text"]


def test_a_sub_agents_line_is_no_place_to_fork(tmp_path: Path) -> None:
    """A usage error that says so; nothing is made."""
    put(tmp_path, ONE, [*TALK, prompt(7, None, "agent", isSidechain=True)])
    with pytest.raises(UsageError, match="sub-agent"):
        planned_fork(Home(tmp_path).session(ONE), uuid_of(7))


def test_every_branch_of_every_sample_forks_to_the_same_conversation(log_homes: Path, tmp_path: Path) -> None:
    """What the client would send is the same for the fork as for the original, in all versions' files."""
    compared = 0
    for number, sample in enumerate(sorted((log_homes / "samples" / "claude-home").glob("*/.claude"))):
        home = tmp_path / str(number)
        shutil.copytree(sample / "projects", home / "projects", copy_function=shutil.copyfile)
        for directory in (home, *home.rglob("*/")):
            directory.chmod(0o700)
        for session in list(Home(home).sessions()):
            for branch in session.branches():
                plan = planned_fork(session, branch.leaf)
                apply(plan)
                fork = Home(home).session(str(plan.path))
                assert session.conversation(branch.leaf).to_api() == fork.conversation().to_api()
                plan.path.unlink()
                compared += 1

    assert compared > 20
