"""`recollect secrets`: kinds, places and fingerprints, never a value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recollect.cli.main import main
from recollect.model.secrets.redaction import fingerprint
from recollect.store.own_settings import fingerprint_key
from recollect.system.locations import data_dir
from tests.cli.session_logs import drives_a_terminal
from tests.secret_home import ELSEWHERE, OF_THE_SESSION, make, token, write
from tests.small_home import ONE, TWO, prompt, put


def scanned(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    main(["secrets", *arguments, "--json"])
    return dict(json.loads(capsys.readouterr().out))


def test_findings_and_exit_status(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """1 where there is something, and a row for each place."""
    make(own_home / ".claude")
    assert 1 == main(["secrets", "-v"])
    shown = capsys.readouterr().out
    digits = fingerprint(token("agent"), fingerprint_key(data_dir()))

    assert f"github-pat               {digits}  line 1, byte 0  message.content" in shown
    assert "24 secrets in 27 places" in shown
    assert "recollect secrets remove " in shown


def test_a_row_for_each_secret(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where it is: in how many sessions, and in the copies that we keep."""
    home, secret = own_home / ".claude", token("shared")
    for name in (ONE, TWO):
        put(home, name, [prompt(1, None, f"use {secret}")])
    write(home / "history.jsonl", json.dumps({"display": secret, "sessionId": ONE}) + "\n")
    assert 0 == main(["protect", "now"])
    assert 0 == main(["rm", TWO, "--apply"])
    capsys.readouterr()
    assert 1 == main(["secrets"])
    row = capsys.readouterr().out.splitlines()[0]
    (found,) = scanned(capsys)["secrets"]
    digits = fingerprint(secret, fingerprint_key(data_dir()))

    assert row.startswith(f"github-pat               {digits}  1 session (3f2a9c1e), ")
    assert all(place in row for place in ("archive (3)", "trash", "prompt history")), row
    assert (digits, [ONE]) == (found["fingerprint"], found["sessions"])


def test_no_value_is_printed(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nor a part of one: neither on stdout nor on stderr, in words or as JSON."""
    make(own_home / ".claude")
    main(["secrets"])
    main(["secrets", "--json"])
    captured = capsys.readouterr()
    places = OF_THE_SESSION | ELSEWHERE
    pieces = [token(place, kind)[at : at + 8] for place, kind in places.items() for at in (8, 16, 24)]

    assert [] == [piece for piece in pieces if len(piece) == 8 and piece in captured.out + captured.err]


def test_equal_secrets_have_equal_fingerprints_in_every_run(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The key is kept; another directory of ours has another."""
    make(own_home / ".claude")
    first, second = scanned(capsys), scanned(capsys)
    main(["--data", str(own_home / "other"), "secrets", "--json"])
    other = json.loads(capsys.readouterr().out)

    assert first["findings"] == second["findings"]
    assert {one["fingerprint"] for one in first["findings"]}.isdisjoint(
        one["fingerprint"] for one in other["findings"]
    )


def test_results_are_kept_in_the_index_of_the_data_directory(
    own_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the next scan reads no file that did not change."""
    make(own_home / ".claude")
    elsewhere = ["--data", str(tmp_path / "elsewhere")]
    main([*elsewhere, "data", "index", "rebuild"])
    capsys.readouterr()
    first = main([*elsewhere, "secrets", "--json"]), json.loads(capsys.readouterr().out)
    searched: list[int] = []

    def no_place(places: list[Any], *_: object) -> list[Any]:
        searched.append(len(places))
        return []

    monkeypatch.setattr("recollect.ask.secrets.scan.scan_places", no_place)
    second = main([*elsewhere, "secrets", "--json"]), json.loads(capsys.readouterr().out)

    assert searched == []
    assert second[0] == first[0] == 1
    assert second[1]["findings"] == first[1]["findings"]


def test_the_allow_list(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Counted, not listed."""
    put(own_home / ".claude", TWO, [prompt(1, None, token("only"))])
    digits = fingerprint(token("only"), fingerprint_key(data_dir()))
    write(own_home / "xdg-config/recollect/config.toml", f'[secrets]\nignore = ["github-pat:{digits}"]')

    assert 0 == main(["secrets"])
    assert "; 1 on the allow list" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--limit", "-1"], 2, "must be 0 or more"),
        (["nothing-like-it"], 3, "recollect list"),
    ],
)
def test_wrong_use_says_what_to_do(
    own_home: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, words: str
) -> None:
    """Nothing on stdout."""
    make(own_home / ".claude")

    assert code == main(["secrets", *arguments])
    captured = capsys.readouterr()
    assert ("", True) == (captured.out, words in captured.err)


def test_hostile_names_are_shown_not_sent(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """W4: keys of a transcript are part of a path of ours."""
    entry = prompt(1, None, "x") | {"\x1b]0;owned\x07\u202e": {"\x1b[31m": token("key")}}
    put(own_home / ".claude", TWO, [entry])
    main(["secrets"])
    captured = capsys.readouterr()

    assert [] == drives_a_terminal(captured.out + captured.err)
