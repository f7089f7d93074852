"""`recollect undo`: every change of every kind is listed with its home and id, and comes back by its id."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recollect.cli.main import main
from recollect.store.changes.journal import ChangeJournal, ChangePlan
from tests.change.migrations.old_sessions import put_inline
from tests.small_home import ONE, TALK, TWO, open_in_this_process, put, state

THREE = "7c1d9c1e-0000-4000-8000-000000000003"
TOKEN = "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5"


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """The JSON document a command printed."""
    assert 0 == main([*arguments, "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def torn(home: Path) -> None:
    log = put(home, ONE, TALK)
    log.write_bytes(log.read_bytes() + b'{"type":"user"')


def archived(home: Path) -> None:
    """A session that is in the archive and was lost in the home."""
    log = put(home, ONE, TALK)
    assert 0 == main(["protect", "now", ONE])
    log.unlink()


def with_settings(home: Path) -> None:
    put(home, ONE, TALK)
    (home / "settings.json").write_text("{}")


def with_secret(home: Path) -> None:
    put(home, ONE, [{**TALK[0], "message": {"role": "user", "content": f"it is {TOKEN}"}}, *TALK[1:]])


def talk(home: Path) -> None:
    put(home, ONE, TALK)


# By the word of the change: how a home comes to need it, and the command that makes it.
KINDS: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "repair": (torn, ["doctor", ONE, "--fix"]),
    "slim": (torn, ["doctor", ONE, "--fix", "--slim"]),
    "migrate": (put_inline, ["data", "migrate", "--to", "5", ONE]),
    "mv": (talk, ["mv", "/srv/app", "/data/shop"]),
    "redact": (with_secret, ["secrets", "remove", ONE]),
    "settings": (with_settings, ["rules", "settings", "set", "cleanupPeriodDays", "99"]),
    "restore": (archived, ["protect", "restore", ONE]),
    "rm": (talk, ["rm", ONE]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_change_is_listed_and_comes_back(
    kind: str, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its home and id; by the id the home is what it was, byte for byte."""
    home = own_home / ".claude"
    make, words = KINDS[kind]
    make(home)
    before = state(home)
    assert 0 == main([*words, "--apply"])
    assert before != state(home)
    capsys.readouterr()
    (change,) = answer(capsys, "undo")["changes"]
    assert 0 == main(["undo"])
    listed = capsys.readouterr().out
    back = answer(capsys, "undo", change["id"], "--apply")

    assert (kind, "done") == (change["what"], change["state"])
    assert home.is_relative_to(change["home"])
    assert (True, True) == (change["id"] in listed, str(change["home"]) in listed)
    files = {name: what for name, what in state(home).items() if not (home / name).is_dir()}
    assert {name: what for name, what in before.items() if name in files} == files
    assert back["applied"]


