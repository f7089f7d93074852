"""The files that name MCP servers, read as JSON and nothing more: ``.mcp.json``, ``.claude.json``, settings.

All of them are somebody else's text, so each is bounded, must be a regular file, and one that cannot be read is
a sentence for the user, never an exception and never an empty document: a list of disabled servers that could
not be read must not look like a list that disables none.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from recollect.system.peek import open_regular

_MAX_BYTES = 8 * 1024 * 1024


class McpDocument(NamedTuple):
    """What a file holds: ``value`` is None where there is none; ``problem`` says why it could not be read."""

    path: Path
    value: object = None
    problem: str = ""


def read_document(path: Path) -> McpDocument:
    """A JSON file, links followed; not there is no problem."""
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
