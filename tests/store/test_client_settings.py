"""`store.client_settings`: reading settings, and telling a person's file from a repository's."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from recollect.errors import StorageError
from recollect.store import client_settings


def test_missing_is_none(tmp_path: Path) -> None:
    """Also where a directory on the way is a file."""
    (tmp_path / "file").write_text("")

    assert [None, None] == [client_settings.content(tmp_path / name) for name in ("x", "file/x")]


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes with names")
def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    """Nobody waits for a writer that never comes."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StorageError):
        client_settings.content(tmp_path / "pipe")


def test_a_plain_local_file_is_its_owners(tmp_path: Path) -> None:
    """No repository, no link."""
    file = client_settings.local_file(tmp_path)
    file.parent.mkdir()
    file.write_text("{}")

    assert not client_settings.supplied_by_repository(file, tmp_path)


@pytest.mark.parametrize("linked", [".claude", ".claude/settings.local.json"])
def test_what_a_link_leads_to_may_be_the_repositorys(tmp_path: Path, linked: str) -> None:
    """The file itself or its directory (R22)."""
    project, other = tmp_path / "project", tmp_path / "other"
    (other / ".claude").mkdir(parents=True)
    (other / ".claude" / "settings.local.json").write_text("{}")
    (project / linked).parent.mkdir(parents=True, exist_ok=True)
    (project / linked).symlink_to(other / linked)

    assert client_settings.supplied_by_repository(client_settings.local_file(project), project)
