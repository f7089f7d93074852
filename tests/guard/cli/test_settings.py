"""`recollect rules settings`: what counts here, what the client would ignore, and changing it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from recollect.cli.main import main
from tests.permission_home import NO_MANAGED, Place, place, rules

__all__ = ["place"]

TOKEN = "ghp_" + "x7Kq2Vb9Lm4Tz8Rw1Yp6Nc3Hd5Jf0Gs2Qa7U"
SECRET = "sk-ant-api03-never-to-be-printed"


def run(place: Place, *words: str) -> int:
    return main(
        [
            *place.options,
            "rules",
            "settings",
            *words,
            "--cwd",
            str(place.project),
            "--managed",
            str(NO_MANAGED),
        ]
    )


def document(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_show_names_file_and_line(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """And the weaker place that is hidden."""
    user = place.user({"model": "opus"})
    local = place.local({"model": "sonnet"})
    assert 0 == run(place, "show")
    shown = capsys.readouterr().out

    assert f"model = sonnet\n    local: {local}:2; over user: {user}:2" in shown
    assert f"Workspace {place.project}: not trusted" in shown


def test_show_as_json_and_one_key_alone(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """Rules one by one."""
    place.user({"model": "opus", **rules(deny=["A", "B"])})
    assert 0 == run(place, "show", "permissions.deny", "--json")

    assert [("A", 5), ("B", 6)] == [(row["value"], row["line"]) for row in document(capsys)["values"]]


def test_show_says_what_waits_for_trust(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """And that allowedTools has no effect."""
    place.shared(rules(allow=["Bash(make)"]))
    place.write(place.root / ".claude.json", {"projects": {str(place.project): {"allowedTools": ["X"]}}})
    assert 0 == run(place, "show")
    shown = capsys.readouterr().out

    assert "These do not apply until the workspace is trusted:\npermissions.allow = Bash(make)" in shown
    assert "1 rule in allowedTools of .claude.json: no effect" in shown


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_secrets_are_never_shown(place: Place, capsys: pytest.CaptureFixture[str], more: list[str]) -> None:
    """Not in the environment, not under a telling key, not inside a command; nor what drives a terminal."""
    place.user(
        {
            "env": {"MY_URL": SECRET, "FLAG": "1"},
            "apiToken": SECRET,
            "model": "a\x1b[2Jb",
            "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x", "env": {"A": SECRET}}]}]},
            "statusLine": {"type": "command", "command": f"TOKEN={TOKEN} run"},
        }
    )
    assert 0 == run(place, "show", *more)
    shown = capsys.readouterr()

    assert [False, False, False] == [word in shown.out + shown.err for word in (SECRET, TOKEN, "\x1b")]
    assert "(hidden)" in shown.out


def test_check_says_exactly_what_is_wrong(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """File, line, key, expected, found, and what it costs; exit code 1."""
    file = place.user({"model": "opus", "cleanupPeriodDays": "30", **rules(deny=["Bash(rm *)", "Bash("])})
    assert 1 == run(place, "check")
    shown = capsys.readouterr().out

    assert f"ignored  user: {file}" in shown
    assert (
        f"{file}:3: cleanupPeriodDays: expected a whole number of at least 1, found a text; "
        "the client would ignore this whole file, its deny rules included"
    ) in shown
    assert f"{file}:7: deny Bash(:" in shown


def test_check_warns_of_rules_that_do_other_than_they_seem(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    """They count, so the exit status stays 0; each is named with its file, line and reason."""
    place.user({"permissions": {"allow": ["Bash(python3:*)", "Read(/etc/hosts)"], "deny": ["Raed"]}})

    assert 0 == run(place, "check", "--json")
    warnings = json.loads(capsys.readouterr().out)["warnings"]
    assert [
        ("Bash(python3:*)", "too wide"),
        ("Read(/etc/hosts)", "not absolute"),
        ("Raed", "unknown tool"),
    ] == [(one["rule"], one["kind"]) for one in warnings]
    assert all(one["source"]["file"] and one["source"]["line"] and one["why"] for one in warnings)

    assert 0 == run(place, "check")
    said = capsys.readouterr().out
    assert "0 problems, 3 warnings" in said
    assert "allow Bash(python3:*): python3 allows more than it seems: the text or file behind it" in said


def test_check_of_sound_files_ends_with_0(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """Files that are not there are no problem."""
    place.user(rules(deny=["Bash(rm *)"]))
    assert 0 == run(place, "check", "--json")

    assert [] == document(capsys)["problems"]


def test_set_prints_a_plan_then_does_it_then_undoes_it(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing changes without --apply; the command to type is printed, and so is the undo."""
    file = place.user('{"unknown": [1,2]}')
    assert 0 == run(place, "set", "cleanupPeriodDays", "365")
    assert ("Nothing was changed. Do it with:" in capsys.readouterr().out, '{"unknown": [1,2]}') == (
        True,
        file.read_text(),
    )
    assert 0 == run(place, "set", "cleanupPeriodDays", "365", "--apply", "--json")
    undo = document(capsys)["undo"].split()
    assert '{"unknown": [1,2], "cleanupPeriodDays": 365}' == file.read_text()
    assert 0 == main(undo[1:])

    assert '{"unknown": [1,2]}' == file.read_text()


def test_add_remove_and_unset(place: Place) -> None:
    """Items of a list, and a whole key."""
    assert 0 == run(place, "add", "permissions.deny", "Bash(rm *)", "--scope", "local", "--apply")
    assert 0 == run(place, "add", "permissions.deny", "Read(./.env)", "--scope", "local", "--apply")
    assert 0 == run(place, "remove", "permissions.deny", "Bash(rm *)", "--scope", "local", "--apply")
    file = place.project / ".claude" / "settings.local.json"
    assert {"permissions": {"deny": ["Read(./.env)"]}} == json.loads(file.read_text())
    assert 0 == run(place, "unset", "permissions", "--scope", "local", "--apply")

    assert {} == json.loads(file.read_text())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["set", "cleanupPeriodDays", '"30"'], "expected a whole number of at least 1"),
        (["set", "model"], "needs a key and a value"),
        (["unset"], "needs a key"),
        (["add", "permissions.allow", "*"], "rule '*'"),
        (["add", "permissions.deny", "Bash("], "rule 'Bash('"),
        (["add", "model", "x"], "not a list"),
        (["set", "permissions", "[]"], "permissions: expected an object"),
        (["set", "a..b", "1"], "not a key"),
    ],
)
def test_wrong_use_ends_with_2_and_changes_nothing(
    place: Place, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    """With the reason."""
    file = place.user({"model": "opus"})
    before = file.read_bytes()
    assert 2 == run(place, *words, "--apply")

    assert message in capsys.readouterr().err
    assert before == file.read_bytes()
