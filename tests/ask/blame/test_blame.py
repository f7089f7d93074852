"""Every line of generated repositories: to the session and prompt that wrote it, and never a person's line."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from recollect import aio
from recollect.ask.blame.blame import moves
from recollect.ask.blame.sessions import _by_bytes, _by_index
from recollect.ask.library import Home
from recollect.errors import NotFound, UsageError
from recollect.index.access import open_index
from tests.ask.blame.generated import COMMON, Truth, World, WrittenSession
from tests.talk import user

TORTURE = bool(os.environ.get("RECOLLECT_TORTURE"))
SEEDS = 1000 if TORTURE else 25


def outcomes(world: World, *, index: bool = False) -> Counter[str]:
    """How each line was answered."""
    found: Counter[str] = Counter()
    answer = Home(world.home, data=world.root / "data", index=index).blame(world.file)
    assert [line.text for line in answer.lines] == [line.text for line in world.lines]
    for line, (text, truth) in zip(answer.lines, world.lines, strict=True):
        writing = None if line.writing is None else answer.writings[line.writing]
        said = None if writing is None else Truth(writing.session, writing.prompt_uuid or "")
        kind = "common" if text in COMMON else "own"
        who = "person" if truth is None else "session"
        how = "right" if said == truth else "unknown" if said is None else "wrong"
        found[f"{kind} {who} {how}"] += 1
    return found


@pytest.mark.parametrize("common", [0.0, 0.3])
def test_every_line_is_its_sessions_and_no_line_of_a_person_is(tmp_path: Path, common: float) -> None:
    """Lines of one's own: all right. Lines that everybody writes: right or unknown, never wrong."""
    found: Counter[str] = Counter()
    for seed in range(SEEDS):
        world = World(tmp_path / str(seed), seed, common=common)
        world.run(12)
        here = outcomes(world)
        bad = {key: n for key, n in here.items() if "wrong" in key or key == "own session unknown"}
        assert (seed, {}) == (seed, bad)
        found += here
    print(f"\n{SEEDS} repositories: {dict(found)}")
    assert found["own session right"] > 5 * SEEDS
    assert found["own person right"] > 2 * SEEDS


def test_the_index_leads_to_the_same_sessions(tmp_path: Path) -> None:
    """With an index only the logs are read that it names, those of agents too; other files of that name stay apart."""
    for seed in range(8):
        world = World(tmp_path / str(seed), seed)
        world.run(12)
        other = World(tmp_path / f"{seed}-other", seed + 100)
        other.home, other.project = world.home, world.project / "lib"
        other.file = other.project / "src" / "cart.py"
        other.file.parent.mkdir(parents=True)
        other.run(4)
        data = world.root / "data"
        with open_index([world.home], cache=data / "cache") as opened:
            assert opened.is_complete
            named = _by_index(opened, "cart.py")

        assert named == _by_bytes([world.home], "cart.py")
        assert named
        assert outcomes(world, index=True) == outcomes(world)
        assert not {key for key in outcomes(world) if "wrong" in key or key == "own session unknown"}


def session_at(root: Path, text: str) -> WrittenSession:
    """A session in a project whose file has this text now."""
    world = World(root, 1)
    world.file.write_text(text)
    session = WrittenSession(world)
    session.ask()
    return session


def call(session: WrittenSession, tool: str, rich: dict[str, Any] | None, **given: Any) -> None:
    path = str(session.world.file)
    session.tool(tool, {"file_path": path, **given}, None if rich is None else {"filePath": path, **rich})


def answers(session: WrittenSession) -> list[str | None]:
    """The text of the prompt of each line; None for unknown, ``?`` for uncertain."""
    session.save()
    home = Home(session.world.home, data=session.world.root / "data", index=False)
    answer = home.blame(session.world.file)
    return [
        ("?" if line.uncertain else None) if line.writing is None else answer.writings[line.writing].prompt
        for line in answer.lines
    ]


