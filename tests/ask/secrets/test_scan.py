"""Secrets in a home: every place is looked at, every finding says where, none says what."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

import msgspec
import pytest

from recollect.ask.library import Home
from recollect.ask.secrets import places
from recollect.ask.secrets import scan as scanning
from recollect.ask.secrets.places import SecretPlace
from recollect.ask.secrets.redactor import FOR_THIS_RUN
from recollect.ask.secrets.scan import scan, scan_place
from recollect.model.secrets.redaction import fingerprint
from recollect.store.own_settings import fingerprint_key
from tests.secret_home import ELSEWHERE, OF_THE_SESSION, PEM, make, token, write
from tests.small_home import ONE, TWO, lines, prompt, put, state

KEY = b"k" * 32


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a secret in every place."""
    make(tmp_path / "home")
    return tmp_path / "home"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Our own directory."""
    return tmp_path / "data"


def expected(data: Path, places: dict[str, str]) -> set[tuple[str, str]]:
    """Kind and fingerprint of the secrets of some places."""
    name = partial(fingerprint, key=fingerprint_key(data))
    return {(kind, name(token(place, kind))) for place, kind in places.items()}


def test_every_place_is_looked_at(home: Path, data: Path) -> None:
    """Every secret that was put somewhere is found, and the client's own store of credentials is left alone."""
    found = scan(Home(home), data=data)
    pem = fingerprint("".join(PEM.splitlines()[1:-1]), fingerprint_key(data))

    everything = expected(data, OF_THE_SESSION) | expected(data, ELSEWHERE) | {("private-key", pem)}
    assert everything == {(one.kind, one.fingerprint) for one in found.findings}
    assert (len(everything), [], []) == (found.secrets, found.problems, found.notes)


def test_a_session_is_its_own_files_only(home: Path, data: Path) -> None:
    """Its lines of the prompt history and what it pasted count; another session's lines and settings do not."""
    chosen = Home(home)
    found = scan(chosen, [chosen.session(ONE)], data=data)
    nothing = scan(chosen, [chosen.session(TWO)], data=data)

    kinds = {(one.kind, one.fingerprint) for one in found.findings if one.kind != "private-key"}
    assert expected(data, OF_THE_SESSION) == kinds
    assert {"other prompt": "github-pat"} == {
        place: kind
        for place, kind in ELSEWHERE.items()
        if expected(data, {place: kind}) <= {(one.kind, one.fingerprint) for one in nothing.findings}
    }


def test_a_finding_says_where(home: Path, data: Path) -> None:
    """Session, agent, line, byte of the line, and field."""
    digits = fingerprint(token("result", "aws-access-key-id"), fingerprint_key(data))
    found = [one for one in scan(Home(home), data=data).findings if one.fingerprint == digits]
    log = next(home.glob(f"projects/*/{ONE}.jsonl"))
    offset = sum(len(line) + 1 for line in log.read_bytes().split(b"\n")[:3])

    assert [
        ("log", ONE, None, 4, offset, "message.content[0].content"),
        ("log", ONE, None, 4, offset, "toolUseResult.stdout"),
    ] == [(one.role, one.session, one.agent, one.line, one.offset, one.field) for one in found]


def test_places_in_texts_and_documents(home: Path, data: Path) -> None:
    """The line of a text, and of a pretty-printed document."""
    found = {
        one.role: one
        for one in scan(Home(home), data=data).findings
        if one.role in ("tool-result", "task", "settings")
    }

    assert (2, len("line one\n"), "") == (
        found["tool-result"].line,
        found["tool-result"].offset,
        found["tool-result"].field,
    )
    assert (3, "subject") == (found["task"].line, found["task"].field)


def test_no_secret_is_in_what_comes_back(home: Path, data: Path) -> None:
    """Neither in the findings nor in what can be shown of them."""
    found = scan(Home(home), data=data)
    told = msgspec.json.encode(found).decode() + repr(found)

    assert [] == [
        place for place, kind in (OF_THE_SESSION | ELSEWHERE).items() if token(place, kind)[4:] in told
    ]


def test_nothing_in_the_home_is_changed(home: Path, data: Path) -> None:
    """Not even a time."""
    before = state(home)
    scan(Home(home), data=data)

    assert before == state(home)


def test_many_processes_find_the_same(home: Path, data: Path) -> None:
    """In the same order."""
    one, two = (scan(Home(home), data=data, processes=count) for count in (1, 2))

    assert one == two


def test_what_is_on_the_allow_list_is_counted(home: Path, data: Path, own_home: Path) -> None:
    """Not listed, not forgotten."""
    digits = fingerprint(token("prompt"), fingerprint_key(data))
    before = scan(Home(home), data=data)
    write(own_home / "xdg-config/recollect/config.toml", f'[secrets]\nignore = ["github-pat:{digits}"]')
    after = scan(Home(home), data=data)

    assert digits not in {one.fingerprint for one in after.findings}
    assert len(before.findings) == len(after.findings) + after.ignored
    assert 3 == after.ignored  # the prompt, the last prompt, the history


def test_without_a_place_for_the_key_the_answer_says_so(home: Path, tmp_path: Path) -> None:
    """Fingerprints are given all the same, for this run."""
    (tmp_path / "blocked").write_text("a file where a directory should be")
    found = scan(Home(home), data=tmp_path / "blocked" / "data")

    assert [FOR_THIS_RUN] == found.notes
    assert found.findings


