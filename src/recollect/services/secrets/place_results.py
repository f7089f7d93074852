"""What a search for secrets found in a file. The index keeps it; reading it there loads none of the search."""

from __future__ import annotations

from msgspec import Struct

from recollect.services.indexing.file_results import ReadState


class SecretFinding(Struct, frozen=True):
    """A secret and its place. ``line`` counts from 1; ``offset`` is the byte where that line starts."""

    kind: str
    fingerprint: str
    path: str
    role: str
    session: str | None
    agent: str | None
    line: int
    offset: int
    field: str


class PlaceScan(Struct, frozen=True):
    """The result for one file. ``problem`` says why it was not, or not completely, searched."""

    findings: list[SecretFinding]
    bytes: int = 0
    problem: str | None = None
    state: ReadState | None = None
