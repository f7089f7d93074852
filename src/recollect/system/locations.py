"""Where things are on this machine, as ``Path`` objects; ``system.paths`` has the rules.

Every function takes the environment as a mapping (``os.environ`` by default), so ``--data DIR`` is
``{**os.environ, "RECOLLECT_DATA": DIR}``. Nothing is created here; the first writer creates the
directory, with mode 0700.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from recollect.system import paths


class HomeRoot(msgspec.Struct, frozen=True):
    """One Claude home: its directory, its global config file, and what named it.

    A named home that is missing is still listed, with ``exists`` false: a misspelt variable must not
    look like an empty machine.
    """

    path: Path
    config_file: Path
    origin: str
    exists: bool


def claude_homes(environ: Mapping[str, str] | None = None) -> list[HomeRoot]:
    """The homes of this user: those that ``$CLAUDE_CONFIG_DIR`` names, else the usual ones that exist.

    Several may be named, separated by commas. Two names of one directory are one home.
    """
    env = _environment(environ)
    named = [Path(path) for path in paths.named_homes(env)]
    if named:
        return _distinct(_root(path, path / ".claude.json", "$CLAUDE_CONFIG_DIR") for path in named)
    config = Path(paths.user_home(env)) / ".claude.json"
    usual = paths.usual_homes(env)
    roots = (_root(Path(path), config, origin) for path, origin in usual.items())
    return _distinct(root for root in roots if root.exists)


def home_at(directory: str | Path, environ: Mapping[str, str] | None = None) -> HomeRoot:
    """The home of ``--home``; its config file is inside, or beside it as ``.claude.json``."""
    path = Path(paths.absolute(str(directory), _environment(environ)))
    inside, beside = path / ".claude.json", path.parent / ".claude.json"
    is_beside = path.name == ".claude" and beside.is_file() and not inside.is_file()
    return _root(path, beside if is_beside else inside, "--home")


def data_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Our own store, archive, trash and undo data."""
    return Path(paths.data_dir(_environment(environ)))


def cache_dir(environ: Mapping[str, str] | None = None) -> Path:
    """The index and other rebuildable data; inside the data directory where that is overridden."""
    return Path(paths.cache_dir(_environment(environ)))


def config_file(environ: Mapping[str, str] | None = None) -> Path:
    """Our settings. ``$RECOLLECT_DATA`` moves data, not settings."""
    return Path(paths.config_file(_environment(environ)))


def _environment(environ: Mapping[str, str] | None) -> Mapping[str, str]:
    return os.environ if environ is None else environ


def _root(path: Path, config: Path, origin: str) -> HomeRoot:
    return HomeRoot(path, config, origin, os.path.isdir(path))  # noqa: PTH112 - never raises, as Path.is_dir may


def _distinct(roots: Iterable[HomeRoot]) -> list[HomeRoot]:
    by_real_path: dict[str, HomeRoot] = {}
    for root in roots:
        by_real_path.setdefault(os.path.realpath(root.path), root)
    return list(by_real_path.values())
