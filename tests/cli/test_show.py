"""`recollect show`: a conversation as the client would load it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from recollect.cli.main import main
from tests.cli.session_logs import (
    OTHER,
    SESSION,
    SessionLog,
    branched,
    compacted,
    drives_a_terminal,
    hostile,
    talk,
    text,
)

TORN = "{torn"


def document(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    assert code == main(["show", "3f2a", "--json", *arguments])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """The ids of the messages shown."""
    return [message["uuid"] for message in document(capsys, *arguments)["messages"]]


def page(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert 0 == main(["show", "3f2a", *arguments])
    return capsys.readouterr().out


def test_text_names_speakers_calls_and_results(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By default a call and its result take one line each."""
    talk().write(own_home / ".claude")
    shown = page(capsys)

    assert "Why is it red?" in shown
    assert "  → Bash  make test\n" in shown
    assert "  ← error  E  assert 1 == 2  (+1 line)\n" in shown
    assert "Because 1 is not 2." in shown


@pytest.mark.parametrize(
    ("option", "has_call", "has_all_of_the_result"),
    [("none", False, False), ("short", True, False), ("full", True, True)],
)
def test_tools_are_shown_as_far_as_asked_for(
    own_home: Path,
    capsys: pytest.CaptureFixture[str],
    option: str,
    has_call: bool,
    has_all_of_the_result: bool,
) -> None:
    """None, a line each, or everything; prose is always there."""
    talk().write(own_home / ".claude")
    shown = page(capsys, "--tools", option)

    assert (True, has_call, has_all_of_the_result) == (
        "I look." in shown,
        "make test" in shown,
        "1 failed" in shown,
    )


@pytest.mark.parametrize(("arguments", "expected"), [([], False), (["--thinking"], True)])
def test_thinking_is_shown_when_asked_for(
    own_home: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: bool
) -> None:
    """What the model thought is left out by default."""
    thought = {"type": "thinking", "thinking": "Let me guess", "signature": "x"}
    SessionLog().prompt("u", "Hi").answer("a", thought, text("Yo")).write(own_home / ".claude")

    assert expected == ("Let me guess" in page(capsys, *arguments))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], ["u1", "a1", "r1", "a2"]),
        (["--offset", "1", "--limit", "2"], ["a1", "r1"]),
        (["--offset", "-1"], ["a2"]),
        (["--offset", "9"], []),
        (["--limit", "0"], []),
    ],
)
def test_offset_and_limit_count_messages(
    own_home: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: list[str]
) -> None:
    """A negative offset counts from the end; the total is that of all."""
    talk().write(own_home / ".claude")
    found = document(capsys, *arguments)

    assert (expected, 4) == ([message["uuid"] for message in found["messages"]], found["total"])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], ["u1", "a1", "u3", "a3"]),
        (["--branch", "a2"], ["u1", "a1", "u2", "a2"]),
        (["--all-branches"], ["u1", "a1", "u3", "a3", "u2", "a2"]),
        (["--all-branches", "--offset", "3", "--limit", "2"], ["a3", "u2"]),
    ],
)
def test_branches_can_be_chosen(
    own_home: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: list[str]
) -> None:
    """The active one, one by its leaf, or all: first the active one, then what the others have alone."""
    branched().write(own_home / ".claude")

    assert expected == said(capsys, *arguments)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], ["u1", "a1", "b1", "s1", "u2", "a2"]),
        (["--no-whole"], ["b1", "s1", "u2", "a2"]),
        (["--before-compaction", "1"], ["u1", "a1"]),
        (["--all-branches"], ["u1", "a1", "b1", "s1", "u2", "a2"]),
    ],
)
def test_what_a_compaction_hides_can_be_reached(
    own_home: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: list[str]
) -> None:
    """Whole, as the client sees it, and as it was before the cut."""
    compacted().write(own_home / ".claude")

    assert expected == said(capsys, *arguments)