def test_what_a_person_altered_in_a_proposal_is_unknown(tmp_path: Path) -> None:
    """``userModified``: only what the model had proposed is its own, in a new file and in an edit."""
    session = session_at(tmp_path, "alpha_line = 1\nbeta_line = 3000\n")
    rich = {"type": "create", "content": "alpha_line = 1\nbeta_line = 3\n", "userModified": True}
    call(session, "Write", rich, content="alpha_line = 1\nbeta_line = 2\n")
    before, after = "beta_line = 3\n", "beta_line = 3000\n"
    edit = {"oldString": before, "newString": after, "originalFile": rich["content"], "userModified": True}
    call(session, "Edit", edit, old_string=before, new_string="beta_line = 4\n")

    assert ["Please do number 1", None] == answers(session)


def test_a_file_that_was_written_over_without_a_trace_of_before_is_unknown(tmp_path: Path) -> None:
    """What was written again as it was may be a person's; a file that is created has nothing from before."""
    text = "alpha_line = 1\nbeta_line = 2\n"
    over = session_at(tmp_path / "over", text)
    call(over, "Write", {"type": "update", "content": text}, content=text)
    new = session_at(tmp_path / "new", text)
    call(new, "Write", {"type": "create", "content": text}, content=text)

    assert ([None, None], ["Please do number 1"] * 2) == (answers(over), answers(new))


def test_of_two_equal_lines_side_by_side_neither_is_anyones(tmp_path: Path) -> None:
    """A person wrote one of them and the session the other; nothing says which."""
    session = session_at(tmp_path, "alpha_line = 1\nbeta_line = 2\nbeta_line = 2\n")
    text = "alpha_line = 1\nbeta_line = 2\n"
    call(session, "Write", {"type": "create", "content": text}, content=text)

    assert ["Please do number 1", "?", "?"] == answers(session)


def test_calls_that_failed_or_were_refused_wrote_nothing(tmp_path: Path) -> None:
    """Also if the file has that line now: a person may have typed it."""
    session = session_at(tmp_path, "alpha_line = 1\n")
    given = {"file_path": str(session.world.file), "content": "alpha_line = 1\n"}
    session.tool("Write", given, None, is_error=True, content="The user doesn't want to proceed")

    assert [None] == answers(session)


def test_a_command_is_a_prompt_and_a_compaction_does_not_hide_it(tmp_path: Path) -> None:
    """The chain goes on before the boundary; a notice of the client asks for nothing."""
    session = session_at(tmp_path, "alpha_line = 1\n")
    words = "<command-message>fix</command-message>\n<command-name>/fix</command-name>\n<command-args>the cart</command-args>"
    session.add(user, words)
    session.add(user, "<task-notification>done</task-notification>")
    session.cut()
    call(session, "Write", {"type": "create", "content": "alpha_line = 1\n"}, content="alpha_line = 1\n")

    assert ["/fix the cart"] == answers(session)


def test_line_ends_and_marks_do_not_matter(tmp_path: Path) -> None:
    """CRLF, a byte-order mark and UTF-16 are how a file is stored, not who wrote it."""
    for number, stored in enumerate(
        (b"\xef\xbb\xbfone_line = 1\r\n", "\ufeffone_line = 1\r\n".encode("utf-16-le"))
    ):
        session = session_at(tmp_path / str(number), "")
        session.world.file.write_bytes(stored)
        call(session, "Write", {"type": "create", "content": "one_line = 1\n"}, content="one_line = 1\n")

        assert ["Please do number 1"] == answers(session)


def test_another_project_that_is_gone_is_not_this_one(tmp_path: Path) -> None:
    """The same path in a directory that was deleted, with one line in common: not a renamed directory."""
    session = session_at(tmp_path, "shared_line = 1\nthis_one = 2\nand_this = 3\nthat_too = 4\n")
    other = "shared_line = 1\nquite_other = 2\nlines_here = 3\nall_of_them = 4\n"
    gone = tmp_path / "work" / "gone"
    session.cwd = gone
    path = str(gone / "src" / "cart.py")
    session.tool(
        "Write", {"file_path": path, "content": other}, {"type": "create", "filePath": path, "content": other}
    )

    assert [None] * 4 == answers(session)


