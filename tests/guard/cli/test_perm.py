"""`recollect rules`: check, explain, replay and suggest, as a person meets them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from recollect.cli.main import main
from recollect.guard.library import Engine, Verdict
from tests.past_calls import bash, session
from tests.permission_home import NO_MANAGED, Place, place, rules

__all__ = ["place"]

ONE = "3f2a9c1e-0000-4000-8000-000000000001"


def run(place: Place, *words: str) -> int:
    return main([*place.options, "rules", *words, "--managed", str(NO_MANAGED)])


def check(place: Place, call: str, *words: str) -> int:
    return run(place, "check", call, "--cwd", str(place.project), *words)


def document(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def ruled(place: Place) -> Place:
    place.user(rules(allow=["Bash(git add *)"], deny=["Bash(rm *)"]))
    return place


def test_every_part_is_shown_with_its_rule(ruled: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """File and line; exit code 1, because it may not run."""
    assert 1 == check(ruled, "Bash(git add -A && rm x)", "--json")
    found = document(capsys)
    file = str(ruled.home.settings_file)

    assert (
        "deny",
        "Bash(rm *)",
        {"scope": "user", "file": file, "line": 7, "anchor": str(Path(file).parent)},
    ) == (
        found["decision"],
        found["rule"],
        found["source"],
    )
    assert [("git add -A", "allow", 4), ("rm x", "deny", 7)] == [
        (part["text"], part["decision"], part["source"]["line"]) for part in found["parts"][:2]
    ]


@pytest.mark.parametrize(
    ("call", "code"), [("Bash(git add x)", 0), ("Bash(make)", 1), ("Bash(rm x)", 1), ("Bash(ls)", 0)]
)
def test_the_exit_status_says_whether_it_may_run(ruled: Place, call: str, code: int) -> None:
    """0 for allow, 1 for ask and deny."""
    assert code == check(ruled, call)


def test_what_could_not_be_analysed_is_said(ruled: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """And a deny is found in it all the same."""
    assert 1 == check(ruled, 'Bash(eval "rm x")', "--json")
    found = document(capsys)

    assert ("deny", True) == (found["decision"], bool(found["unanalysable"]))


def test_hostile_text_does_not_drive_the_terminal(ruled: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """A command is shown, never obeyed."""
    check(ruled, "Bash(git add \x1b[2J && rm \u202ex)")

    assert not {"\x1b", "\u202e"} & set(capsys.readouterr().out)


def test_explain_shows_every_rule(ruled: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """Matched or not, and why."""
    assert 0 == run(ruled, "check", "--explain", "Bash(git add x)", "--cwd", str(ruled.project), "--json")

    assert [("Bash(git add *)", "allow", True), ("Bash(rm *)", "deny", False)] == sorted(
        (row["rule"], row["list"], row["matched"]) for row in document(capsys)["rules"]
    )


def test_settings_mode_and_rules_can_be_given(ruled: Place) -> None:
    """As on the client's command line; --rules takes the place of all."""
    file = ruled.write(ruled.root / "r.json", {"allow": ["Bash(make)"]})

    assert [0, 1, 0, 0] == [
        check(ruled, "Bash(make)", "--settings", '{"permissions": {"allow": ["Bash(make)"]}}'),
        check(ruled, "Bash(git add x)", "--rules", str(file)),
        check(ruled, "Bash(make)", "--rules", str(file)),
        check(ruled, "Bash(make x)", "--mode", "bypassPermissions"),
    ]


