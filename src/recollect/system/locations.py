"""Where things are on this machine, as ``Path`` objects; ``system.paths`` has the rules.

Every function takes the environment as a mapping (``os.environ`` by default), so ``--data DIR`` is
``{**os.environ, "RECOLLECT_DATA": DIR}``. Nothing is created here; the first writer creates the
directory, with mode 0700.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from recollect.errors import NotPermitted, UsageError
from recollect.system import paths

# In the mirror of another agent's home: whose it is.
MIRROR_FACTS = "mirror.json"
# The directory of all mirrors, below our own data.
MIRRORS = "agents"


class HomeRoot(msgspec.Struct, frozen=True):
    """One home: its directory, its global config file, what named it, and whose it is.

    A named home that is missing is still listed, with ``exists`` false: a misspelt variable must not
    look like an empty machine. The home of another agent is read through its mirror: ``path`` is the mirror's,
    ``source`` the home itself.
    """

    path: Path
    config_file: Path
    origin: str
    exists: bool
    agent: str = paths.CLAUDE
    source: Path | None = None


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


def is_clients_home(home: str | Path) -> bool:
    """Whether a client of Claude that is started here would look for its sessions in a home."""
    homes = claude_homes()
    return bool(homes) and os.path.realpath(homes[0].path) == os.path.realpath(home)


def home_at(directory: str | Path, environ: Mapping[str, str] | None = None) -> HomeRoot:
    """The home of ``--home``; its config file is inside, or beside it as ``.claude.json``."""
    path = Path(paths.absolute(str(directory), _environment(environ)))
    inside, beside = path / ".claude.json", path.parent / ".claude.json"
    is_beside = path.name == ".claude" and beside.is_file() and not inside.is_file()
    root = _root(path, beside if is_beside else inside, "--home")
    agent = mirrored_agent(path)
    return root if agent is None else msgspec.structs.replace(root, agent=agent)


@functools.lru_cache(maxsize=256)
def agent_of(home: str) -> str:
    """The agent whose sessions a home holds."""
    return mirrored_agent(Path(home)) or paths.CLAUDE


def is_known_id(agent: str, session: str) -> bool:
    """Whether an id has the form of those that the agent's client gives. No other id is passed to a client, or printed in
    its command: what a stranger's file calls a session could be an option.
    """
    return re.fullmatch(paths.id_form(agent), session) is not None


def mirrored_agent(directory: Path) -> str | None:
    """Whose mirror a directory is: they are named after the agent; None where it is none."""
    agent = directory.name.rpartition("-")[0]
    is_mirror = agent in paths.AGENTS and os.path.isfile(directory / MIRROR_FACTS)  # noqa: PTH113 - never raises
    return agent if is_mirror else None


def client_home(home: str) -> str:
    """The home of the client: of a mirror the one that it mirrors, as far as that is known."""
    if mirrored_agent(Path(home)) is None:
        return home
    try:
        return str(
            msgspec.json.decode(Path(home, MIRROR_FACTS).read_bytes(), type=dict[str, object])["source"]
        )
    except (OSError, KeyError, msgspec.DecodeError):
        return home


def data_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Our own store, archive, trash and undo data."""
    return Path(paths.data_dir(_environment(environ)))


def flat_store(environ: Mapping[str, str] | None = None) -> Path:
    """The default place of a flat store; Claude homes are looked for there too, so its sessions are found."""
    return Path(paths.flat_store(_environment(environ)))


def cache_dir(environ: Mapping[str, str] | None = None) -> Path:
    """The index and other rebuildable data; inside the data directory where that is overridden."""
    return Path(paths.cache_dir(_environment(environ)))


def config_file(environ: Mapping[str, str] | None = None) -> Path:
    """Our settings. ``$RECOLLECT_DATA`` moves data, not settings."""
    return Path(paths.config_file(_environment(environ)))


def sanitize_path(path: str | Path, allowed_roots: Iterable[str | Path] | None = None) -> Path:
    """The absolute path without links, if it is one of the allowed directories or below one.

    Without ``allowed_roots`` these are the user's home, the directory for temporary files and the working
    directory. ``NotPermitted`` where the path is outside, ``UsageError`` where no file can have such a name.

    Whole names are compared: ``/home/anna`` does not allow ``/home/anna-marie``. Links are followed first, so a
    link that leads out is outside. It is an answer about this moment: who can change links below a root can
    still lead a later open astray; ``recollect.guard.sandbox`` confines that.
    """
    given = _default_roots() if allowed_roots is None else allowed_roots
    roots = [_resolved(root) for root in given]
    found = _resolved(path)
    if not any(found.is_relative_to(root) for root in roots):
        shown = ", ".join(map(str, roots)) or "none"
        raise NotPermitted(str(found), "outside the allowed directories", hint=f"allowed: {shown}")
    return found


def _default_roots() -> list[str]:
    import tempfile  # slow to import, and rarely needed

    return [paths.user_home(os.environ), tempfile.gettempdir(), os.getcwd()]  # noqa: PTH109 - plain text, as all here


def _resolved(path: str | Path) -> Path:
    try:
        return Path(os.path.realpath(paths.absolute(str(path), os.environ)))
    except (OSError, ValueError) as problem:
        raise UsageError(f"path {str(path)!a}: {problem}", hint="name a file or directory") from None


def _environment(environ: Mapping[str, str] | None) -> Mapping[str, str]:
    return os.environ if environ is None else environ


def _root(path: Path, config: Path, origin: str) -> HomeRoot:
    return HomeRoot(path, config, origin, os.path.isdir(path))  # noqa: PTH112 - never raises, as Path.is_dir may


def _distinct(roots: Iterable[HomeRoot]) -> list[HomeRoot]:
    by_real_path: dict[str, HomeRoot] = {}
    for root in roots:
        by_real_path.setdefault(os.path.realpath(root.path), root)
    return list(by_real_path.values())
