"""Secrets that the user wants ignored: ``[secrets] ignore`` in recollect's own ``config.toml``.

    [secrets]
    ignore = ["jwt:1a2b3c4d"]    # as `recollect scan` prints them

A list that cannot be parsed is an error: an ignored secret must not be reported again silently, nor the other way
round.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from recollect.storage.config.config_file import config_section, refuse
from recollect.system import locations

_ENTRY = re.compile(r"[0-9a-z-]{1,60}:[0-9a-f]{8}")
_EXAMPLE = 'write ignore = ["jwt:1a2b3c4d"], kind and fingerprint as `recollect scan` prints them'


def ignored_secrets(environ: Mapping[str, str] | None = None) -> frozenset[str]:
    """The ignored secrets, each as ``kind:fingerprint``."""
    file = locations.config_file(environ)
    section = config_section(file, "secrets", ("ignore",))
    entries = section.get("ignore", [])
    if not isinstance(entries, list):
        refuse(file, "secrets.ignore is not a list", _EXAMPLE)
    for entry in entries:
        if not isinstance(entry, str) or not _ENTRY.fullmatch(entry):
            # The entry itself is not shown: it may be the secret.
            number = entries.index(entry) + 1
            refuse(file, f"secrets.ignore: entry {number} is not a kind and a fingerprint", _EXAMPLE)
    return frozenset(entries)
