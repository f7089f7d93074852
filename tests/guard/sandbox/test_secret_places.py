"""A confined program reads no credential from the places where programs keep them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from recollect.errors import NotFound
from recollect.guard import sandbox as execution
from recollect.guard.sandbox import Confinement
from recollect.guard.sandbox.jail import COPIES, NAMED_BY, PLACES, SYSTEM
from recollect.guard.sandbox.launch import interpreter

DOCS = Path(__file__).parents[3] / "docs" / "reference" / "hidden-places.md"
NAMES = [name for group in PLACES.values() for name in group]
READ_ALL = """
import sys
for name in sys.argv[1:]:
    try:
        with open(name, "rb") as file:
            if b"canary" in file.read():
                print(name)
    except OSError:
        pass
"""


pytestmark = pytest.mark.bubblewrap


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a canary in every place: a file where it is one, else a file in the directory."""
    home = tmp_path / "home"
    moved = {name: tmp_path / "moved" / name for name in NAMED_BY}
    own = {"RECOLLECT_DATA": "ours", "CLAUDE_CONFIG_DIR": "clients", "XDG_CONFIG_HOME": "xdg"}
    for name in (*NAMES, ".claude.json.backup", ".claude.json.backup.1", ".netrc.old", ".pgpass~"):
        plant(home / name, as_file=len(name) % 2 == 0)
    for path in (*moved.values(), *(tmp_path / name / "token" for name in own.values())):
        plant(path, as_file=True)
    plant(tmp_path / "xdg" / "recollect" / "config.toml", as_file=True)
    plant(tmp_path / "xdg" / "gh", as_file=False)
    (tmp_path / "xdg" / "token").unlink()
    monkeypatch.setenv("HOME", str(home))
    for name, value in moved.items():
        monkeypatch.setenv(name, f"FILE:{value}" if name == "KRB5CCNAME" else str(value))
    for name, directory in own.items():
        monkeypatch.setenv(name, str(tmp_path / directory))
    (tmp_path / "project").mkdir()
    return home


def plant(place: Path, *, as_file: bool) -> None:
    """A canary at the place, or in it; what is there already stays a directory."""
    if place.is_dir() or not as_file:
        place.mkdir(parents=True, exist_ok=True)
        place /= "canary"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("canary")


def found(home: Path, *show: Path) -> list[str]:
    """The canaries that a confined program can read, although it knows where each one is."""
    planted = [str(path) for path in home.parent.rglob("*") if path.is_file()]
    result = execution.run(
        [interpreter(), "-I", "-S", "-c", READ_ALL, *planted],
        cwd=home.parent / "project",
        confinement=Confinement(write=(home.parent / "project",), show=show),
    )
    assert 0 == result.exit_code, result.stderr
    return sorted(os.path.relpath(line, home) for line in result.stdout.decode().splitlines())


def test_no_credential_is_readable(home: Path) -> None:
    """More than 200 places: below the home, named by variables, of clients, and our own."""
    planted = [path for path in home.parent.rglob("*") if path.is_file()]

    assert len(planted) > 200
    assert [] == found(home)


def test_one_place_can_be_shown(home: Path) -> None:
    """A whole place, or one file in it; the others stay hidden."""
    plant(home / ".kube" / "hosts.yml", as_file=True)
    plant(home / ".kube" / "other.yml", as_file=True)

    assert [".kube/hosts.yml"] == found(home, home / ".kube/hosts.yml")
    assert [".kube/hosts.yml", ".kube/other.yml"] == [
        name for name in found(home, home / ".kube") if name != ".kube/canary"
    ]
    with pytest.raises(NotFound, match="does not exist"):
        found(home, home / "no-such-place")


def test_a_link_to_a_credential_is_no_way_around(home: Path) -> None:
    """Dotfiles are often links into another directory: what they lead to is hidden."""
    (home / "dotfiles").mkdir()
    (home / ".s3cfg").rename(home / "dotfiles" / "token")
    (home / ".s3cfg").symlink_to("dotfiles/token")

    assert [] == found(home)


def test_the_list_in_the_docs_is_whole() -> None:
    text = DOCS.read_text()

    assert [] == [name for name in (*NAMES, *COPIES, *SYSTEM, *NAMED_BY) if f"`{name}`" not in text]
    assert len(NAMES) == len(set(NAMES))
