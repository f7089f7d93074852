"""Documents: what is printed is what the types say, and what the types say is what the page's source has."""

from __future__ import annotations

import importlib
import json
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from msgspec import UNSET, Struct, UnsetType

from recollect.cli.main import main
from recollect.sample import sample_home
from recollect.services import documents
from recollect.services.check.check import CheckReport
from recollect.services.documents.changes.keeping import CleanupDocument
from recollect.services.documents.changes.labels import ForkDocument, LabelDocument
from recollect.services.documents.conversation import MessageDocument, TreeDocument
from recollect.services.documents.cost.report import CostDocument
from recollect.services.documents.encoding import encoded
from recollect.services.documents.export import ExportDocument
from recollect.services.documents.findings import CheckRulesDocument, RepairDocument
from recollect.services.documents.lake import LakeDocument
from recollect.services.documents.overview import OverviewDocument
from recollect.services.documents.parts import (
    FilesDocument,
    ListedAgentsDocument,
    ResumeDocument,
    TodosDocument,
)
from recollect.services.documents.schema import answer_schemas, schemas
from recollect.services.documents.search import SearchDocument
from recollect.services.documents.sessions import ListDocument
from recollect.services.homes import Home
from tests.documents import require_fit

ROOT = Path(__file__).resolve().parents[3]
SESSIONS = sorted(one.id for one in Home(sample_home()).sessions())


def _printed(capfd: pytest.CaptureFixture[str], data: Path, *words: str) -> Any:
    capfd.readouterr()
    main(["--home", str(sample_home()), "--data", str(data), *words])
    return json.loads(capfd.readouterr().out)


# ---- what commands print ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (ListDocument, "list"),
        (ListDocument, "list --by repo"),
        (OverviewDocument, "overview"),
        (CheckReport, "check"),
        (CheckRulesDocument, "check --codes"),
        (SearchDocument, "search the"),
        (TodosDocument, "todos --all"),
        (CleanupDocument, "cleanup --days 1"),
        *(
            (CostDocument, f"cost --by {key}")
            for key in ("day", "week", "month", "session", "project", "model", "branch", "agent", "tool")
        ),
        (CostDocument, "cost --by block"),
        (CostDocument, "cost --mode auto --explain"),
        (LakeDocument, "export --format parquet"),
    ],
    ids=str,
)
def test_a_command_prints_what_its_type_says(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, kind: Any, words: str
) -> None:
    """To the last member: none is missing, none is unknown."""
    require_fit(kind, _printed(capfd, tmp_path, *words.split(), "--json"))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (TreeDocument, "tree S"),
        (ListedAgentsDocument, "agents S --warm-ups"),
        (FilesDocument, "files S"),
        (FilesDocument, "files S --diff"),
        (ResumeDocument, "resume S --print"),
        (RepairDocument, "repair S"),
        (ForkDocument, "fork S"),
        (LabelDocument, "rename S title"),
        (LabelDocument, "tag S tag"),
        (ExportDocument, "export S --format json --output OUT"),
        (ExportDocument, "export S --format html --output OUT"),
    ],
    ids=str,
)
def test_a_command_about_a_session_prints_what_its_type_says(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, kind: Any, words: str
) -> None:
    """For every session of the sample that has a conversation."""
    for number, name in enumerate(SESSIONS):
        places = {"S": name, "OUT": str(tmp_path / f"{number}")}
        require_fit(
            kind, _printed(capfd, tmp_path, *(places.get(word, word) for word in words.split()), "--json")
        )


def test_every_message_of_show_is_a_message_document(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The document is written in pieces; its messages are of the type all the same."""
    messages = [
        one for name in SESSIONS for one in _printed(capfd, tmp_path, "show", name, "--json")["messages"]
    ]
    for one in messages:
        require_fit(MessageDocument, one)
    assert len(messages) >= 15


# ---- schemas ---------------------------------------------------------------------------------------------


class _Inner(Struct):
    path: Path


class _Sample(Struct):
    needed: int
    usual: list[_Inner] = []
    rare: int | UnsetType = UNSET


@pytest.mark.parametrize(
    ("document", "is_good"),
    [
        ({"needed": 1, "usual": []}, True),
        ({"needed": 1, "usual": [{"path": "/"}], "rare": 2}, True),
        ({"needed": 1}, False),
        ({"usual": []}, False),
        ({"needed": 1, "usual": [], "more": 1}, False),
        ({"needed": 1, "usual": [{"path": "/", "more": 1}]}, False),
        ({"needed": 1, "usual": [{"path": 1}]}, False),
    ],
)
def test_an_answer_has_every_member_and_no_other(document: dict[str, Any], is_good: bool) -> None:
    """A member with a default is written too; only one that may be unset can be missing."""
    (schema,), named = answer_schemas([_Sample])
    validator = jsonschema_rs.Draft202012Validator({**schema, "components": {"schemas": named}})
    assert validator.is_valid(document) == is_good


def test_what_is_also_read_may_leave_out_what_has_a_default() -> None:
    """The server's types describe requests as well."""
    _, named = schemas([_Sample])
    assert named["_Sample"]["required"] == ["needed"]


def test_documents_are_frozen_and_named_alike() -> None:
    """Each class of the package is a frozen struct called ...Document, with a sentence for the description."""
    modules = [
        importlib.import_module(one.name)
        for one in pkgutil.walk_packages(documents.__path__, f"{documents.__name__}.")
    ]
    found = [
        one
        for module in modules
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, Struct) and one.__module__ == module.__name__
    ]
    assert len(found) > 150
    for one in found:
        assert one.__struct_config__.frozen, one
        assert one.__name__.endswith("Document"), one
        assert one.__doc__, one


def test_text_that_has_no_encoding_is_escaped() -> None:
    """Half a surrogate pair, also beside JSON that passes through as it stands."""
    document = {"name": "\ud83d", "block": msgspec.Raw(b'{"type": "text"}')}
    assert json.loads(encoded(document)) == {"name": "\ud83d", "block": {"type": "text"}}


# ---- the page's source -----------------------------------------------------------------------------------


@pytest.mark.skipif(
    not (ROOT / "web").is_dir(), reason="the page's source is not part of a source distribution"
)
def test_the_types_of_the_page_are_generated_from_the_documents() -> None:
    """web/src/lib/documents.ts is what tools/build_page_types.py writes."""
    command = [sys.executable, "tools/build_page_types.py", "--check"]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def test_a_command_that_changes_something_loads_its_own_documents_only() -> None:
    """Those of all changes in one file made every one of these commands load migrations, fixes, archive and homes."""
    code = "import sys, recollect.cli.keep.undo; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    others = ("recollect.services.fix", "recollect.storage.migrations", "recollect.services.homes")

    assert [] == [name for name in done.stdout.split() if name.startswith(others)]
