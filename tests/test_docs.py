"""Documents say what is true today."""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path

from recollect.cli.main import WORDS
from recollect.model.checks.rules import CODES
from tools import build_api_reference, build_check_reference, build_lake_reference
from tools.build_cli_reference import PAGE, reference

ROOT = Path(__file__).resolve().parents[1]


def test_the_cli_reference_is_what_help_says() -> None:
    """``make docs`` writes it; this fails when a help text changed without it."""
    assert reference() == PAGE.read_text(encoding="utf-8")


def test_the_reference_of_codes_is_what_the_table_says() -> None:
    """``make docs`` writes it; every code that a repair may mend says what the repair does."""
    assert build_check_reference.reference() == build_check_reference.PAGE.read_text(encoding="utf-8")
    assert build_check_reference.REPAIRS.keys() == {code for code, rule in CODES.items() if rule.is_mendable}


def test_the_reference_of_the_lake_is_what_its_schema_says() -> None:
    assert build_lake_reference.reference() == build_lake_reference.PAGE.read_text(encoding="utf-8")


def test_the_library_reference_is_what_docstrings_say() -> None:
    """``make docs`` writes it; every public name of every public module has its section."""
    page = build_api_reference.PAGE.read_text(encoding="utf-8")
    missing = [
        f"{module}.{name}"
        for module in build_api_reference.PUBLIC_MODULES
        for name in importlib.import_module(module).__all__
        if not name.startswith("__") and f"\n### {module}.{name}\n" not in page
    ]

    assert missing == []
    assert build_api_reference.reference() == page


def test_the_page_of_commands_lists_every_command() -> None:
    """Its table names each word and each group, and no other."""
    page = (ROOT / "docs/guides/commands.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (`recollect [^|]*) \|", page, re.MULTILINE)
    named = {name for cell in cells for name in re.findall(r"`recollect (\w+)", cell)}

    assert {word for word in WORDS if word != "completion"} == named


def test_agents_md_draws_every_room() -> None:
    """Each directory and public module of the package stands in its drawing; the page stays short."""
    text = (ROOT / "AGENTS.md").read_text(encoding="utf-8")
    drawing = text.split("```")[1]
    source = ROOT / "src" / "recollect"
    rooms = {f"{path.name}/" for path in source.iterdir() if (path / "__init__.py").is_file()}
    modules = {path.name for path in source.glob("[a-z]*.py")}

    assert set(re.findall(r"[a-z]+(?:/|\.py)", drawing)) == rooms | modules
    assert len(text.splitlines()) <= 60


def _is_there(module: str, name: str) -> bool:
    if hasattr(importlib.import_module(module), name):
        return True
    return importlib.util.find_spec(f"{module}.{name}") is not None


def test_imports_in_documents_work() -> None:
    """Every ``from recollect… import …`` of an example names something that is there."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    shown = {
        (module, name.strip())
        for page in pages
        for module, names in re.findall(
            r"^ *from (recollect[\w.]*) import ([\w, ]+)", page.read_text("utf-8"), re.MULTILINE
        )
        for name in names.split(",")
    }

    assert shown
    assert [(module, name) for module, name in shown if not _is_there(module, name)] == []


def test_the_glossary_has_the_words_of_the_model() -> None:
    """The values every reader meets are explained, under names that exist."""
    glossary = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([A-Z]\w+)`", glossary))
    defined = {
        name
        for path in (ROOT / "src").rglob("*.py")
        for name in re.findall(r"^(?:class )?([A-Z]\w+)(?:\(| = |:)", path.read_text("utf-8"), re.MULTILINE)
    }

    assert {
        "Line",
        "Entry",
        "Kind",
        "Body",
        "Dialect",
        "Damage",
        "PendingTail",
        "Notice",
        "Conversation",
    } <= named
    assert named - defined == set()


def test_every_test_that_the_threats_name_exists() -> None:
    """By file and name; each finding of the attacks names at least one, and their numbers have no gap."""
    page = (ROOT / "docs/design/threats.md").read_text(encoding="utf-8")
    section = page.partition("## What attacks found\n")[2].partition("\n## ")[0]
    rows = [row.split("|")[1:-1] for row in section.splitlines() if re.match(r"\| \d", row)]
    tests = [re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row[3]) for row in rows]
    missing = [
        f"{file}::{name}"
        for file, name in {one for named in tests for one in named}
        if not (ROOT / file).is_file()
        or not re.search(rf"^(?:async )?def {name}\(", (ROOT / file).read_text("utf-8"), re.MULTILINE)
    ]

    assert [] == missing
    assert [5] * len(rows) == [len(row) for row in rows]
    assert [str(number) for number in range(1, len(rows) + 1)] == [row[0].strip() for row in rows]
    assert all(tests)
    assert all(row[1].strip() and row[2].strip() and row[4].strip() for row in rows)
