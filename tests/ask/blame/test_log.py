"""Sessions of a file, and commits matched to them by what they hold."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from recollect.ask.blame.log import FileLogDocument, file_log
from recollect.ask.library import Home
from recollect.errors import NotFound
from tests.ask.blame.generated import TrueLine, World, WrittenSession, body

IDENTITY = {
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
}


def git(world: World, *words: str) -> str:
    at = f"@{1767225600 + int(world.tick()) + 1} +0000"  # the start of ``talk`` and a second
    environment = {"PATH": os.environ["PATH"], **IDENTITY, "GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at}
    done = subprocess.run(
        ["git", *words], cwd=world.project, env=environment, capture_output=True, check=True, text=True
    )
    return done.stdout


def commit(world: World, subject: str) -> None:
    world.store()
    git(world, "add", "-A")
    git(world, "commit", "-q", "-m", subject)


def written(world: World, session: WrittenSession, *texts: str) -> None:
    """The session adds these lines at the end."""
    before = body(world.lines)
    world.lines += [TrueLine(text, session.truth) for text in texts]
    content, path = body(world.lines), str(world.file)
    rich = {"type": "update", "filePath": path, "content": content, "originalFile": before}
    session.tool("Write", {"file_path": path, "content": content}, rich)


def log_of(world: World) -> FileLogDocument:
    return file_log(Home(world.home, data=world.root / "data", index=False), world.file)


def test_commits_are_matched_by_content_and_never_by_time(tmp_path: Path) -> None:
    """A commit right after a session's change that holds none of it is nobody's; a late one that holds it is its."""
    world = World(tmp_path, 3)
    git(world, "init", "-q")
    one, two = WrittenSession(world), WrittenSession(world)
    world.sessions = [one, two]
    world.exists = True
    world.lines = [TrueLine("human_start = 0", None)]
    commit(world, "by a person")
    one.ask()
    written(world, one, "first_line = 1", "second_line = 2")
    kept = list(world.lines)
    world.lines = [*kept[:1], TrueLine("human_more = 1", None)]
    commit(world, "by a person, while the session's lines wait")
    world.lines = [kept[0], world.lines[1], *kept[1:]]
    commit(world, "the session's, much later")
    two.ask()
    written(world, two, "third_line = 3")
    world.lines.append(TrueLine("human_end = 4", None))
    commit(world, "by both")

    found = log_of(world)

    told = [
        (row.subject, row.added, [(part.session, part.lines) for part in row.sessions])
        for row in found.commits
    ]
    assert told == [
        ("by both", 2, [(two.id, 1)]),
        ("the session's, much later", 2, [(one.id, 2)]),
        ("by a person, while the session's lines wait", 1, []),
        ("by a person", 1, []),
    ]
    assert [(two.id, 1), (one.id, 2)] == [(row.session, row.lines) for row in found.sessions]


@pytest.mark.parametrize("seed", range(200 if os.environ.get("RECOLLECT_TORTURE") else 6))
def test_a_commit_counts_exactly_the_lines_it_adds_of_each_session(tmp_path: Path, seed: int) -> None:
    """Whatever the order and the distance in time: the commits of a random history hold what the truth says."""
    world = World(tmp_path, seed)
    dice = world.random
    git(world, "init", "-q")
    world.sessions = [WrittenSession(world) for _ in range(3)]
    world.exists, world.lines = True, [TrueLine("human_start = 0", None)]
    commit(world, "start")
    truth: list[tuple[str, dict[str, int]]] = []
    there = set(world.lines)
    for number in range(6):
        session = dice.choice(world.sessions)
        session.ask()
        written(world, session, *(f"line_{world.number()} = session()" for _ in range(dice.randint(1, 3))))
        world.lines += [TrueLine(f"line_{world.number()} = human()", None)] * dice.randint(0, 1)
        session.ask()
        world.read(session)  # a session sees what a person did
        # A person commits some of it, in any part, right away or much later.
        whole = list(world.lines)
        world.lines = [line for line in whole if line in there or dice.random() < 0.6]
        new = [line for line in world.lines if line not in there]
        world._time += dice.choice([0, 5, 100_000])
        if new:
            commit(world, f"number {number}")
            counts: dict[str, int] = {}
            for line in new:
                if line.truth is not None:
                    counts[line.truth.session] = counts.get(line.truth.session, 0) + 1
            truth.append((f"number {number}", counts))
            there |= set(new)
        world.lines = whole
    world.store()

    found = {row.subject: {one.session: one.lines for one in row.sessions} for row in log_of(world).commits}

    assert {"start": {}, **dict(truth)} == found


def test_a_file_that_git_renamed_keeps_its_sessions_and_its_commits(tmp_path: Path) -> None:
    """By a person, without a trace in any log; the commit that renames it adds only what is new in it."""
    world = World(tmp_path, 8)
    git(world, "init", "-q")
    session = WrittenSession(world)
    world.sessions, world.exists = [session], True
    session.ask()
    written(world, session, *(f"line_number_{number} = 1" for number in range(8)))
    commit(world, "written")
    world.file.unlink()
    world.file = world.project / "lib" / "basket.py"
    world.file.parent.mkdir()
    world.lines.append(TrueLine("human_line = 2", None))
    commit(world, "renamed")

    found = log_of(world)

    assert [("renamed", 1, []), ("written", 8, [session.id])] == [
        (row.subject, row.added, [part.session for part in row.sessions]) for row in found.commits
    ]
    assert [(session.id, 8)] == [(row.session, row.lines) for row in found.sessions]


def test_a_commit_of_exactly_what_the_session_left_says_so(tmp_path: Path) -> None:
    """And a repository whose config would run a program, or a hook, runs nothing."""
    world = World(tmp_path, 4)
    git(world, "init", "-q")
    session = WrittenSession(world)
    world.sessions, world.exists, world.ends = [session], True, "\n"
    session.ask()
    written(world, session, "first_line = 1")
    commit(world, "exact")
    mark = tmp_path / "ran"
    for name in ("core.fsmonitor", "core.pager", "diff.external", "core.sshCommand", "gpg.program"):
        git(world, "config", name, f"touch {mark}")
    git(world, "config", "log.showSignature", "true")
    before = {path: path.stat().st_mtime_ns for path in (world.project / ".git").rglob("*")}

    (row,) = log_of(world).commits

    assert (True, False) == (row.exact, mark.exists())
    assert before == {path: path.stat().st_mtime_ns for path in (world.project / ".git").rglob("*")}


def test_a_file_that_is_gone_has_a_log_and_one_that_never_was_has_none(tmp_path: Path) -> None:
    """Its lines are not counted; no repository is no error."""
    world = World(tmp_path, 5)
    session = WrittenSession(world)
    world.sessions = [session]
    session.ask()
    written(world, session, "first_line = 1")
    world.store()

    found = log_of(world)

    assert ([(session.id, None)], []) == (
        [(one.session, one.lines) for one in found.sessions],
        found.commits,
    )
    world.file = world.project / "never.py"
    with pytest.raises(NotFound, match="no session changed"):
        log_of(world)
