"""Secrets taken out of a session: everywhere in it, nothing else, and back again."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path

import pytest

from recollect.ask.library import Home
from recollect.ask.secrets import scan as scanning
from recollect.ask.secrets.redactor import Fingerprints
from recollect.ask.secrets.scan import scan
from recollect.ask.sessions.session import Session
from recollect.change.redact import HISTORY_IN_USE, planned_redaction, redact
from recollect.errors import Busy
from recollect.model.lines.damage import Line
from recollect.model.views.facts import usage_facts
from recollect.store.changes.journal import ChangeJournal
from recollect.store.logs.reader import read_lines
from recollect.store.prompt_history import prompts
from tests.secret_home import ELSEWHERE, OF_THE_SESSION, PEM, make, token, write
from tests.small_home import ONE, TWO, open_in_this_process, prompt, put, reply, said, state, written


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a secret in every place."""
    make(tmp_path / "home")
    return tmp_path / "home"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Our own directory."""
    return tmp_path / "data"


def session_of(home: Path, name: str = ONE) -> Session:
    return Home(home).own_session(name)


def marked(data: Path, place: str) -> str:
    kind = OF_THE_SESSION[place]
    return f"[redacted:{kind}:{Fingerprints(data)(token(place, kind))}]"


def everything(home: Path) -> bytes:
    return b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())


def test_every_secret_of_the_session_is_gone(home: Path, data: Path) -> None:
    """And none of the others."""
    redact(session_of(home), data)
    left = everything(home).decode()

    assert [] == [place for place, kind in OF_THE_SESSION.items() if token(place, kind) in left]
    assert PEM.splitlines()[3] not in left
    assert [] == [
        place
        for place, kind in ELSEWHERE.items()
        if token(place, kind) not in left and place not in ("header", "project settings")
    ]


def test_the_lines_say_the_same_otherwise(home: Path, data: Path) -> None:
    """Entry for entry; a thought has become text."""
    log = next(home.glob(f"projects/*/{ONE}.jsonl"))
    before = written(log)
    redact(session_of(home), data)
    after = written(log)

    assert [entry.get("uuid") for entry in before] == [entry.get("uuid") for entry in after]
    assert {**before[0], "message": after[0]["message"]} == after[0]
    assert f"Use {marked(data, 'prompt')} for it" == after[0]["message"]["content"]
    assert [{"type": "text", "text": f"They said {marked(data, 'thought')}"}] == after[1]["message"][
        "content"
    ]
    assert {"command": f"login {marked(data, 'input')}", "env": {"API_KEY": marked(data, "env")}} == after[2][
        "message"
    ]["content"][0]["input"]
    assert (
        after[3]["toolUseResult"]["stdout"]
        == after[3]["message"]["content"][0]["content"]
        == f"ok\n{marked(data, 'result')}\n"
    )
    assert before[4] == after[4]


def test_tokens_and_answers_are_counted_as_before(home: Path, data: Path) -> None:
    """Usage is not touched."""
    log = next(home.glob(f"projects/*/{ONE}.jsonl"))

    def usage() -> list[object]:
        facts = (usage_facts(line.data) for line in read_lines(log) if isinstance(line, Line))
        return [one and one.response for one in facts]

    before = usage()
    redact(session_of(home), data)

    assert before == usage()


def test_a_second_time_there_is_nothing_to_do(home: Path, data: Path) -> None:
    """And nothing is done."""
    redact(session_of(home), data)
    before = state(home)
    plan, applied = redact(session_of(home), data)

    assert ((), None, before) == (plan.files, applied, state(home))


def test_undone_it_is_what_it_was(home: Path, data: Path) -> None:
    """Every byte, mode and time; until it is forgotten the journal holds the secrets."""
    before = state(home)
    _, applied = redact(session_of(home), data)
    assert applied is not None
    journal = ChangeJournal(data / "undo")
    kept = everything(data / "undo")
    journal.undo(applied.id)

    assert before == state(home)
    assert token("prompt").encode() in kept


def test_forgotten_it_is_gone_for_good(home: Path, data: Path) -> None:
    """No copy of ours is left; what was not of the session is still in the home."""
    _, applied = redact(session_of(home), data)
    assert applied is not None
    ChangeJournal(data / "undo").forget(applied.id)
    left = everything(data).decode("latin-1") + everything(home).decode("latin-1")

    assert [] == [place for place, kind in OF_THE_SESSION.items() if token(place, kind) in left]


def test_modes_and_times_stay(home: Path, data: Path) -> None:
    """The client continues what was touched last, and deletes by age."""
    log = next(home.glob(f"projects/*/{ONE}.jsonl"))
    log.chmod(0o600)
    os.utime(log, ns=(1, 1_700_000_000_000_000_000))
    redact(session_of(home), data)
    found = log.stat()

    assert (0o600, 1_700_000_000_000_000_000) == (stat.S_IMODE(found.st_mode), found.st_mtime_ns)


def test_a_paste_is_found_under_its_new_name(home: Path, data: Path) -> None:
    """Its name is made from its text, so the history must say another."""
    redact(session_of(home), data)
    [paste] = (home / "paste-cache").iterdir()
    _, pasted, other = prompts(session_of(home).home)

    assert f"{hashlib.sha256(paste.read_bytes()).hexdigest()[:16]}.txt" == paste.name
    assert [paste.stem] == [one.content_hash for one in pasted.pastes]
    assert f"pasted\n{marked(data, 'paste')}\n" == paste.read_text()
    assert f"Other {token('other prompt')}" == other.display


def test_a_session_that_is_open_is_refused(home: Path, data: Path) -> None:
    """Its client would go on writing; the plan says who has it open."""
    open_in_this_process(home, ONE)
    before = state(home)

    assert os.getpid() == planned_redaction(session_of(home), data).open_in
    with pytest.raises(Busy, match="a client has it open"):
        redact(session_of(home), data)
    assert before == state(home)


def test_the_history_waits_while_any_client_runs(home: Path, data: Path) -> None:
    """It belongs to all sessions; everything else is done, and the plan says what is not."""
    open_in_this_process(home, TWO)
    before = (home / "history.jsonl").read_bytes()
    plan, applied = redact(session_of(home), data)

    assert applied is not None
    assert (HISTORY_IN_USE,) == plan.notes
    assert before == (home / "history.jsonl").read_bytes()
    assert token("thought").encode() not in next(home.glob(f"projects/*/{ONE}.jsonl")).read_bytes()


def test_what_is_on_the_allow_list_stays(home: Path, data: Path, own_home: Path) -> None:
    """By kind and fingerprint."""
    digits = Fingerprints(data)(token("prompt"))
    write(own_home / "xdg-config/recollect/config.toml", f'[secrets]\nignore = ["github-pat:{digits}"]')
    redact(session_of(home), data)
    log = next(home.glob(f"projects/*/{ONE}.jsonl")).read_text()

    assert (True, False) == (token("prompt") in log, token("thought") in log)


def test_a_damaged_line_is_redacted_and_stays_damaged(tmp_path: Path, data: Path) -> None:
    """Its other bytes are as they were."""
    log = put(tmp_path, ONE, [prompt(1, None, "x"), reply(2, 1, said("y"))])
    torn = b'{"torn": \xff "' + token("torn").encode() + b" and on\n"
    log.write_bytes(log.read_bytes() + torn)
    redact(session_of(tmp_path), data)
    digits = Fingerprints(data)(token("torn"))

    assert (
        torn.replace(token("torn").encode(), f"[redacted:github-pat:{digits}]".encode())
        == log.read_bytes().splitlines(keepends=True)[2]
    )


def test_a_line_that_is_too_long_is_said_to_be_left(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never wrong silently: the rest is done, and what is not is told."""
    monkeypatch.setattr(scanning, "LONGEST_LINE", 4000)
    monkeypatch.setattr(scanning, "_BLOCK", 1000)
    long = prompt(2, 1, f"{'word ' * 1000}{token('long')}")
    log = put(tmp_path, ONE, [prompt(1, None, token("short")), long])
    planned = planned_redaction(session_of(tmp_path), data)
    plan, _ = redact(session_of(tmp_path), data)

    assert planned.notes == plan.notes
    assert ((f"{log}: 1 in lines that are too long, not changed",), [2]) == (
        plan.notes,
        [one.line for one in plan.left],
    )
    assert (False, True) == (token("short") in log.read_text(), token("long") in log.read_text())


def test_the_whole_home_can_be_cleaned_session_by_session(home: Path, data: Path) -> None:
    """What `scan` names as a session's is what `redact` takes out of it."""
    redact(session_of(home), data)
    redact(session_of(home, TWO), data)
    roles = {one.role for one in scan(Home(home), data=data).findings}

    assert {"settings", "config", "plan", "shell", "memory"} == roles


def test_the_plans_that_a_session_names_are_redacted(tmp_path: Path, data: Path) -> None:
    """Those of other sessions stay."""
    put(tmp_path, ONE, [prompt(1, None, "x", slug="calm-blue-fox"), reply(2, 1, said("y"))])
    own, other = (
        write(tmp_path / "plans/calm-blue-fox.md", token("plan")),
        write(tmp_path / "plans/o.md", token("o")),
    )
    redact(session_of(tmp_path), data)

    assert ("[redacted:github-pat:", token("o")) == (own.read_text()[:21], other.read_text())


def test_json_stays_json(home: Path, data: Path) -> None:
    """Every document and every line that was sound."""
    redact(session_of(home), data)
    files = [path for path in home.rglob("*.json*") if path.is_file()]

    assert len(files) > 8
    for path in files:
        texts = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
        assert all(json.loads(text) is not None for text in texts)
