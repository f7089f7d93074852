"""What the README shows is what happens: its commands and its program are run."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from recollect.cli.main import COMMANDS, command_parser, main
from recollect.sample import sample_home

ROOT = Path(__file__).resolve().parents[1]
README, COMMANDS_PAGE, LIBRARY_PAGE = (
    (ROOT / name).read_text(encoding="utf-8")
    for name in ("README.md", "docs/guides/commands.md", "docs/guides/library.md")
)
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def examples() -> list[tuple[str, str]]:
    """Commands of the README and what it shows for them."""
    shown = "".join(body for kind, body in _FENCE.findall(README) if not kind and body.startswith("$ "))
    return [
        (command, output)
        for command, output in re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", shown, re.MULTILINE)
    ]


def timeless(text: str) -> list[str]:
    """The lines without what depends on the day or on where the package lies."""
    text = re.sub(r" +\d+ \w+ ago", " AGE", text)
    text = re.sub(r"^(Cost|Expiry) .*", r"\1", text, flags=re.MULTILINE)
    text = re.sub(r"^(Home +)\S*(/recollect/sample/home)", r"\1…\2", text, flags=re.MULTILINE)
    return [
        line.rstrip()
        for line in text.splitlines()
        if line.strip() and not line.startswith("First damaged log")
    ]


@pytest.mark.parametrize(("command", "shown"), examples(), ids=[command for command, _ in examples()])
def test_a_command_of_the_readme_prints_what_it_shows(
    command: str,
    shown: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Word for word, but for ages and amounts that depend on the day."""
    monkeypatch.chdir(tmp_path)
    program, *arguments = shlex.split(command)
    assert program == "recollect"

    main(arguments)

    assert timeless(capsys.readouterr().out) == timeless(shown)


def test_there_are_examples() -> None:
    """The reader of the README sees them all."""
    assert len(examples()) == README.count("\n$ recollect")
    assert len(examples()) >= 3


@pytest.mark.parametrize("page", [README, LIBRARY_PAGE], ids=["README", "library"])
def test_the_first_program_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a copy of the sample home, with sessions that are there."""
    shutil.copytree(sample_home(), tmp_path / "home")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    program = next(body for kind, body in _FENCE.findall(page) if kind == "python")
    printed: list[tuple[object, ...]] = []

    exec(program, {"print": lambda *values: printed.append(values)})

    if page == README:
        assert {str(title) for title, _ in printed} >= {"Basket totals off by a cent"}
        assert len(printed) == 3
    else:
        assert ("user", "The basket total is a cent off for some orders. Can you find out why?") in printed
        assert [len(values) for values in printed[-2:]] == [1, 1]  # the two entries that were appended


def test_the_commands_without_a_document_are_named() -> None:
    """All others take ``--json``."""
    (named,) = re.findall(r"All commands but (.*?) take `--json`", COMMANDS_PAGE)
    without = [name for name in COMMANDS if "--json" not in command_parser(name).format_help()]

    assert sorted(without) == sorted(re.findall(r"`([\w ]+)`", named))


def test_the_readme_is_short() -> None:
    """A newcomer reads all of it."""
    assert 350 <= len(README.split()) <= 450
