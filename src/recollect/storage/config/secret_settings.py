"""Secrets that the user wants ignored: ``[secrets] ignore`` in recollect's own ``config.toml``.

    [secrets]
    ignore = ["jwt:1a2b3c4d"]    # as `recollect scan` prints them

A missing file means no list. A list that cannot be parsed is an error: an ignored secret must not be reported
again silently, nor the other way round.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from recollect.errors import StorageError, UsageError
from recollect.system import locations

_ENTRY = re.compile(r"[0-9a-z-]{1,60}:[0-9a-f]{8}")
_EXAMPLE = 'write ignore = ["jwt:1a2b3c4d"], kind and fingerprint as `recollect scan` prints them'


def ignored_secrets(environ: Mapping[str, str] | None = None) -> frozenset[str]:
    """The ignored secrets, each as ``kind:fingerprint``."""
    file = locations.config_file(environ)
    try:
        data = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()
    except OSError as cause:
        raise StorageError("read", file, cause, hint="make it readable, or move it away") from cause
    import tomllib

    try:
        section = tomllib.loads(data.decode()).get("secrets", {})
    except (ValueError, RecursionError) as cause:  # bad TOML, bad UTF-8, a number of thousands of digits
        raise UsageError(f"{file}: not a TOML file: {cause}", hint="correct it, or move it away") from cause
    if not isinstance(section, dict):
        _refuse(file, "secrets is not a section")
    entries = section.get("ignore", [])
    if not isinstance(entries, list):
        _refuse(file, "secrets.ignore is not a list")
    for entry in entries:
        if not isinstance(entry, str) or not _ENTRY.fullmatch(entry):
            # The entry itself is not shown: it may be the secret.
            _refuse(file, f"secrets.ignore: entry {entries.index(entry) + 1} is not a kind and a fingerprint")
    return frozenset(entries)


def _refuse(file: Path, problem: str) -> NoReturn:
    raise UsageError(f"{file}: {problem}", hint=_EXAMPLE)
