"""A Claude home with settings, trust and a project, for tests of settings and permissions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recollect.store.home import ClaudeHome

NO_MANAGED = Path("/nonexistent/managed-settings.json")


class Place:
    """A home, a project beside it, and short ways to write their files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = ClaudeHome(root / ".claude", root / ".claude.json")
        self.project = root / "shop"
        self.home.root.mkdir()
        self.project.mkdir()

    def write(self, path: Path, document: Any) -> Path:
        """A JSON file, indented by two as people and clients write it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(document if isinstance(document, str) else json.dumps(document, indent=2) + "\n")
        return path

    def user(self, document: Any) -> Path:
        return self.write(self.home.root / "settings.json", document)

    def shared(self, document: Any) -> Path:
        return self.write(self.project / ".claude" / "settings.json", document)

    def local(self, document: Any) -> Path:
        return self.write(self.project / ".claude" / "settings.local.json", document)

    def trust(self, **more: Any) -> None:
        """What .claude.json says of the project."""
        entry = {"hasTrustDialogAccepted": True, **more}
        self.write(self.root / ".claude.json", {"projects": {str(self.project): entry}})

    @property
    def options(self) -> list[str]:
        """Global options of the command line for this home."""
        return ["--home", str(self.home.root), "--data", str(self.root / "own")]


def rules(**lists: list[str]) -> dict[str, Any]:
    """Settings that hold only rules."""
    return {"permissions": lists}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A fresh home and project."""
    return Place(tmp_path.resolve())
