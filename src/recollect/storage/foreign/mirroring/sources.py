"""The files of a client that a log was mirrored from, and their bytes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from recollect.model.json.text import loose_value
from recollect.storage.foreign.lines import SOURCE, original_of
from recollect.storage.foreign.mirroring.long_lines import PARTIAL
from recollect.storage.logs.reader import read_lines

ZST = ".zst"


def sources_of(log: Path) -> list[str]:
    """The files that a log was mirrored from, in order."""
    named = []
    for raw in read_lines(log):
        line = loose_value(raw.data) if b'"foreign-source"' in raw.data else None
        if isinstance(line, dict) and line.get("type") == SOURCE and line.get("source"):
            named.append(str(line["source"]))
    return named


def file_name(source: str) -> str:
    """The same wherever the client moved it, compressed or not."""
    return source.rpartition("/")[2].removesuffix(ZST)


def originals(lines: Iterable[dict[str, Any]]) -> dict[str, list[bytes]]:
    """The records of every source in a log, byte for byte; of a rewritten source its last generation.

    Those of a compressed file are what was in it, and go by the name that it had before.
    """
    found: dict[str, list[bytes]] = {}
    generations: dict[str, int] = {}
    name, parts = "", list[bytes]()
    for line in lines:
        if line.get("type") == SOURCE:
            parts.clear()
            name, generation = str(line["source"]).removesuffix(ZST), int(line["generation"])
            if generations.setdefault(name, generation) < generation:
                found[name] = []
                generations[name] = generation
            found.setdefault(name, [])
            continue
        data = original_of(line)
        if data is None:
            continue
        if line.get(PARTIAL):
            parts.append(data)
            continue
        data = b"".join((*parts, data)) if parts else data
        parts.clear()
        if line.get("whole"):
            found[str(line["source"])] = [data]  # a record that was a file, or a row, of its own
        else:
            found.setdefault(name, []).append(data)
    return found