def test_an_agent_has_a_conversation_of_its_own(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its lines are sidechains for the session and the conversation for itself."""
    log = talk().write(own_home / ".claude")
    agents = log.with_suffix("") / "subagents"
    agents.mkdir(parents=True)
    lines = SessionLog().prompt("k1", "Look", isSidechain=True).answer("k2", text("Seen"))
    sidechains = [{**json.loads(line), "isSidechain": True} for line in lines.lines]
    (agents / "agent-a17.jsonl").write_text("".join(json.dumps(line) + "\n" for line in sidechains))

    assert ["k1", "k2"] == said(capsys, "--sub-agent", "a1")


def test_the_api_list_is_roles_and_contents(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Session and messages, nothing else; a prompt, an answer with its call, its result, an answer."""
    talk().write(own_home / ".claude")
    found = document(capsys, "--api")

    assert {"session", "messages"} == set(found)
    assert ["user", "assistant", "user", "assistant"] == [one["role"] for one in found["messages"]]
    assert all({"role", "content"} == set(one) for one in found["messages"])


# --- damage ---------------------------------------------------------------------------------


def test_a_damaged_session_is_shown_as_far_as_it_goes(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The torn line costs itself; it is told on stderr, and that is no failure."""
    log = talk()
    log.lines.insert(1, TORN)
    log.write(own_home / ".claude")
    assert 0 == main(["show", "3f2a"])
    captured = capsys.readouterr()

    assert "Because 1 is not 2." in captured.out
    assert f"byte {len(log.lines[0]) + 1}: invalid-json" in captured.err


@pytest.mark.parametrize("arguments", [[], ["--json"], ["--api"]])
def test_strict_fails_on_damage(
    own_home: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """Exit 4, after everything that can be shown was shown."""
    talk().raw(TORN).write(own_home / ".claude")

    assert 4 == main(["show", "3f2a", "--strict", *arguments])
    assert "Because 1 is not 2." in capsys.readouterr().out


# --- not found ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (SessionLog(), "the log is empty"),
        (SessionLog().meta({"type": "tag", "tag": "x"}), "it has metadata but no conversation"),
        (SessionLog().prompt("k", "x", isSidechain=True), "it holds sub-agent lines only"),
        (SessionLog().prompt("u", "x", timestamp="never"), "readable time"),
    ],
)
@pytest.mark.parametrize("arguments", [[], ["--api"], ["--json"]])
def test_a_session_the_client_would_not_find_says_why(
    own_home: Path, capsys: pytest.CaptureFixture[str], log: SessionLog, reason: str, arguments: list[str]
) -> None:
    """Exit 3, the reason on stderr, and on stdout only a document that was asked for."""
    log.write(own_home / ".claude")

    assert 3 == main(["show", "3f2a", *arguments])
    captured = capsys.readouterr()
    assert ("--json" in arguments, True) == (captured.out != "", reason in captured.err)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nothing-like-it", "recollect list"),
        ("same title", f"\n  {OTHER[:8]}  "),
    ],
)
def test_unknown_and_ambiguous_names_end_with_3(
    own_home: Path, capsys: pytest.CaptureFixture[str], name: str, words: str
) -> None:
    """Candidates are shown, or where to find them."""
    for session in (OTHER, SESSION):
        title = {"type": "custom-title", "customTitle": "same title", "sessionId": session}
        SessionLog(session).prompt("u", "x").meta(title).write(own_home / ".claude")

    assert 3 == main(["show", name])
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [["--branch", "zz"], ["--sub-agent", "zz"], ["--before-compaction", "1"], ["--before-compaction", "0"]],
)
def test_parts_that_are_not_there_end_with_3(
    own_home: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """A branch, an agent, a compaction that the session does not have."""
    talk().write(own_home / ".claude")

    assert 3 == main(["show", "3f2a", *arguments])
    assert "" == capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "recollect show @last"),
        (["x", "--limit", "-1"], "--offset -20"),
        (["x", "--api", "--all-branches"], "--all-branches"),
        (["x", "--api", "--limit", "3"], "--limit"),
    ],
)
def test_wrong_use_shows_right_use(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    """Exit 2 with a line to paste or the option to leave out."""
    assert 2 == main(["show", *arguments])
    assert words in capsys.readouterr().err


# --- hostile text ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--whole", "--tools", "full", "--thinking"],
        ["--all-branches", "--tools", "full", "--thinking"],
        ["--before-compaction", "1", "--tools", "short"],
        ["--api", "--tools", "full"],
        ["--branch", "x3"],
    ],
)
def test_hostile_text_is_shown_not_sent(
    own_home: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """W4: one hundred payloads in every place, none reaches the terminal, on stdout or stderr."""
    hostile().write(own_home / ".claude")
    assert 0 == main(["show", "3f2a", *arguments])
    captured = capsys.readouterr()

    assert "\\x" in captured.out
    assert [] == drives_a_terminal(captured.out + captured.err)


def test_a_terminal_gets_colours_and_nothing_else(
    own_home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Markdown has escapes of its own; whatever they make, only colour sequences of ours get through."""
    hostile().write(own_home / ".claude")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert 0 == main(["show", "3f2a", "--whole", "--tools", "full", "--thinking", "--no-pager"])
    shown = capsys.readouterr().out

    assert "\x1b[" in shown
    assert [] == drives_a_terminal(re.sub(r"\x1b\[[0-9;]*m", "", shown))


@pytest.mark.parametrize(
    "words",
    [
        "a&#x202e;b",
        "a&#13;b",
        "a&#12;b",
        "a&#x200b;b",
        "[click](http://evil.example)",
        "<http://evil.example>",
    ],
)
def test_markdown_has_no_way_round(
    own_home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    """Entities and links are made after the text was made safe; nothing but colour comes of them."""
    SessionLog().prompt("u", "Hi").answer("a", text(words)).write(own_home / ".claude")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    shown = page(capsys, "--no-pager")

    assert [] == drives_a_terminal(re.sub(r"\x1b\[[0-9;]*m", "", shown))
    assert "\\x1b]" not in shown  # a link sequence of ours would show up as text here


def test_json_on_a_terminal_is_escaped_and_the_same(
    own_home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What JSON lets through and a terminal obeys is written as an escape there."""
    hostile().write(own_home / ".claude")
    piped = document(capsys, "--whole")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert 0 == main(["show", "3f2a", "--json", "--whole"])
    shown = capsys.readouterr().out

    assert [] == drives_a_terminal(shown)
    assert piped == json.loads(shown)


def test_raw_text_goes_to_a_pipe_only(
    own_home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it stands in the log into a pipe; to a terminal it is a usage error."""
    SessionLog().prompt("u", "red \x1b[31m").write(own_home / ".claude")
    piped = page(capsys, "--raw")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    assert "red \x1b[31m" in piped
    assert 2 == main(["show", "3f2a", "--raw"])


# --- what the client wrote ------------------------------------------------------------------


def test_a_command_reads_as_it_was_typed_and_the_clients_words_are_the_clients(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As on the page and in exports; ``--raw`` keeps the tags, ``--tools full`` every line."""
    command = "<command-name>/review</command-name><command-message>review</command-message><command-args>a.py</command-args>"
    log = SessionLog().prompt("u1", command)
    log.prompt("u2", "<local-command-stdout>one\ntwo</local-command-stdout>")
    log.prompt("u3", "<bash-input>make</bash-input>")
    log.prompt("u4", "Go on<system-reminder>be kind</system-reminder>").write(own_home / ".claude")

    shown = [line for line in page(capsys).splitlines()[2:] if line]
    assert [line.partition("  2026")[0] for line in shown] == [
        *("You", "/review a.py", "Client", "  ← output  one  (+1 line)"),
        *("You", "! make", "You", "Go on", "  ← reminder  be kind"),
    ]
    assert ["one", "two"] == [
        line.strip()
        for line in page(capsys, "--tools", "full").splitlines()
        if line.strip() in ("one", "two")
    ]
    assert command in page(capsys, "--raw")
    assert 0 == main(["show", "3f2a", "--tree"])
    assert ["You: /review a.py", "Client: one two", "You: ! make"] == [
        line.split("  ")[3] for line in capsys.readouterr().out.replace("\\n", " ").splitlines()[1:4]
    ]


# --- size -----------------------------------------------------------------------------------


def test_a_pager_is_fed_on_a_terminal(
    own_home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """$PAGER gets the text on its stdin; stdout stays free."""
    talk().write(own_home / ".claude")
    target = tmp_path / "paged"
    monkeypatch.setenv("PAGER", f"tee {target}")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    shown = page(capsys)

    assert ("", True) == (shown, "Because 1 is not 2." in target.read_text())


def test_a_user_who_quits_the_pager_has_seen_enough(
    own_home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pager that ends early is no error."""
    log = SessionLog()
    for number in range(300):
        log.prompt(f"u{number}", "x" * 1000)
    log.write(own_home / ".claude")
    monkeypatch.setenv("PAGER", "true")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    assert 0 == main(["show", "3f2a", "--offset", "0"])
    assert "" == capsys.readouterr().err


def test_a_tail_without_its_newline_is_mentioned(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is no damage and not an error, but the reader is told that something is not shown."""
    import shutil

    from recollect.sample import sample_home

    home = own_home / "copy"
    shutil.copytree(sample_home(), home)
    with next(home.rglob("6ada*.jsonl")).open("ab") as log:
        log.write(b'{"type":"user"')

    assert 0 == main(["--home", str(home), "show", "6ada", "--strict"])
    assert "14 bytes at the end are half a line" in capsys.readouterr().err


def test_a_terminal_shows_the_end_of_a_long_session_and_how_to_read_on(
    own_home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe gets all of it; the commands that are printed reach what is before and after."""
    log = SessionLog()
    for number in range(60):
        log.prompt(f"k{number}", f"Question {number}.")
    log.write(own_home / ".claude")

    assert 0 == main(["show", "3f2a"])
    assert 60 == capsys.readouterr().out.count("\nQuestion ")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert 0 == main(["show", "3f2a", "--no-pager"])
    shown = capsys.readouterr()
    assert (20, True) == (shown.out.count("\nQuestion "), "Question 59." in shown.out)
    assert "messages 41 to 60 of 60" in shown.err
    before = next(line for line in shown.err.splitlines() if "before: " in line)
    assert 0 == main([*before.partition("recollect ")[2].split(), "--no-pager"])
    shown = capsys.readouterr()
    assert (20, True) == (shown.out.count("\nQuestion "), "Question 20." in shown.out)
    assert "after: recollect show 3f2a9c1e --offset 40 -n 20" in shown.err