@pytest.fixture
def removed_three(own_home: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A home from which one command removed three sessions."""
    home = own_home / ".claude"
    for number, session in enumerate((ONE, TWO, THREE)):
        put(home, session, TALK, f"/srv/{number}")
    assert 0 == main(["protect", "tidy", "--older-than", "0d", "--apply"])
    told = capsys.readouterr().out
    assert f"Undo with: recollect undo {answer(capsys, 'undo')['changes'][0]['id']}" in told
    return home


def test_what_one_command_removed_is_one_line_and_one_undo(
    removed_three: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """However many sessions; the printed command takes it back once more, as a whole."""
    (batch,) = answer(capsys, "undo")["changes"]
    each = answer(capsys, "undo", "--each")["changes"]
    back = answer(capsys, "undo", batch["id"], "--apply")
    there = sorted(path.stem for path in removed_three.rglob("*.jsonl"))
    assert 0 == main(back["undo"].split()[1:])

    assert ("protect-tidy", "done", 3) == (batch["what"], batch["state"], len(batch["members"]))
    assert {ONE, TWO, THREE} == {one["subject"] for one in each}
    assert sorted([ONE, TWO, THREE]) == there
    assert [] == list(removed_three.rglob("*.jsonl"))


def test_a_batch_is_refused_as_a_whole_while_one_session_is_open(
    removed_three: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (batch,) = answer(capsys, "undo")["changes"]
    open_in_this_process(removed_three, TWO)

    assert 5 == main(["undo", batch["id"], "--apply"])
    assert [] == list(removed_three.rglob("*.jsonl"))


def test_what_can_be_taken_back_of_a_batch_is(
    removed_three: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A session whose place is taken stays in the trash: exit 1, with the reason."""
    (batch,) = answer(capsys, "undo")["changes"]
    put(removed_three, TWO, TALK[:1], "/srv/1")

    assert 1 == main(["undo", batch["id"], "--apply"])
    assert f"{TWO}.jsonl exists again" in capsys.readouterr().err
    assert 3 == len(list(removed_three.rglob("*.jsonl")))
    assert [TWO] == [one["subject"] for one in answer(capsys, "undo", "--each")["changes"]]


@pytest.mark.parametrize("kind", ["repair", "migrate", "mv", "rm"])
def test_an_undo_can_be_undone(kind: str, own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the command it prints."""
    home = own_home / ".claude"
    make, words = KINDS[kind]
    make(home)
    assert 0 == main([*words, "--apply"])
    after = {name for name in state(home) if name.endswith(".jsonl")}
    capsys.readouterr()
    (change,) = answer(capsys, "undo")["changes"]
    back = answer(capsys, "undo", change["id"], "--apply")
    assert 0 == main(back["undo"].split()[1:])

    assert after == {name for name in state(home) if name.endswith(".jsonl")}


@pytest.mark.parametrize("kind", ["repair", "mv", "redact", "rm"])
def test_an_undo_is_refused_while_a_client_has_the_session_open(
    kind: str, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 5, by whatever spelling, and the home is as before."""
    home = own_home / ".claude"
    make, words = KINDS[kind]
    make(home)
    assert 0 == main([*words, "--apply"])
    capsys.readouterr()
    (change,) = answer(capsys, "undo")["changes"]
    open_in_this_process(home, ONE)
    before = state(home)

    assert 5 == main(["undo", change["id"], "--apply"])
    assert before == state(home)


def test_the_newest_change_stands_first_whatever_its_kind(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Changes of the journal and sessions in the trash, by time."""
    home = own_home / ".claude"
    torn(home)
    put(home, TWO, TALK)
    for words in (["rm", TWO], ["doctor", ONE, "--fix"], ["rm", ONE]):
        assert 0 == main([*words, "--apply"])
    capsys.readouterr()

    assert [("rm", ONE), ("repair", ONE), ("rm", TWO)] == [
        (one["what"], one["subject"]) for one in answer(capsys, "undo")["changes"]
    ]


def test_a_start_that_fits_several_is_refused(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also across the journal and the trash: exit 3."""
    home = own_home / ".claude"
    torn(home)
    assert 0 == main(["doctor", ONE, "--fix", "--apply"])
    assert 0 == main(["rm", ONE, "--apply"])

    assert 3 == main(["undo", "2", "--apply"])
    assert 3 == main(["undo", "nothing"])


def test_a_removed_session_is_not_forgotten_here(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only `trash empty` deletes a session: exit 2, and it can still come back."""
    talk(own_home / ".claude")
    assert 0 == main(["rm", ONE, "--apply"])
    capsys.readouterr()
    (change,) = answer(capsys, "undo")["changes"]

    assert 2 == main(["undo", change["id"], "--forget", "--apply"])
    assert 0 == main(["undo", change["id"], "--apply"])


def test_a_record_that_cannot_be_read_hides_no_other(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is listed as damaged, behind all others."""
    home, data = own_home / ".claude", own_home / "xdg-data" / "recollect"
    home.mkdir()
    for name in ("one", "two"):
        plan = ChangePlan("mv", name, home)
        plan.create(home / name, b"x")
        ChangeJournal(data / "undo").apply(plan)
    first = answer(capsys, "undo")["changes"][0]["id"]
    for record in (data / "undo" / first).glob("*.json"):
        record.write_bytes(b"nonsense")

    assert ["done", "damaged"] == [one["state"] for one in answer(capsys, "undo")["changes"]]
    shutil.rmtree(data)
    assert [] == answer(capsys, "undo")["changes"]
