"""`recollect secrets remove`: the plan, the change, and what is said about the copy that is kept."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from recollect.cli.main import main
from recollect.model.secrets.redaction import fingerprint
from recollect.store.own_settings import fingerprint_key
from recollect.system.locations import data_dir
from tests.agents import tiny_homes
from tests.ask.secrets.test_everywhere import every_byte
from tests.secret_home import OF_THE_SESSION, make, token, write
from tests.small_home import ONE, TWO, open_in_this_process, prompt, put, state


def test_done_it_says_what_still_holds_the_secrets(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The undo line and the line that drops the copy can both be typed."""
    make(own_home / ".claude")
    before = state(own_home / ".claude")
    assert 0 == main(["secrets", "remove", "3f2a", "--apply"])
    shown = capsys.readouterr().out
    undo = next(line for line in shown.splitlines() if line.startswith("Undo with: "))
    forget = next(line for line in shown.splitlines() if "still holds the secrets" in line)
    log = next((own_home / ".claude").glob(f"projects/*/{ONE}.jsonl")).read_text()

    assert [] == [place for place, kind in OF_THE_SESSION.items() if token(place, kind) in log]
    assert "--forget --apply" in forget
    assert 0 == main(shlex.split(undo.removeprefix("Undo with: "))[1:])
    assert before == state(own_home / ".claude")


