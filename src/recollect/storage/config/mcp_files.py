"""The files that name MCP servers, read as plain JSON: ``.mcp.json``, ``.claude.json``, settings.

All of them are untrusted, so each is bounded and must be a regular file. A file that cannot be read gives a
message for the user, never an exception and never an empty document: an unreadable list of disabled servers
must not look like a list that disables none.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from recollect.system.peek import open_regular

_MAX_BYTES = 8 * 1024 * 1024


class McpDocument(NamedTuple):
    """The contents of a file:

    ``value`` is None if there is none; ``problem`` says why it could not be read.
    """

    path: Path
    value: object = None
    problem: str = ""


def read_document(path: Path) -> McpDocument:
    """Read a JSON file, following links; a missing file is not a problem."""
    try:
        with open_regular(path) as file:
            data = file.read(_MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return McpDocument(path)
    except OSError as cause:
        return McpDocument(path, problem=f"it cannot be read: {cause.strerror or 'refused'}")
    if len(data) > _MAX_BYTES:
        return McpDocument(path, problem=f"it is larger than {_MAX_BYTES:,} bytes")
    if not data.strip():
        return McpDocument(path)
    try:
        return McpDocument(path, msgspec.json.decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return McpDocument(path, problem="it is not JSON")
