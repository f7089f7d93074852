"""The user's settings for recollect: ``$XDG_CONFIG_HOME/recollect/config.toml``, one section for each use.

A missing file means no settings, and no parser is imported then. What cannot be parsed, and a section that does not
exist, is an error with the next step: a misspelt name must not turn a setting off silently (law 11).
Numbers with a point come as they are written, never as binary floats.
"""

from __future__ import annotations

from recollect.errors import StorageError, UsageError

TYPE_CHECKING = False  # see recollect/__init__.py
if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path
    from typing import Any, NoReturn

SECTIONS = ("budget", "prices", "secrets", "sync")


def config_section(file: str | Path, name: str, keys: Collection[str] = ()) -> dict[str, Any]:
    """One section, empty where there is none. ``keys`` are all it may hold, if they are few enough to name."""
    found = _sections(file)
    for section in found:
        if section not in SECTIONS:
            refuse(file, f"[{section}] is not known", f"the sections are {', '.join(SECTIONS)}")
    section = found.get(name, {})
    if not isinstance(section, dict):
        refuse(file, f"{name} is not a section", f"write [{name}]")
    for key in section if keys else ():
        if key not in keys:
            refuse(file, f"{name}.{key} is not known", f"known are {', '.join(sorted(keys))}")
    return section


def refuse(file: str | Path, problem: str, next_step: str) -> NoReturn:
    """Say what in the file cannot be used."""
    raise UsageError(f"{file}: {problem}", hint=next_step)


def _sections(file: str | Path) -> dict[str, Any]:
    try:
        with open(file, "rb") as opened:  # noqa: PTH123 - pathlib is slow to import
            data = opened.read()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as cause:
        from pathlib import Path

        raise StorageError("read", Path(file), cause, hint="make it readable, or move it away") from cause
    import tomllib

    try:
        return tomllib.loads(data.decode(), parse_float=str)
    except (ValueError, RecursionError) as cause:  # bad TOML, bad UTF-8, a number of thousands of digits
        raise UsageError(f"{file}: not a TOML file: {cause}", hint="correct it, or move it away") from cause