@pytest.mark.parametrize(
    ("command", "moved"),
    [
        ("mv a.py b.py", [("/w/a.py", "/w/b.py"), ("/w/a.py", "/w/b.py/a.py")]),
        ("mv -f -- a.py c.py lib/", [("/w/a.py", "/w/lib/a.py"), ("/w/c.py", "/w/lib/c.py")]),
        ("cd /x && git mv 'a b' \"b c\"", [("/x/a b", "/x/b c"), ("/x/a b", "/x/b c/a b")]),
        ("git -C sub mv a b/", [("/w/sub/a", "/w/sub/b/a")]),
        ("mv $A b.py", []),
        ("echo mv a b; cp a b", []),
        ("git mv", []),
        ("mv", []),
        ("mv '", []),
    ],
)
def test_commands_that_rename_are_understood(command: str, moved: list[tuple[str, str]]) -> None:
    """What is not plain renames nothing."""
    assert moved == list(moves(command, "/w"))


def test_a_rename_that_failed_or_of_another_file_is_none(tmp_path: Path) -> None:
    """The lines of the other file are not this one's, though a person has copied one of them."""
    session = session_at(tmp_path, "alpha_line = 1\n")
    other = session.world.file.with_name("other.py")
    given = {"file_path": str(other), "content": "alpha_line = 1\n"}
    session.tool("Write", given, {"type": "create", "filePath": str(other), "content": given["content"]})
    for command in (
        "mv src/other.py src/cart.py",
        "mv src/cart.py src/other.py",
        "mv src/other.py lib/cart.py",
    ):
        session.tool("Bash", {"command": command}, None, is_error=command.endswith("src/cart.py"))

    assert [None] == answers(session)
    session.tool("Bash", {"command": "mv src/other.py src/cart.py"}, None)
    assert ["Please do number 1"] == answers(session)


def test_the_library_answers_as_the_command_does(tmp_path: Path) -> None:
    """``Home.blame`` and ``Home.log``, and awaited."""
    session = session_at(tmp_path, "alpha_line = 1\n")
    call(session, "Write", {"type": "create", "content": "alpha_line = 1\n"}, content="alpha_line = 1\n")
    session.save()
    home, file = Home(session.world.home, data=tmp_path / "data", index=False), session.world.file

    lines, log = home.blame(file), home.log(str(file))

    assert (1, 1, "Please do number 1") == (lines.total, lines.known, lines.writings[0].prompt)
    assert [(session.id, 1, 1)] == [(one.session, one.changes, one.lines) for one in log.sessions]
    twin = aio.Home(session.world.home, data=tmp_path / "data", index=False)
    assert (lines, log) == (asyncio.run(twin.blame(file)), asyncio.run(twin.log(str(file))))


def test_what_cannot_be_blamed_says_so(tmp_path: Path) -> None:
    """A file that is missing, or is not text."""
    session = session_at(tmp_path, "")
    session.world.file.write_bytes(b"\0\1")
    home = Home(session.world.home.parent, data=tmp_path / "data", index=False)

    with pytest.raises(UsageError, match="not a text file"):
        home.blame(session.world.file)
    with pytest.raises(NotFound, match="no such file"):
        home.blame(tmp_path / "nowhere.py")


def test_a_line_that_is_back_has_its_session_back(tmp_path: Path) -> None:
    """A rewind that the log does not show, and a person's work after it: no state is as it was."""
    session = session_at(tmp_path, "one_line = 1\nperson_line = 5\n")
    first, second = "one_line = 1\ntwo_line = 2\n", "other_line = 3\nmore_of_it = 4\n"
    call(session, "Write", {"type": "create", "content": first}, content=first)
    session.ask()
    call(session, "Write", {"type": "update", "content": second, "originalFile": first}, content=second)

    assert ["Please do number 1", None] == answers(session)
