"""Documents: what is printed is what the types say, and what the types say is what the page's source has."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from msgspec import UNSET, Struct, UnsetType

from recollect.ask.blame.changes import NetChanges
from recollect.ask.conversation.documents import MessageDocument, TreeDocument
from recollect.ask.doctor.check import CheckReport
from recollect.ask.file_versions import (
    FilesDocument,
)
from recollect.ask.library import Home
from recollect.ask.list import SessionList
from recollect.ask.overview import OverviewDocument
from recollect.ask.report.work import WorkReport
from recollect.ask.resume import Resumption
from recollect.ask.search.hits import SearchDocument
from recollect.ask.sessions.messages import SessionAgents
from recollect.ask.todos import TodosDocument
from recollect.change.fork import ForkDocument
from recollect.change.keeping import CleanupDocument
from recollect.change.label import LabelDocument
from recollect.change.repair import SessionRepair
from recollect.cli.main import main
from recollect.model.cost.report import CostReport
from recollect.model.lines.json_text import encode_json
from recollect.sample import sample_home
from recollect.share.export.export import ExportDocument
from recollect.share.lake_export import LakeReport
from recollect.share.typed_http import answer_schemas
from tests.documents import require_fit

ROOT = Path(__file__).resolve().parents[2]
SESSIONS = sorted(one.id for one in Home(sample_home()).sessions())


def _printed(capfd: pytest.CaptureFixture[str], data: Path, *words: str) -> Any:
    home = data / "home"
    if not home.exists():
        shutil.copytree(sample_home(), home)
    capfd.readouterr()
    main(["--home", str(home), "--data", str(data / "data"), *words])
    return json.loads(capfd.readouterr().out)


# ---- what commands print ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (SessionList, "list"),
        (SessionList, "list --by repo"),
        (OverviewDocument, ""),
        (CheckReport, "doctor"),
        (SearchDocument, "search the"),
        (TodosDocument, "show --todos --all"),
        (CleanupDocument, "protect tidy --older-than 1d"),
        *(
            (CostReport, f"cost --by {key}")
            for key in ("day", "week", "month", "session", "project", "model", "branch", "agent", "tool")
        ),
        (CostReport, "cost --by block"),
        (CostReport, "cost --mode auto --explain"),
        (LakeReport, "data parquet"),
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
        (TreeDocument, "show S --tree"),
        (SessionAgents, "show S --sub-agents --warm-ups"),
        (FilesDocument, "files S"),
        (NetChanges, "diff S"),
        (WorkReport, "report"),
        (Resumption, "resume S --print"),
        (SessionRepair, "doctor S --fix"),
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


def test_text_that_has_no_encoding_is_escaped() -> None:
    """Half a surrogate pair, also beside JSON that passes through as it stands."""
    document = {"name": "\ud83d", "block": msgspec.Raw(b'{"type": "text"}')}
    assert json.loads(encode_json(document)) == {"name": "\ud83d", "block": {"type": "text"}}


# ---- the page's source -----------------------------------------------------------------------------------


@pytest.mark.skipif(
    not (ROOT / "web").is_dir(), reason="the page's source is not part of a source distribution"
)
def test_the_types_of_the_page_are_generated_from_the_documents() -> None:
    """web/src/lib/documents.ts is what tools/build_page_types.py writes."""
    command = [sys.executable, "tools/build_page_types.py", "--check"]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0