def test_nothing_to_do(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Said, and nothing is written down."""
    make(own_home / ".claude")
    main(["secrets", "remove", "3f2a", "--apply"])
    capsys.readouterr()

    assert 0 == main(["secrets", "remove", "3f2a", "--apply"])
    assert "No secrets found in 3f2a9c1e: nothing to do\n" == capsys.readouterr().out


def test_an_open_session_is_refused(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 5; the plan says it beforehand."""
    make(own_home / ".claude")
    open_in_this_process(own_home / ".claude", ONE)
    assert 0 == main(["secrets", "remove", "3f2a"])

    assert "refused until it is closed" in capsys.readouterr().out
    assert 5 == main(["secrets", "remove", "3f2a", "--apply"])
    assert "a client has it open" in capsys.readouterr().err


def test_what_stays_is_named_and_the_exit_status_is_4(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A client of another session runs, so the prompt history waits; a second time nothing else is left to say."""
    make(own_home / ".claude")
    open_in_this_process(own_home / ".claude", TWO)
    assert 4 == main(["secrets", "remove", "3f2a", "--apply", "--json"])
    done = json.loads(capsys.readouterr().out)
    assert 4 == main(["secrets", "remove", "3f2a", "--apply"])
    told = capsys.readouterr()

    assert {"history", "paste"} == {one["role"] for one in done["left"]}
    assert done["applied"]
    assert told.out.startswith("Not removed: 2 secrets\n")
    assert ("nothing to do" in told.out, "redact again later" in told.err) == (False, True)
    assert 4 == main(["secrets", "remove", "3f2a", "--everywhere", "--apply"])
    assert capsys.readouterr().out.startswith("Not removed: 2 secrets\n")


def test_no_value_is_printed(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In no step of it."""
    make(own_home / ".claude")
    for arguments in ([], ["--json"], ["--apply"], ["--json", "--apply"]):
        main(["secrets", "remove", "3f2a", *arguments])
    captured = capsys.readouterr()
    pieces = [token(place, kind)[at : at + 8] for place, kind in OF_THE_SESSION.items() for at in (8, 16, 24)]

    assert [] == [piece for piece in pieces if len(piece) == 8 and piece in captured.out + captured.err]


def shared(home: Path) -> tuple[str, str]:
    """One secret in two sessions, the prompt history and a note; another in one session. Both archived, one in the trash."""
    first, second = token("shared"), token("own")
    put(home, ONE, [prompt(1, None, f"use {first} and {second}")])
    put(home, TWO, [prompt(1, None, f"use {first}")])
    write(home / "history.jsonl", json.dumps({"display": first, "sessionId": "gone"}) + "\n")
    write(next(home.glob("projects/*")) / "memory" / "MEMORY.md", f"the key is {first}\n")
    assert 0 == main(["protect", "now"])
    assert 0 == main(["rm", TWO, "--apply"])
    assert 0 == main(["protect", "restore", TWO, "--apply"])
    assert 0 == main(["search", "use"])
    return first, second


def digits_of(secret: str) -> str:
    return fingerprint(secret, fingerprint_key(data_dir()))


@pytest.mark.parametrize("at_once", [200, 1])
def test_a_secret_is_removed_everywhere_and_no_other(
    own_home: Path, at_once: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From sessions, history, notes, archive, trash and the index; what it says is true byte for byte."""
    monkeypatch.setattr("recollect.change.redact._AT_ONCE", at_once)
    first, second = shared(own_home / ".claude")
    before = state(own_home / ".claude")
    assert 0 == main(["secrets", "remove", digits_of(first)])
    assert before == state(own_home / ".claude")
    capsys.readouterr()
    assert 0 == main(["secrets", "remove", f"github-pat:{digits_of(first)}", "--apply"])
    done = capsys.readouterr().out
    text = every_byte(own_home)

    assert "Removed 1 secret from " in done
    assert "none is left" in done
    assert (False, True) == (first in text, second in text)
    assert 3 == main(["secrets", "remove", digits_of(first), "--apply"])
    assert "not found in any session or copy" in capsys.readouterr().err
    assert 0 == main(["protect", "verify"])
    assert 0 == main(["secrets", "remove", "--all", "--apply"])
    assert second not in every_byte(own_home)
    assert 0 == main(["secrets"])


def test_a_secret_in_settings_or_an_open_session_stays_and_is_named(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 4 with what is left; the rest is removed."""
    home = own_home / ".claude"
    first, _ = shared(home)
    write(home / "settings.json", json.dumps({"env": {"TOKEN": first}}))
    open_in_this_process(home, ONE)
    capsys.readouterr()
    assert 4 == main(["secrets", "remove", digits_of(first), "--apply", "--json"])
    shown = capsys.readouterr()
    done = json.loads(shown.out)

    assert {"settings", "log", "history"} == {one["role"] for one in done["left"]}
    assert "a client has its session open" in shown.err
    assert 4 == main(["secrets", "remove", digits_of(first), "--apply"])
    again = capsys.readouterr().out
    assert again.startswith("Not removed: "), again
    assert first not in next(home.glob(f"projects/*/{TWO}.jsonl")).read_text()


def test_the_files_of_another_agent_are_named_and_never_written(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Our copy is cleaned; its own file has the secret still, and each later run says so."""
    secret = token("elsewhere")
    put(own_home / ".claude", ONE, [prompt(1, None, "hello")])
    source = own_home / ".gemini"
    chat = tiny_homes.gemini_document(source)
    document = json.loads(chat.read_text())
    said = {"id": "n9", "timestamp": tiny_homes.AT, "type": "user", "content": f"use {secret}"}
    document["messages"].append(said)
    chat.write_text(json.dumps(document))
    before = chat.read_bytes()
    assert 1 == main(["secrets"])
    assert "other agents' own files" in capsys.readouterr().out
    for _ in range(2):
        assert 4 == main(["secrets", "remove", digits_of(secret), "--apply"])
        shown = capsys.readouterr()
        assert str(chat) in shown.out
        assert "none is left" not in shown.out

    assert before == chat.read_bytes()
    assert 0 == main(["secrets", "remove", "--all"])


@pytest.mark.parametrize("words", [[], ["--all", "30877f57"], ["30877f57", "no fingerprint"]])
def test_wrong_names_say_what_to_do(
    own_home: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is searched."""
    make(own_home / ".claude")
    assert 2 == main(["secrets", "remove", *words])
    captured = capsys.readouterr()
    assert ("", True) == (captured.out, captured.err.startswith("recollect: secrets remove"))
