"""The words of the project: help texts fit a terminal, and quaint words stay out of source and docs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from recollect.cli.main import COMMANDS, command_parser, help_text

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = 80

SENTENCES = (
    "what money is",
    "let go of what is kept of one",
    "it holds lines that are no messages only",
    "damaged lines are told on stderr",
    "parts two directories that share one folder",
    "at most so many",
    "nothing of it is trusted",
    "the same rooms, awaited",
)
WORDS = (
    "whoever",
    "whomever",
    "nobody",
    "somebody",
    "anybody",
    "everybody",
    "anew",
    "nought",
    "thereof",
    "therein",
    "hitherto",
    "lest",
    "kin",
    "of its own accord",
)
_QUAINT = re.compile(rf"\b(?:{'|'.join(WORDS)})\b", re.IGNORECASE)


def _texts() -> list[Path]:
    found = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/**/*.py")]
    found += [path for end in ("svelte", "ts", "css") for path in ROOT.glob(f"web/src/**/*.{end}")]
    return [path for path in found if path.is_file()]


def _quaint_lines(path: Path) -> list[str]:
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    return [f"{path.relative_to(ROOT)}:{number}: {line}" for number, line in lines if _QUAINT.search(line)]


@pytest.mark.parametrize("command", [None, *COMMANDS])
def test_help_fits_eighty_columns(command: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Usage, description and options of every command, rendered for a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", str(COLUMNS))

    text = help_text() if command is None else command_parser(command).format_help()

    assert [] == [line for line in text.splitlines() if len(line) > COLUMNS]


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_riddle_is_gone_for_good(sentence: str) -> None:
    """Sentences that readers stumbled over occur nowhere, also not broken over lines."""
    pages = {path: " ".join(path.read_text(encoding="utf-8").lower().split()) for path in _texts()}

    assert [] == [str(path) for path, text in pages.items() if sentence in text]


def test_quaint_words_stay_out() -> None:
    """Source, docs and README use ordinary words: anyone, no one, again."""
    assert [] == [line for path in _texts() for line in _quaint_lines(path)]