def test_what_cannot_be_read_is_told(home: Path, data: Path) -> None:
    """The rest is looked at; a pipe does not make it wait."""
    pipe = home / "projects" / "-srv-app" / f"{TWO[:-1]}9.jsonl"
    os.mkfifo(pipe)
    found = scan(Home(home), data=data)

    assert [(str(pipe), "not a regular file")] == found.problems
    assert found.findings


def test_a_line_over_the_limit_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In pieces; the lines behind it keep their numbers."""
    monkeypatch.setattr(scanning, "LONGEST_LINE", 2000)
    monkeypatch.setattr(scanning, "_BLOCK", 500)
    monkeypatch.setattr(scanning, "_PIECE", 1500)
    monkeypatch.setattr(scanning, "_OVERLAP", 200)
    text = f"{'word ' * 500}{token('a')} {'word ' * 500}"
    log = put(tmp_path, ONE, [prompt(1, None, "x"), prompt(2, 1, text), prompt(3, 2, token("b"))])
    place = SecretPlace(log, "log", "lines", log.stat().st_size, ONE)
    found = scan_place(place, KEY).findings

    assert [(2, fingerprint(token("a"), KEY)), (3, fingerprint(token("b"), KEY))] == [
        (one.line, one.fingerprint) for one in found
    ]


@pytest.mark.parametrize("shift", range(0, 60, 7))
def test_a_long_text_is_looked_at_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shift: int
) -> None:
    """A secret at the edge of a piece is found once, whole, with its line."""
    monkeypatch.setattr(scanning, "_PIECE", 400)
    monkeypatch.setattr(scanning, "_OVERLAP", 200)
    text = (
        "".join(f"{'.' * 70}\n" for _ in range(5))[: 330 + shift]
        + f"\n{token('edge', 'openai-api-key')}\n"
        + "tail\n" * 200
    )
    path = write(tmp_path / "out.txt", text)
    found = scan_place(SecretPlace(path, "tool-result", "text", path.stat().st_size), KEY).findings
    before = text.index("sk-proj-")

    assert [
        (
            "openai-api-key",
            fingerprint(token("edge", "openai-api-key"), KEY),
            text.count("\n", 0, before) + 1,
            before,
        )
    ] == [(one.kind, one.fingerprint, one.line, one.offset) for one in found]


def test_a_log_without_a_last_newline_is_looked_at_to_its_end(tmp_path: Path) -> None:
    """A secret in a torn line is one all the same."""
    log = put(tmp_path, ONE, [prompt(1, None, "x")])
    log.write_bytes(log.read_bytes() + b'{"message": "torn ' + token("torn").encode())
    found = scan_place(SecretPlace(log, "log", "lines", log.stat().st_size, ONE), KEY).findings

    assert [(2, fingerprint(token("torn"), KEY))] == [(one.line, one.fingerprint) for one in found]


def test_projects_come_from_the_config_and_never_from_a_transcript(
    home: Path, data: Path, tmp_path: Path
) -> None:
    """A path that a transcript names is not opened."""
    write(tmp_path / "named" / ".claude" / "settings.local.json", json.dumps({"env": {"K": token("named")}}))
    entry = {**prompt(1, None, "x"), "cwd": str(tmp_path / "named")}
    (home / "projects" / "-srv-app" / f"{TWO}.jsonl").write_bytes(lines([entry]))
    found = scan(Home(home), data=data)

    assert fingerprint(token("named"), fingerprint_key(data)) not in {
        one.fingerprint for one in found.findings
    }


def test_an_agent_beside_the_sessions_is_its_sessions(home: Path, data: Path) -> None:
    """Clients 2.0 put its log flat into the project: only its lines say whose it is."""
    digits = fingerprint(token("flat agent"), fingerprint_key(data))

    assert [(ONE, "1f2e3d4")] == [
        (one.session, one.agent) for one in scan(Home(home), data=data).findings if one.fingerprint == digits
    ]


def test_a_name_that_no_file_has_is_no_place(home: Path, data: Path) -> None:
    """A directory, a link in a circle, a file as a directory, half a character: no place, and not a problem."""
    found = scan(Home(home), data=data)
    project = home / "projects" / "-srv-app"
    put(home, TWO, [prompt(1, None, "x")])
    (project / TWO / "custom-title.json").mkdir(parents=True)
    circle = home / "settings.local.json"
    circle.unlink(missing_ok=True)
    circle.symlink_to(circle)
    config = json.loads((home / ".claude.json").read_bytes())
    config["projects"][str(home / "settings.json")] = {}
    write(home / ".claude.json", json.dumps(config))
    again = scan(Home(home), data=data)

    assert (found.problems, again.problems) == ([], [])
    assert [] == list(places.HomePlaces(Home(home).homes[0])._file("/half/\ud800", "plan"))
    assert {one.path for one in found.findings} - {one.path for one in again.findings} <= {str(circle)}


def test_a_file_that_may_not_be_looked_at_is_a_problem(
    home: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named, and the rest is searched."""
    real = os.stat

    def refused(path: str | Path, *more: object, **named: bool) -> os.stat_result:
        if str(path).endswith("custom-title.json"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *more, **named)

    monkeypatch.setattr(os, "stat", refused)
    found = scan(Home(home), data=data)

    assert {"custom-title.json"} == {Path(path).name for path, _ in found.problems}
    assert found.findings
