"""Where things are on this machine, according to the environment.

Two kinds of places. *Theirs*: the Claude homes, one or several directories that
clients write and we read. *Ours*: data, cache and configuration, in the XDG
directories or all under ``$RECOLLECT_DATA``; never inside a Claude home.

Every function takes the environment as a mapping (``os.environ`` if none is
given), so ``--data DIR`` is ``{**os.environ, "RECOLLECT_DATA": DIR}``. Asking
creates nothing; whoever writes first makes the directory, with mode 0700.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from recollect.errors import UsageError

_OUR_NAME = "recollect"


class HomeRoot(msgspec.Struct, frozen=True):
    """One Claude home: its directory, the global config file that goes with it, who named it.

    A home that was named but is not there is listed all the same, with
    ``exists`` false: a misspelt variable must not look like an empty machine.
    """

    path: Path
    config_file: Path
    origin: str
    exists: bool


def claude_homes(environ: Mapping[str, str] | None = None) -> list[HomeRoot]:
    """The homes of this user: those ``$CLAUDE_CONFIG_DIR`` names, else the usual ones that exist.

    Several may be named, separated by commas, as other readers allow. Two
    names of one directory are one home.
    """
    env = _given(environ)
    named = _named_directories(env)
    if named:
        return _distinct(_root(path, path / ".claude.json", "$CLAUDE_CONFIG_DIR") for path in named)
    home = _user_home(env)
    config = home / ".claude.json"
    usual = {
        home / ".claude": "~/.claude",
        _xdg(env, "XDG_CONFIG_HOME", ".config") / "claude": "$XDG_CONFIG_HOME/claude",
        home / ".config" / "claude": "~/.config/claude",
    }
    roots = (_root(path, config, origin) for path, origin in usual.items())
    return _distinct(root for root in roots if root.exists)


def home_at(directory: str | Path, environ: Mapping[str, str] | None = None) -> HomeRoot:
    """The home a user points at with ``--home``; its config file lies inside, or beside as ``.claude.json``."""
    path = _absolute(str(directory), _given(environ))
    inside, beside = path / ".claude.json", path.parent / ".claude.json"
    is_beside = path.name == ".claude" and beside.is_file() and not inside.is_file()
    return _root(path, beside if is_beside else inside, "--home")


def data_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Our own store, archive, trash and undo."""
    env = _given(environ)
    override = _override(env)
    return override or _xdg(env, "XDG_DATA_HOME", ".local", "share") / _OUR_NAME


def cache_dir(environ: Mapping[str, str] | None = None) -> Path:
    """The index and whatever else can be rebuilt; inside the data directory where that is overridden."""
    env = _given(environ)
    override = _override(env)
    return override / "cache" if override else _xdg(env, "XDG_CACHE_HOME", ".cache") / _OUR_NAME


def config_file(environ: Mapping[str, str] | None = None) -> Path:
    """Our settings. ``$RECOLLECT_DATA`` moves data, not settings."""
    return _xdg(_given(environ), "XDG_CONFIG_HOME", ".config") / _OUR_NAME / "config.toml"


def _given(environ: Mapping[str, str] | None) -> Mapping[str, str]:
    return os.environ if environ is None else environ


def _named_directories(env: Mapping[str, str]) -> list[Path]:
    value = env.get("CLAUDE_CONFIG_DIR", "")
    # The client takes the whole value as one directory, so a comma in a real name is not a separator.
    if value.strip() and _is_dir(_absolute(value, env)):
        return [_absolute(value, env)]
    return [_absolute(part.strip(), env) for part in value.split(",") if part.strip()]


def _root(path: Path, config: Path, origin: str) -> HomeRoot:
    return HomeRoot(path, config, origin, _is_dir(path))


def _is_dir(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # closed to us: for this user it is not there
        return False


def _distinct(roots: Iterable[HomeRoot]) -> list[HomeRoot]:
    by_real_path: dict[str, HomeRoot] = {}
    for root in roots:
        by_real_path.setdefault(os.path.realpath(root.path), root)
    return list(by_real_path.values())


def _override(env: Mapping[str, str]) -> Path | None:
    value = env.get("RECOLLECT_DATA", "").strip()
    return _absolute(value, env) if value else None


def _xdg(env: Mapping[str, str], name: str, *default: str) -> Path:
    value = env.get(name, "")
    # The XDG specification: a relative path is invalid and to be ignored.
    return Path(value) if Path(value).is_absolute() else _user_home(env).joinpath(*default)


def _absolute(text: str, env: Mapping[str, str]) -> Path:
    head, *rest = Path(text).parts or ("",)
    return _user_home(env).joinpath(*rest) if head == "~" else Path(text).absolute()


def _user_home(env: Mapping[str, str]) -> Path:
    value = env.get("USERPROFILE" if os.name == "nt" else "HOME")
    if value:
        return Path(value).absolute()
    try:
        return Path.home()
    except RuntimeError as cause:
        raise UsageError(
            "the home directory is not known: HOME is not set", hint="set HOME, or CLAUDE_CONFIG_DIR"
        ) from cause
