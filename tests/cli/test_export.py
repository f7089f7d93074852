"""`recollect export`: a session in another form."""

from __future__ import annotations

import json
import re
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.cli.main import main
from recollect.cli.terminal.conversation_view import fenced, prose
from recollect.model.secrets.redaction import fingerprint
from recollect.store.own_settings import fingerprint_key
from recollect.system.locations import data_dir
from tests.cli.session_logs import (
    SESSION,
    SessionLog,
    call,
    compacted,
    drives_a_terminal,
    hostile,
    talk,
    text,
)
from tests.model.secrets.samples import SAMPLES, Dice


def exported(capfdbinary: pytest.CaptureFixture[bytes], *arguments: str) -> bytes:
    assert 0 == main(["export", "3f2a", *arguments])
    return capfdbinary.readouterr().out


def rendered(markdown: str) -> list[tuple[str, str]]:
    """What a Markdown program makes of it: the blocks, (kind, text), by markdown-it with HTML on."""
    from markdown_it import MarkdownIt

    return [
        (f"{token.type} {token.tag}".strip(), token.content)
        for token in MarkdownIt("commonmark").parse(markdown)
        if not token.type.endswith("_close")
    ]


def test_markdown_is_for_reading(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A heading a speaker, prose as it is, calls and results in fences."""
    talk().write(own_home / ".claude")
    assert 0 == main(["export", "3f2a"])
    shown = capsys.readouterr().out

    assert shown.startswith("# Why is it red?\n\nSession `3f2a9c1e-")
    assert re.search(r"^## You \(2026-", shown, re.MULTILINE)
    assert "*Call*: `Bash`\n\n```\ncommand: make test\n```\n" in shown
    assert "*Result*: `error`\n\n```\nE  assert 1 == 2\n1 failed\n```\n" in shown


@pytest.mark.parametrize("inside", ["```\nx\n```", "````", "`" * 50, "~~~", "no fence", "a\n  ```"])
def test_a_fence_cannot_be_broken_out_of(inside: str) -> None:
    """Whatever the text holds, a Markdown program sees one block of code and a heading."""
    assert [("fence code", inside + "\n"), ("heading_open h2", ""), ("inline", "Next")] == rendered(
        fenced(inside) + "\n\n## Next"
    )


@pytest.mark.parametrize(
    "attack",
    [
        "```\nnever closed",
        "~~~\nnever closed",
        "~~~ a`b\nnever closed",
        "~~~ ~~~\nnever closed",
        "`````python\nx\n```\nnever closed",
        "- item\n\n      ```\n  never closed",
        "> ~~~\nlazy",
        "- ~~~\nout",
        "<!-- never closed",
        "<script>never closed",
        "<pre>\n\nnever closed",
        "<div>",
        "a ` b\n`<img src=x>`",
        "\\`<script>`",
        "\\<script>",
        "`` ` <b>x</b> ``<i>",
        "<?php",
        "<![CDATA[",
        "- > <table>",
        "    <script>",
        "text\n<script>",
    ],
)
def test_prose_cannot_swallow_what_follows(attack: str) -> None:
    """The next heading is a heading, and nothing is HTML."""
    blocks = rendered(prose(attack) + "\n\n## Next")

    assert [("heading_open h2", ""), ("inline", "Next")] == blocks[-2:]
    assert [] == [kind for kind, _ in blocks if "html" in kind]
    assert set() == _inline_kinds(prose(attack)) & {"html_inline", "image"}


def _inline_kinds(markdown: str) -> set[str]:
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark").parse(markdown)
    return {child.type for token in tokens for child in token.children or ()}


@pytest.mark.parametrize(
    "attack", ["# You", "## You (2026)", "You\n---", "You\n===", "> ## You", "- ## You", "> You\n> ---"]
)
def test_prose_cannot_pose_as_a_speaker(attack: str) -> None:
    """Headings of a transcript are below ours."""
    kinds = {kind for kind, _ in rendered(prose(attack))}

    assert set() == kinds & {"heading_open h1", "heading_open h2"}


_PIECES = """` `` ``` ~~~ ~~~~ > - 1. # ## --- === a < <b> <!-- --> <script> </script> ![ ](x) [r]: \\ \\` ! * | = + -"""


@given(
    st.lists(st.sampled_from([*_PIECES.split(" "), " ", "    ", "\n", "\n\n", "\t", "> ", "- "]), max_size=14)
)
def test_no_mixture_of_marks_breaks_out(pieces: list[str]) -> None:
    """Whatever prose is made of: the next heading is the only one of ours, nothing is HTML or a picture."""
    markdown = prose("".join(pieces)) + "\n\n## Next"
    blocks = rendered(markdown)

    assert [("heading_open h2", ""), ("inline", "Next")] == blocks[-2:]
    assert 1 == sum(kind in ("heading_open h1", "heading_open h2") for kind, _ in blocks)
    assert [] == [kind for kind, _ in blocks if "html" in kind]
    assert set() == _inline_kinds(markdown) & {"html_inline", "image"}


@pytest.mark.parametrize("attack", ["![x](http://evil.example/b.png)", "![x][r]\n\n[r]: http://evil.example"])
def test_pictures_become_text(attack: str) -> None:
    """A remote picture tells its server that somebody reads."""
    assert "image" not in _inline_kinds(prose(attack))


@pytest.mark.parametrize(
    "kept",
    [
        "Plain *words* and `List<int>` and [a link](http://x.example).",
        "1. one\n2. two\n\n| a | b |\n|---|---|\n| 1 | 2 |",
        "```python\nif a < b:\n    pass\n```",
        "a < b and `code`",
    ],
)
def test_harmless_prose_stays_as_it_is(kept: str) -> None:
    """Code spans, lists, tables, fences and comparisons are not touched."""
    assert kept == prose(kept)


def test_json_is_the_document_of_show(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Byte for byte."""
    compacted().raw("{torn").write(own_home / ".claude")
    assert 0 == main(["show", "3f2a", "--json", "--whole"])
    shown = capsys.readouterr().out
    assert 0 == main(["export", "3f2a", "--format", "json", "--whole"])

    assert shown == capsys.readouterr().out


def test_jsonl_is_the_log(own_home: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Every byte, those of damaged lines too."""
    path = talk().raw("{torn \x1b[31m \x00").write(own_home / ".claude")

    assert path.read_bytes() == exported(capfdbinary, "--format", "jsonl")


def test_flat_tells_what_did_not_come_along(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lines on stdout, losses on stderr."""
    talk().write(own_home / ".claude")
    assert 0 == main(["export", "3f2a", "--format", "flat"])
    captured = capsys.readouterr()
    lines = [json.loads(line) for line in captured.out.split("\n")[:-1]]

    assert ["user", "assistant", "tool_call", "tool_result", "assistant"] == [line["type"] for line in lines]
    assert "not exported: which entry it follows (parents)" in captured.err


@pytest.mark.parametrize("form", ["md", "json", "jsonl", "flat"])
def test_a_file_is_the_same_as_stdout(
    own_home: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, form: str
) -> None:
    """And for its owner only; where it is, is told on stderr."""
    talk().write(own_home / ".claude")
    target = tmp_path / "out"
    assert 0 == main(["export", "3f2a", "--format", form])
    shown = capsys.readouterr().out
    assert 0 == main(["export", "3f2a", "--format", form, "--output", str(target)])
    captured = capsys.readouterr()

    assert (shown, 0o600) == (target.read_text(), stat.S_IMODE(target.stat().st_mode))
    assert ("", True) == (captured.out, str(target) in captured.err)


def test_json_reports_on_the_file(own_home: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """What was written where, and what was lost."""
    talk().write(own_home / ".claude")
    target = tmp_path / "out"
    assert 0 == main(["export", "3f2a", "--format", "flat", "--output", str(target), "--json"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)

    assert (SESSION, "flat", str(target), target.stat().st_size) == (
        found["session"],
        found["format"],
        found["output"],
        found["bytes"],
    )
    assert {"code", "what", "offset", "count"} == set(found["losses"][0])


@pytest.mark.parametrize("arguments", [["--whole", "--thinking"], ["--tools", "short"], ["--format", "flat"]])
def test_hostile_text_is_shown_not_sent(
    own_home: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """W4: no control character but tab and newline, in Markdown and in lines of JSON."""
    hostile().write(own_home / ".claude")
    assert 0 == main(["export", "3f2a", *arguments])
    captured = capsys.readouterr()

    assert [] == [one for one in captured.out + captured.err if one < " " and one not in "\t\n"]
    if "flat" not in arguments:
        assert [] == drives_a_terminal(captured.out + captured.err)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "recollect export @last"),
        (["3f2a", "--json"], 2, "--output FILE"),
        (["3f2a", "--output", "/"], 2, "is a directory"),
        (["nothing-like-it"], 3, "recollect list"),
    ],
)
def test_wrong_use_says_what_to_do(
    own_home: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, words: str
) -> None:
    """Usage 2, not found 3; on stdout only a document that was asked for."""
    talk().write(own_home / ".claude")

    assert code == main(["export", *arguments])
    captured = capsys.readouterr()
    assert ("--json" in arguments, True) == (captured.out != "", words in captured.err)


def test_a_file_that_is_there_needs_force(
    own_home: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Refused with the way out; with it, replaced."""
    path = talk().write(own_home / ".claude")
    target = tmp_path / "out"
    target.write_text("mine")
    wanted = ["export", "3f2a", "--format", "jsonl", "--output", str(target)]

    assert (2, "mine") == (main(wanted), target.read_text())
    assert "--force" in capsys.readouterr().err
    assert (0, path.read_bytes()) == (main([*wanted, "--force"]), target.read_bytes())


@pytest.mark.parametrize("form", ["jsonl", "flat"])
def test_lines_of_a_log_do_not_go_to_a_terminal(
    own_home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """They are not made safe, so they go to a file or a pipe."""
    talk().write(own_home / ".claude")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    assert 2 == main(["export", "3f2a", "--format", form])
    assert "" == capsys.readouterr().out


def test_a_session_without_a_conversation_is_not_found(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 3 with the reason; its bytes can be had all the same."""
    SessionLog().meta({"type": "tag", "tag": "x"}).write(own_home / ".claude")

    assert (3, 0) == (main(["export", "3f2a"]), main(["export", "3f2a", "--format", "jsonl"]))
    assert "it has metadata but no conversation" in capsys.readouterr().err


# ---- secrets ---------------------------------------------------------------------------------------------

TOKEN = SAMPLES["github-pat"].make(Dice("export"))


def secret_talk() -> SessionLog:
    """A token in a prompt, a call, a result and an answer."""
    return (
        SessionLog()
        .prompt("u1", f"Use {TOKEN}")
        .answer("a1", text("I do."), call("Bash", "c1", command=f"login {TOKEN}"))
        .result("r1", "c1", f"logged in with\n{TOKEN}")
        .answer("a2", text("Done."))
    )


def token_mark() -> str:
    return f"[redacted:github-pat:{fingerprint(TOKEN, fingerprint_key(data_dir()))}]"


@pytest.mark.parametrize("form", ["md", "json", "jsonl", "flat"])
def test_secrets_are_replaced_unless_asked_for(
    own_home: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    """In every form; how many is said on stderr. With --no-redact nothing is, and nothing is said."""
    secret_talk().write(own_home / ".claude")
    assert 0 == main(["export", "3f2a", "--format", form])
    safe = capsys.readouterr()
    assert 0 == main(["export", "3f2a", "--format", form, "--no-redact"])
    plain = capsys.readouterr()

    assert (False, True) == (TOKEN in safe.out, token_mark() in safe.out)
    assert re.search(r"replaced 1 secret in \d+ places?; --no-redact keeps them", safe.err)
    assert (True, False) == (TOKEN in plain.out, "replaced" in plain.err)
    assert safe.out.replace(token_mark(), TOKEN) == plain.out


def test_a_damaged_line_with_a_secret_is_not_quoted(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Findings tell where it is and what is wrong, not how it begins."""
    secret_talk().raw(f"{TOKEN} is no JSON").raw("{torn").write(own_home / ".claude")
    assert 0 == main(["export", "3f2a", "--format", "json"])
    captured = capsys.readouterr()

    assert TOKEN[:20] not in captured.out + captured.err
    assert "{torn" in captured.err
