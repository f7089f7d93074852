"""Search for a page: hits grouped by session, with what is needed to jump to each; and the hits of one conversation."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence

import msgspec

from recollect.model.conversation.graph import Graph
from recollect.services.documents.search import (
    HitPlaceDocument,
    HitPlacesDocument,
    MatchedTextDocument,
    PageHitDocument,
    PageSearchDocument,
    SessionHitsDocument,
)
from recollect.services.page.conversation import ConversationView, ViewMessages, talk_of
from recollect.services.page.desk import PageBackend
from recollect.services.search.question import BEST
from recollect.services.search.search import SearchHit, SearchResult, search

_SECONDS = 3.0
_MOST_PLACES = 500
_MOST_SESSIONS = 25
_MOST_TEXTS = 100
_WIDTH = 160
# What a person reads comes before what a machine said.
_ORDER = ("title", "prose", "thinking", "tool_input", "tool_result", "other")
# No conversation shows what a client only notes for itself, so it is no hit unless it is asked for by name.
_SHOWN = _ORDER[:-1]


def search_document(
    desk: PageBackend,
    query: str,
    *,
    how: str = "words",
    kinds: Sequence[str] | None = None,
    project: str | None = None,
    session: str | None = None,
    among: frozenset[str] | None = None,
    since: dt.datetime | None = None,
    until: dt.datetime | None = None,
    rank: bool = False,
    limit: int = 50,
    width: int = _WIDTH,
) -> PageSearchDocument:
    """Matching messages, newest first, or best first with ``rank``; the sessions that fit best if none has all words.

    In a session prose comes before tool output.
    """
    with desk.index.opened() as opened:
        found = search(
            query,
            homes=desk.roots,
            opened=opened,
            how=how,
            kinds=_kinds(how, kinds),
            project=project,
            session=session,
            among=among,
            since=since,
            until=until,
            rank=rank and opened.database is not None,
            limit=limit,
            sessions=_MOST_SESSIONS,
            width=width,
            seconds=_SECONDS,
            loose=True,
        )
    counts = {one.session: one.count for one in found.sessions}
    # In the order of the sessions, each with its hits among those asked for, and with its best one at least.
    groups: dict[str | None, list[SearchHit]] = {one.session: [] for one in found.sessions}
    for hit in found.hits:
        groups.setdefault(hit.session, []).append(hit)
    for one in found.sessions:
        groups[one.session] = groups[one.session] or [one.best]
    strengths = {one.session: one.strength for one in found.sessions}
    return PageSearchDocument(
        query=query,
        groups=[_group(hits, counts.get(name), strengths.get(name)) for name, hits in groups.items()],
        total=found.total,
        total_is_exact=found.is_complete,
        is_loose=found.is_loose,
        is_weak=found.is_weak,
        shown=sum(map(len, groups.values())),
        took_ms=round(found.took_ms, 3),
        notes=found.notes,
    )


def _kinds(how: str, kinds: Sequence[str] | None) -> Sequence[str] | None:
    return _SHOWN if kinds is None and how != BEST else kinds


def _group(hits: Sequence[SearchHit], count: int | None, strength: float | None) -> SessionHitsDocument:
    first = hits[0]
    ordered = sorted(hits, key=lambda hit: _ORDER.index(hit.kind) if hit.kind in _ORDER else len(_ORDER))
    return SessionHitsDocument(
        session=first.session,
        title=first.title,
        project=first.project,
        branch=first.branch,
        resume=first.resume,
        count=max(count or 0, len(hits)),
        hits=[msgspec.convert(hit, PageHitDocument, from_attributes=True) for hit in ordered],
        strength=strength,
    )


# ---- the hits of one conversation ------------------------------------------------------------------------


def hits_document(
    desk: PageBackend,
    name: str,
    view: ConversationView,
    query: str,
    *,
    how: str = "words",
    kinds: Sequence[str] | None = None,
) -> HitPlacesDocument:
    """Where a conversation shows the matches of a search, and the texts to mark."""
    session = desk.reading(name)
    talk = talk_of(session, view)
    with desk.index.opened() as opened:
        found = search(
            query,
            homes=desk.roots,
            opened=opened,
            how=how,
            kinds=_kinds(how, kinds),
            session=session.id,
            limit=_MOST_PLACES,
            width=_WIDTH,
            seconds=_SECONDS,
            loose=True,
        )
    return _places(query, found, session.graph, talk, view.agent)


def _places(
    query: str, found: SearchResult, graph: Graph, talk: ViewMessages, agent: str | None
) -> HitPlacesDocument:
    places, elsewhere = {}, 0
    for hit in found.hits:
        index = talk.places.get(hit.uuid or "") if hit.agent == agent else None
        if index is not None:
            at = talk.shown_at(index)
            places[hit.uuid] = HitPlaceDocument(index=at, uuid=talk.groups[index][-1].uuid, kind=hit.kind)
        elif hit.agent != agent or _is_said(graph, hit.uuid):
            elsewhere += 1
    return HitPlacesDocument(
        query=query,
        hits=sorted(places.values(), key=lambda one: one.index),
        texts=_texts(found.hits),
        elsewhere=elsewhere,
        total=found.total,
        total_is_exact=found.is_complete,
        notes=found.notes,
    )


def _is_said(graph: Graph, uuid: str | None) -> bool:
    """Whether a line is a message of some branch: a title is none, nor is what stands beside the conversation."""
    node = graph.nodes.get(uuid or "")
    return node is not None and node.is_shown


def _texts(hits: Iterable[SearchHit]) -> list[MatchedTextDocument]:
    """The different texts that matched, the longest first: a longer one is marked whole."""
    found: dict[str, bool] = {}
    for hit in hits:
        text = hit.snippet.text
        for start, end in hit.snippet.marks:
            around = text[max(start - 1, 0) : start], text[end : end + 1]
            is_word = not any(one.isalnum() for one in around)
            key = text[start:end].casefold()
            found[key] = found.get(key, True) and is_word
            if len(found) == _MOST_TEXTS:
                break
    longest_first = sorted(filter(str.strip, found), key=len, reverse=True)
    return [MatchedTextDocument(text, found[text]) for text in longest_first]
