"""A title or tag is one line at the end of the log, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from recollect.ask.library import Home
from recollect.change.label import apply, tagged, titled
from recollect.errors import NotFound, UsageError
from tests.small_home import ONE, TALK, put, state


def test_a_title_is_one_line_behind_all_others(tmp_path: Path) -> None:
    """The bytes that were there stay; the new line is compact, with ``type`` first."""
    log = put(tmp_path / "home", ONE, TALK)
    before = log.read_bytes()
    apply(titled(Home(tmp_path / "home").session(ONE), "Späte Fehler"), tmp_path / "data")

    line = f'{{"type":"custom-title","customTitle":"Späte Fehler","sessionId":"{ONE}"}}\n'
    assert before + line.encode() == log.read_bytes()


def test_a_tag_begins_as_list_tools_want_it(tmp_path: Path) -> None:
    """They look for lines that start with ``{"type":"tag"``, without a space."""
    log = put(tmp_path / "home", ONE, TALK)
    before = log.read_bytes()
    apply(tagged(Home(tmp_path / "home").session(ONE), "urgent"), tmp_path / "data")

    assert before + f'{{"type":"tag","tag":"urgent","sessionId":"{ONE}"}}\n'.encode() == log.read_bytes()


def test_an_empty_text_clears(tmp_path: Path) -> None:
    """The title falls back to the first prompt, and there is no tag."""
    put(tmp_path / "home", ONE, TALK)
    for label in (titled, tagged):
        for text in ("Mine", ""):
            apply(label(Home(tmp_path / "home").session(ONE), text), tmp_path / "data")
    session = Home(tmp_path / "home").session(ONE)

    assert ("Q1", None) == (session.title, session.glance.tag)


def test_the_plan_knows_what_it_was_before(tmp_path: Path) -> None:
    """That is what the undo needs."""
    put(tmp_path / "home", ONE, TALK)
    apply(titled(Home(tmp_path / "home").session(ONE), "First"), tmp_path / "data")
    plan = titled(Home(tmp_path / "home").session(ONE), "Second")

    assert ("First", "Second") == (plan.before, plan.after)


def test_locks_lie_in_our_own_directory(tmp_path: Path) -> None:
    """Besides the log nothing in the home changes, and no lock file appears there."""
    log = put(tmp_path / "home", ONE, TALK)
    before = state(tmp_path / "home")
    apply(titled(Home(tmp_path / "home").session(ONE), "Mine"), tmp_path / "data")
    after = state(tmp_path / "home")
    name = str(log.relative_to(tmp_path / "home"))

    assert {**before, name: after[name]} == after
    assert 2 == len(
        list((tmp_path / "data" / "locks").glob("*.lock"))
    )  # of the log, and of the list for `undo`


def test_a_linked_log_is_written_where_it_lies(tmp_path: Path) -> None:
    """The link stays a link, as when a client writes, if it leads to a file of the home."""
    log = put(tmp_path / "home", ONE, TALK)
    real = tmp_path / "home" / "elsewhere.jsonl"
    log.rename(real)
    log.symlink_to(real)
    apply(titled(Home(tmp_path / "home").session(ONE), "Mine"), tmp_path / "data")

    assert log.is_symlink()
    assert b'"customTitle":"Mine"' in real.read_bytes()


def test_nothing_is_written_through_a_link_that_leads_out_of_the_home(tmp_path: Path) -> None:
    """Neither for a link that was there at the plan, nor for one that came after it."""
    log = put(tmp_path / "home", ONE, TALK)
    session = Home(tmp_path / "home").session(ONE)
    plan, real = titled(session, "Mine"), tmp_path / "elsewhere.jsonl"
    log.rename(real)
    log.symlink_to(real)
    before = real.read_bytes()
    for attempt in (lambda: apply(plan, tmp_path / "data"), lambda: tagged(session, "mine")):
        with pytest.raises(UsageError, match="leads out of the home"):
            attempt()

    assert before == real.read_bytes()


def test_a_log_that_is_gone_is_not_made_anew(tmp_path: Path) -> None:
    """A log with only a title in it would look like a session to older clients."""
    log = put(tmp_path / "home", ONE, TALK)
    plan = titled(Home(tmp_path / "home").session(ONE), "Mine")
    log.unlink()
    with pytest.raises(NotFound, match="gone"):
        apply(plan, tmp_path / "data")

    assert [] == os.listdir(log.parent)


@pytest.mark.parametrize(
    "text",
    ["a\x1b[31mb", "a\nb", "a\u202eb", "a\udcffb", "x" * 201],
    ids=["escape", "line", "bidi", "bytes", "long"],
)
def test_what_cannot_be_seen_is_refused(tmp_path: Path, text: str) -> None:
    """A title ends up on many terminals."""
    put(tmp_path, ONE, TALK)
    session = Home(tmp_path).session(ONE)
    with pytest.raises(UsageError, match="title"):
        titled(session, text)


def test_an_emoji_made_of_several_is_fine(tmp_path: Path) -> None:
    """Its parts are held together by an invisible joiner, which is no reason to refuse it."""
    put(tmp_path, ONE, TALK)

    assert "👩‍💻" == titled(Home(tmp_path).session(ONE), " 👩‍💻 ").after
