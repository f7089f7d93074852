"""Search for a page: hits grouped by session, with what is needed to jump to each."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import msgspec

from recollect.services.documents.search import PageHitDocument, PageSearchDocument, SessionHitsDocument
from recollect.services.page.desk import PageBackend
from recollect.services.search.question import BEST
from recollect.services.search.search import SearchHit, search

_SECONDS = 3.0
_MOST_SESSIONS = 25


def search_document(
    desk: PageBackend,
    query: str,
    *,
    how: str = "words",
    kinds: Sequence[str] | None = None,
    project: str | None = None,
    session: str | None = None,
    since: dt.datetime | None = None,
    until: dt.datetime | None = None,
    rank: bool = False,
    limit: int = 50,
    width: int = 160,
) -> PageSearchDocument:
    """Matching messages, newest first, or best first with ``rank``; the sessions that fit best if none has all words."""
    with desk.index.opened() as opened:
        found = search(
            query,
            homes=desk.roots,
            opened=opened,
            how=how,
            kinds=kinds,
            project=project,
            session=session,
            since=since,
            until=until,
            rank=rank and opened.database is not None,
            limit=limit,
            sessions=_MOST_SESSIONS if how == BEST else 0,
            width=width,
            seconds=_SECONDS,
            loose=True,
        )
    groups: dict[str | None, list[SearchHit]] = {}
    for hit in found.hits:
        groups.setdefault(hit.session, []).append(hit)
    strengths = {one.session: one.strength for one in found.sessions}
    return PageSearchDocument(
        query=query,
        groups=[_group(hits, strengths.get(session)) for session, hits in groups.items()],
        total=found.total,
        total_is_exact=found.is_complete,
        is_loose=found.is_loose,
        is_weak=found.is_weak,
        shown=len(found.hits),
        took_ms=round(found.took_ms, 3),
        notes=found.notes,
    )


def _group(hits: Sequence[SearchHit], strength: float | None) -> SessionHitsDocument:
    first = hits[0]
    return SessionHitsDocument(
        session=first.session,
        title=first.title,
        project=first.project,
        branch=first.branch,
        resume=first.resume,
        hits=[msgspec.convert(hit, PageHitDocument, from_attributes=True) for hit in hits],
        strength=strength,
    )
