"""Where the index and the settings lie, found with next to no imports: for the status line.

These are the rules of ``storage.places``, ``cli.homes`` and ``index_access.index_path`` once
more, as plain text: those modules need pathlib and msgspec, and loading them takes longer
than the whole status line may. They are the authority; a test compares both for every
variable and option that has a say. Asking creates nothing.
"""

# pathlib is what this module exists to avoid.
# ruff: noqa: PTH109, PTH110, PTH111, PTH112, PTH116, PTH117, PTH118, PTH206

from __future__ import annotations

import os
import zlib

from recollect.index.schema import VERSION

TYPE_CHECKING = False  # see recollect/__init__.py
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_SAMPLE = ":sample"


def homes(named: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """The Claude homes that exist: those named with ``--home``, else the ones of the environment."""
    if named:
        return _existing(_sample() if one == _SAMPLE else _absolute(one, environ) for one in named)
    value = environ.get("CLAUDE_CONFIG_DIR", "")
    if value.strip() and os.path.isdir(_absolute(value, environ)):
        return [_absolute(value, environ)]
    parts = [part.strip() for part in value.split(",") if part.strip()]
    if parts:
        return _existing(_absolute(part, environ) for part in parts)
    user = _user_home(environ)
    usual = (
        _joined(user, ".claude"),
        _joined(_config(environ), "claude"),
        _joined(user, ".config", "claude"),
    )
    return _existing(usual)


def index_of(homes: Iterable[str], data: str | None, environ: Mapping[str, str]) -> str:
    """The index of a set of homes."""
    names = "\0".join(sorted(os.path.realpath(home) for home in homes))
    checksum = zlib.crc32(names.encode("utf-8", "surrogateescape"))
    return _joined(cache(data, environ), f"index-v{VERSION}-{checksum:08x}.sqlite")


def cache(data: str | None, environ: Mapping[str, str]) -> str:
    """Our cache directory. ``data`` is what ``--data`` says."""
    own = (data or environ.get("RECOLLECT_DATA", "")).strip()
    if own:
        return _joined(_absolute(own, environ), "cache")
    return _joined(_xdg(environ, "XDG_CACHE_HOME", ".cache"), "recollect")


def settings(environ: Mapping[str, str]) -> str:
    """Our settings file."""
    return _joined(_config(environ), "recollect", "config.toml")


def is_there(path: str) -> bool:
    """Whether a file is there."""
    return os.path.exists(path)


def refreshed_at(index: str) -> float | None:
    """When an index was last refreshed, in seconds since 1970; None where it never was.

    Whoever refreshes it takes its lock and leaves a line in it, so the lock's time says so, also
    where there was nothing new to write into the index.
    """
    try:
        return os.stat(index.removesuffix(".sqlite") + ".lock").st_mtime
    except OSError:
        return None


def _existing(directories: Iterable[str]) -> list[str]:
    by_real_path: dict[str, str] = {}
    for directory in directories:
        if os.path.isdir(directory):
            by_real_path.setdefault(os.path.realpath(directory), directory)
    return list(by_real_path.values())


def _config(environ: Mapping[str, str]) -> str:
    return _xdg(environ, "XDG_CONFIG_HOME", ".config")


def _xdg(environ: Mapping[str, str], name: str, default: str) -> str:
    value = environ.get(name, "")
    return value if os.path.isabs(value) else _joined(_user_home(environ), default)


def _absolute(text: str, environ: Mapping[str, str]) -> str:
    if os.path.isabs(text):
        return text
    separated = text.replace(os.altsep, os.sep) if os.altsep else text
    # Without ".", as pathlib reads it: "./~" is the user's home too.
    parts = [part for part in separated.split(os.sep) if part not in ("", ".")]
    if parts[:1] == ["~"]:
        return _joined(_user_home(environ), *parts[1:])
    return _joined(os.getcwd(), *parts)


def _user_home(environ: Mapping[str, str]) -> str:
    value = environ.get("USERPROFILE" if os.name == "nt" else "HOME")
    if not value:
        return os.path.expanduser("~")
    return value if os.path.isabs(value) else _joined(os.getcwd(), value)


def _joined(*parts: str) -> str:
    return os.path.join(*parts)


def _sample() -> str:
    from recollect.sample import sample_home

    return str(sample_home())
