"""The status line's own rules of places agree with those of every other command."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from recollect.ask.library import Home
from recollect.cli.statusline import index_place
from recollect.cli.terminal.homes import chosen_homes
from recollect.cli.terminal.options import CHOSEN
from recollect.errors import NotFound
from recollect.index.access import index_path, open_index
from recollect.index.schema import refreshed_at
from recollect.system import paths
from recollect.system.locations import cache_dir, config_file
from tests.small_home import ONE, TALK, put


def by_the_authority(named: list[str], data: str | None) -> tuple[list[str], str]:
    """Homes and index as ``recollect cost`` would find them."""
    roots = [home.root for home in Home(*[root.path for root in chosen_homes(named)]).homes]
    cache = cache_dir({**os.environ, "RECOLLECT_DATA": data} if data else None)
    return [str(root) for root in roots], str(index_path(roots, cache))


def leanly(named: list[str], data: str | None) -> tuple[list[str], str]:
    index, homes = index_place(named, data)
    # As Path objects: pathlib drops doubled and trailing separators.
    return [str(Path(home)) for home in homes], str(Path(index))


@pytest.fixture
def somewhere(tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with homes, a link to one, and a file; the usual homes exist too."""
    for name in ("a", "b", "a,b", "with space", "~"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    (tmp_path / "file").touch()
    for name in (".claude", "xdg-config/claude", ".config/claude", "named"):
        (own_home / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    CHOSEN.replace(None, ())  # a command that another test ran in this process may have chosen agents
    return tmp_path


ENVIRONMENTS: list[Mapping[str, str | None]] = [
    {},
    {"CLAUDE_CONFIG_DIR": None},
    {"CLAUDE_CONFIG_DIR": None, "XDG_CONFIG_HOME": None},
    {"CLAUDE_CONFIG_DIR": None, "XDG_CONFIG_HOME": "relative", "XDG_CACHE_HOME": "relative"},
    {"CLAUDE_CONFIG_DIR": "", "XDG_CACHE_HOME": None},
    {"CLAUDE_CONFIG_DIR": " , "},
    {"CLAUDE_CONFIG_DIR": "a,b"},
    {"CLAUDE_CONFIG_DIR": "a, b ,,link,missing"},
    {"CLAUDE_CONFIG_DIR": "b,a"},
    {"CLAUDE_CONFIG_DIR": "link"},
    {"CLAUDE_CONFIG_DIR": "~/named"},
    {"CLAUDE_CONFIG_DIR": "~/named,./a//"},
    {"CLAUDE_CONFIG_DIR": "./~/named"},
    {"CLAUDE_CONFIG_DIR": "file"},
    {"CLAUDE_CONFIG_DIR": "missing"},
    {"CLAUDE_CONFIG_DIR": "link/../a"},
    {"RECOLLECT_DATA": "own"},
    {"RECOLLECT_DATA": " ~/own "},
    {"RECOLLECT_DATA": "  "},
    {"HOME": "a", "CLAUDE_CONFIG_DIR": None},
]


@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=str)
def test_every_variable_is_read_as_elsewhere(
    somewhere: Path, monkeypatch: pytest.MonkeyPatch, environment: Mapping[str, str | None]
) -> None:
    """Homes, index and settings are those every other command would use."""
    for name, value in environment.items():
        if value is None:
            monkeypatch.delenv(name)
        else:
            monkeypatch.setenv(name, value)

    if any(name in (environment.get("CLAUDE_CONFIG_DIR") or "") for name in ("missing", "file")):
        with pytest.raises(NotFound):  # the status line goes on, with what is there
            chosen_homes([])
    else:
        assert by_the_authority([], None) == leanly([], None)
    assert config_file() == Path(paths.config_file(os.environ))


@pytest.mark.parametrize(
    ("named", "data"),
    [
        (["a"], None),
        (["b", "a"], None),
        (["link", "a"], None),
        (["a/"], "own"),
        (["~/named"], "~/own"),
        ([":sample"], None),
        (["with space", ":sample"], "with space"),
        ([], "own"),
        ([], " "),
    ],
)
def test_every_option_is_read_as_elsewhere(somewhere: Path, named: list[str], data: str | None) -> None:
    """``--home``, several times, and ``--data``."""
    assert by_the_authority(named, data) == leanly(named, data)


def test_every_refresh_moves_the_time_of_the_last_one_on(tmp_path: Path) -> None:
    """Also one that finds nothing new: it takes the lock, and taking it writes into it."""
    put(tmp_path / "home", ONE, TALK)
    with open_index([tmp_path / "home"], cache=tmp_path) as opened:
        index = str(opened.path)
    lock = next(tmp_path.glob("*.lock"))
    os.utime(lock, (1_000, 1_000))
    before = refreshed_at(index)

    with open_index([tmp_path / "home"], cache=tmp_path):
        pass

    assert 1_000 == before
    assert (refreshed_at(index) or 0) > 1_000


def test_an_index_that_is_not_there_was_never_refreshed(tmp_path: Path) -> None:
    """No lock, no time."""
    index = str(tmp_path / "index-v1-00000000.sqlite")

    assert (None, False) == (refreshed_at(index), Path(index).exists())


def test_a_running_client_does_not_make_its_home_that_of_another_agent(tmp_path: Path) -> None:
    """Its marker in sessions/ is named after its process, which may begin like a year."""
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions" / "28611.json").write_text("{}")
    assert "claude" == paths.agent_at(str(tmp_path))

    rollouts = tmp_path / "sessions" / "2026" / "11" / "16"
    rollouts.mkdir(parents=True)
    (rollouts / "rollout-2026-11-16T09-00-00-1.jsonl").touch()
    assert "codex" == paths.agent_at(str(tmp_path))


def test_directories_that_begin_like_a_year_make_no_home_of_codex(tmp_path: Path) -> None:
    """Kimi names them after a checksum."""
    session = tmp_path / "sessions" / "20bac98e" / "12ab" / "wire.jsonl"
    session.parent.mkdir(parents=True)
    session.touch()
    assert "kimi" == paths.agent_at(str(tmp_path))