def test_problems_of_the_settings_are_noted(ruled: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """A rule that the client skips, a tool that does not exist."""
    ruled.local(rules(deny=["Bash(", "Bahs"]))
    check(ruled, "Bash(ls)")
    noted = capsys.readouterr().err

    assert ("deny Bash(:" in noted, "deny Bahs: no tool is called Bahs" in noted) == (True, True)


@pytest.mark.parametrize(
    "words", [["check"], ["check", "--explain"], ["check", "Bash(ls"], ["replay", "--compare"]]
)
def test_wrong_use_ends_with_2(ruled: Place, words: list[str]) -> None:
    """No call, half a call, nothing to compare with."""
    assert 2 == run(ruled, *words)


def test_replay_counts_and_shows_where_to_look(ruled: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """By rule, with the session to open."""
    session(ruled, ONE, bash("git add a", "git add b", "rm x", "make"))
    assert 0 == run(ruled, "replay", "--since", "90d")
    shown = capsys.readouterr().out

    assert "4 calls in 1 directory: 2 allow, 1 ask, 1 deny; 0 not fully analysed" in shown
    assert f"deny       1  Bash(rm *) ({ruled.home.settings_file}:7)" in shown
    assert f"Bash: rm x   recollect --home {ruled.home.root}" in shown
    assert " show 3f2a9c1e\n" in shown


def test_replay_as_json_with_other_rules(ruled: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """And what they change."""
    session(ruled, ONE, bash("git add a", "rm x", "make"))
    file = ruled.write(ruled.root / "r.json", rules(allow=["Bash(make)"]))
    assert 0 == run(ruled, "replay", "--rules", str(file), "--compare", "--json")
    found = document(capsys)

    assert (3, {"allow": 1, "ask": 2, "deny": 0}) == (found["calls"], found["counts"])
    assert {("allow", "ask", 1), ("deny", "ask", 1), ("ask", "allow", 1)} == {
        (change["before"], change["after"], change["calls"]) for change in found["changes"]
    }


def test_replay_of_one_project_and_of_no_calls(ruled: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """Only calls made there; an old history has none since yesterday."""
    session(ruled, ONE, bash("make"), cwd="/srv/other", days_ago=10)
    counts = []
    for words in (["--project", "/srv/other"], ["--project", str(ruled.project)], ["--since", "1d"]):
        assert 0 == run(ruled, "replay", "--json", *words)
        counts.append(document(capsys)["calls"])

    assert [1, 0, 0] == counts


def test_suggest_names_rules_prompts_and_what_could_go(
    ruled: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written."""
    session(ruled, ONE, bash("touch a", "touch b", "git add x"))
    before = ruled.home.settings_file.read_bytes()
    assert 0 == run(ruled, "suggest")
    shown = capsys.readouterr().out

    assert "2 prompts in 3 calls; 1 rule would save 2" in shown
    assert "      2  Bash(touch *)  (any arguments" in shown
    assert f"dead: deny Bash(rm *) ({ruled.home.settings_file}:7): no past call matched it" in shown
    assert before == ruled.home.settings_file.read_bytes()


def test_every_prompt_is_explained_once(ruled: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """What rules, acceptEdits, project rules and the sandbox would save, and why nothing saves the rest."""
    ruled.user(rules(allow=["Bash(git add *)"], ask=["Bash(git tag *)"]))
    ruled.trust()
    calls = [
        *bash("touch 1", "touch 2", "mytool once", "pytest a", "git tag v1", "git push", "tool_no"),
        ("Edit", {"file_path": str(ruled.project / "a.py"), "old_string": "a", "new_string": "b"}),
        ("Edit", {"file_path": "/elsewhere/a.py", "old_string": "a", "new_string": "b"}),
        ("mcp__shop__delete_order", {"id": 1}),
    ]
    session(ruled, ONE, calls, refused=(6,))
    assert 0 == run(ruled, "suggest", "--json")
    found = document(capsys)
    groups = [(one["saved_by"], one["calls"]) for one in found["groups"] if one["saved_by"] != "nothing"]
    reasons = {one["why"] for one in found["groups"] if one["saved_by"] == "nothing"}

    assert [("rules", 2), ("mode", 1), ("project code", 1), ("sandbox", 1)] == groups
    assert found["prompts"] == len(calls) == sum(one["calls"] for one in found["groups"])
    assert {
        "you refused it then",
        "your rule Bash(git tag *) asks",
        "a command that needs the network or services of the system",
        "an edit outside the working directories",
        "mcp__shop__delete_order may change something",
    } == reasons
    assert 0 == run(ruled, "suggest")
    shown = capsys.readouterr().out
    assert "      1  the mode acceptEdits" in shown
    assert "      5  nothing safe, because:" in shown


def test_suggested_rules_are_added_and_taken_back(ruled: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan writes nothing; afterwards nothing is suggested; the undo gives the exact bytes back."""
    session(ruled, ONE, bash("touch a", "touch b"))
    before = ruled.home.settings_file.read_bytes()
    assert 0 == run(ruled, "suggest")
    planned = capsys.readouterr().out
    assert before == ruled.home.settings_file.read_bytes()
    assert f"Would add 1 rule to permissions.allow in {ruled.home.settings_file}" in planned
    again = shlex.split(planned.splitlines()[-1].removeprefix("Nothing was changed. Do it with: "))
    assert 0 == main(again[1:])
    undo = shlex.split(capsys.readouterr().out.splitlines()[-1].removeprefix("Undo with: "))
    added = json.loads(ruled.home.settings_file.read_bytes())

    assert ["Bash(git add *)", "Bash(touch *)"] == added["permissions"]["allow"]
    assert 0 == run(ruled, "suggest", "--apply", "--json")
    found = document(capsys)
    assert ([], False, 0) == (found["suggestions"], found["applied"], found["prompts"])
    assert 0 == main(undo[1:])
    assert before == ruled.home.settings_file.read_bytes()


def test_rules_of_a_project_are_those_of_its_own_calls(
    ruled: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its local settings get them, and nothing of another project."""
    session(ruled, ONE, bash("touch a", "touch b"))
    other = ruled.root / "other"
    other.mkdir()
    session(ruled, ONE.replace("3f2a", "4f2a"), bash("mkdir a", "mkdir b"), cwd=other)
    assert 0 == run(ruled, "suggest", "-p", str(ruled.project), "--scope", "local", "--apply", "--json")
    found = document(capsys)
    local = ruled.project / ".claude" / "settings.local.json"

    assert (str(local), True) == (found["file"], found["applied"])
    assert ["Bash(touch *)"] == json.loads(local.read_text())["permissions"]["allow"]


def test_suggest_as_json(ruled: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """The list to paste, and the reasons."""
    session(ruled, ONE, bash("touch a", "touch b"))
    assert 0 == run(ruled, "suggest", "--json")
    found = document(capsys)

    assert (["Bash(touch *)"], 2, 2) == (
        [one["rule"] for one in found["suggestions"]],
        found["prompts"],
        found["saved"],
    )


@pytest.mark.parametrize("words", [["replay"], ["replay", "--json"], ["suggest", "--json"]])
def test_secrets_of_the_history_are_not_printed(
    ruled: Place, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """Examples come from transcripts, which hold keys."""
    token = "ghp_" + "x7Kq2Vb9Lm4Tz8Rw1Yp6Nc3Hd5Jf0Gs2Qa7U"
    session(ruled, ONE, bash(f"mytool --token {token}", f"mytool --token {token}"))
    assert 0 == run(ruled, *words)

    assert token not in capsys.readouterr().out


@pytest.mark.usefixtures("no_home")
def test_without_a_home_the_project_has_rules_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a machine where the client never ran: a deny of the project counts, and all else has no rule."""
    settings = tmp_path / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"permissions": {"deny": ["Bash(rm *)"]}}')
    words = ["--cwd", str(tmp_path), "--managed", str(NO_MANAGED), "--json"]
    verdicts = []
    for call in ("Bash(rm x)", "Bash(make)"):
        assert 1 == main(["rules", "check", call, *words])
        verdicts.append(document(capsys)["decision"])

    assert ["deny", "ask"] == verdicts


@pytest.mark.usefixtures("no_home")
def test_the_library_needs_no_home_either(tmp_path: Path) -> None:
    """An engine from settings that are not there asks."""
    assert Verdict.ASK is Engine.from_settings(tmp_path).check("Bash(make)").verdict


@pytest.fixture
def no_home(monkeypatch: pytest.MonkeyPatch, own_home: Path) -> None:
    """No home is named, and none of the usual places is there."""
    monkeypatch.delenv("CLAUDE_CONFIG_DIR")
    assert not (own_home / ".claude").exists()
