"""A session that a store of ours wrote in the layout flat is shown, and read by the library."""

from __future__ import annotations

from pathlib import Path

import pytest

import recollect
from recollect.cli.main import main

MODEL = "claude-sonnet-4-5-20250929"


@pytest.fixture
def store(tmp_path: Path) -> recollect.Store:
    """One session: a prompt, a call with its result, an answer."""
    made = recollect.Store(tmp_path / "claude", layout="flat")
    with made.create("/srv/app") as log:
        log.append(recollect.user("Hello"))
        call = recollect.tool_use("toolu_1", "Read", {"file_path": "/a"})
        log.append(recollect.assistant([recollect.text("I look"), call], model=MODEL))
        log.append(recollect.tool_result("toolu_1", "contents of a"))
        log.append(recollect.assistant("Hi there", model=MODEL))
    return made


def test_show_prints_what_was_said(store: recollect.Store, capsys: pytest.CaptureFixture[str]) -> None:
    """Lines without parents follow each other. It is said that the client would load nothing."""
    for more in ([], ["--all-branches"]):
        assert 0 == main(["--home", str(store.root), "show", "@last", *more])
        told = capsys.readouterr()
        places = [told.out.index(words) for words in ("Hello", "I look", "Read", "contents of a", "Hi there")]

        assert (sorted(places), not more) == (places, "another dialect" in told.err)


def test_nothing_of_it_is_sent(store: recollect.Store, capsys: pytest.CaptureFixture[str]) -> None:
    """What the client would send is nothing, and the error says why and what to do."""
    assert 3 == main(["--home", str(store.root), "show", "@last", "--api"])
    told = capsys.readouterr()

    assert ("", True, True) == (told.out, "another dialect" in told.err, "show --all-branches" in told.err)


def test_the_log_of_a_store_has_a_conversation(store: recollect.Store) -> None:
    """For the store, which wrote it. The client would load none, and the home says so with the reason."""
    (stored,) = store.sessions()
    with store.open(str(stored.id)) as log:
        spoken = [(one.role, one.text) for one in log.conversation().messages]
    assert [("user", "Hello"), ("assistant", "I look"), ("user", ""), ("assistant", "Hi there")] == spoken
    (session,) = recollect.Home(store.root).sessions()
    with pytest.raises(recollect.NotFound, match="does not load lines of another dialect"):
        session.conversation()

    with store.create("/srv/empty") as empty, pytest.raises(recollect.NotFound, match="no conversation"):
        empty.conversation()
