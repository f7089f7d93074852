"""What ``index --json`` prints."""

from __future__ import annotations

from msgspec import Struct

from recollect.services.indexing.upkeep import IndexStatus


class IndexStatusDocument(Struct, frozen=True, kw_only=True):
    """The state of the index. ``share`` is its size relative to the logs."""

    path: str
    version: int
    exists: bool
    complete: bool
    problem: str | None
    current: bool
    bytes: int
    log_bytes: int
    share: float | None
    refreshed_at: str | None
    changed_logs: int
    missing_logs: int
    sessions: int
    agents: int
    tool_outputs: int
    gone_sessions: int
    rows: dict[str, int]
    fts_segments: int
    stale: list[str]


class IndexRebuildDocument(Struct, frozen=True):
    """An index that was built again; ``gone_sessions`` are deleted ones whose cost it still has."""

    path: str
    logs: int
    bytes: int
    gone_sessions: int


class IndexVacuumDocument(Struct, frozen=True):
    """An index that was made smaller, and left-over files that were removed."""

    path: str
    bytes_before: int
    bytes_after: int
    removed: list[str]


def index_status_document(found: IndexStatus) -> IndexStatusDocument:
    at = found.refreshed_at
    return IndexStatusDocument(
        path=str(found.path),
        version=found.version,
        exists=found.exists,
        complete=found.is_complete,
        problem=found.problem,
        current=found.is_current,
        bytes=found.bytes,
        log_bytes=found.log_bytes,
        share=None if found.share is None else round(found.share, 4),
        refreshed_at=None if at is None else at.isoformat(timespec="milliseconds"),
        changed_logs=found.changed_logs,
        missing_logs=found.missing_logs,
        sessions=found.sessions,
        agents=found.agents,
        tool_outputs=found.tool_outputs,
        gone_sessions=found.gone_sessions,
        rows=found.rows,
        fts_segments=found.segments,
        stale=[str(path) for path in found.stale],
    )
