"""The handlers of searches: in all sessions, and in one conversation."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence

from msgspec import Struct, structs

from recollect.ask.conversation.conversation import ConversationView, ViewMessages, talk_of
from recollect.ask.search.hits import SearchHit, SearchResult, SessionHits, session_hits
from recollect.ask.search.question import BEST
from recollect.ask.search.search import search
from recollect.errors import Busy
from recollect.index.access import OpenIndex
from recollect.model.conversation.graph import Graph
from recollect.model.text import timespan
from recollect.web.page import AT, Page, Routes
from recollect.web.parameters import How, Kinds, Name, SearchQuery, Text, kinds_of

routes = Routes()
_SECONDS = 3.0
_MOST_PLACES = 500
_MOST_SESSIONS = 25
_MOST_TEXTS = 100
_WIDTH = 160
# What a person reads comes before what a machine said.
_ORDER = ("title", "prose", "thinking", "tool_input", "tool_result", "other")
# No conversation shows what a client only notes for itself, so it is no hit unless it is asked for by name.
_SHOWN = _ORDER[:-1]


class PageSearchDocument(Struct, frozen=True, kw_only=True):
    """The hits of a search, by session. ``is_loose`` and ``is_weak`` are those of ``search --json``."""

    query: str
    groups: list[SessionHits]
    total: int
    total_is_exact: bool
    is_loose: bool
    is_weak: bool
    shown: int
    took_ms: float
    notes: list[str]


class HitPlaceDocument(Struct, frozen=True, kw_only=True):
    """A message of the shown conversation that matches. ``index`` is where it is shown: a result with its call."""

    index: int
    uuid: str
    kind: str


class MatchedTextDocument(Struct, frozen=True):
    """A text that matched, to be marked. ``is_word``: it stood between characters that belong to no word."""

    text: str
    is_word: bool


class HitPlacesDocument(Struct, frozen=True, kw_only=True):
    """The matches of one conversation in its order. ``elsewhere`` counts those of the session that it does not show."""

    query: str
    hits: list[HitPlaceDocument]
    texts: list[MatchedTextDocument]
    elsewhere: int
    total: int
    total_is_exact: bool
    notes: list[str]


@routes.get("/api/search")
def search_sessions(page: Page, query: SearchQuery) -> PageSearchDocument:
    """Matching messages, by session. Newest first, or best first; in a session prose comes before tool output.

    Where no message has all the words: the sessions that fit best.
    """
    since, until = timespan.bounds(query.since or None, query.until or None, dt.datetime.now(dt.UTC))
    among = page.listed.ids(structs.replace(query, project=None, since=None, until=None))
    with page.backend.index.opened() as opened:
        check_ready(opened)
        found = search(
            query.q,
            opened=opened,
            how=query.how,
            kinds=_kinds(query.kinds, query.how),
            project=query.project,
            session=query.session,
            among=among,
            since=since,
            until=until,
            rank=query.rank,
            limit=query.limit,
            sessions=_MOST_SESSIONS,
            width=query.width,
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
        query=query.q,
        groups=[_group(hits, counts.get(name), strengths.get(name)) for name, hits in groups.items()],
        total=found.total,
        total_is_exact=found.is_complete,
        is_loose=found.is_loose,
        is_weak=found.is_weak,
        shown=sum(map(len, groups.values())),
        took_ms=round(found.took_ms, 3),
        notes=found.notes,
    )


def _kinds(text: str | None, how: str) -> Sequence[str] | None:
    kinds = kinds_of(text)
    return _SHOWN if kinds is None and how != BEST else kinds


def _group(hits: Sequence[SearchHit], count: int | None, strength: float | None) -> SessionHits:
    ordered = sorted(hits, key=lambda hit: _ORDER.index(hit.kind) if hit.kind in _ORDER else len(_ORDER))
    return session_hits(ordered, max(count or 0, len(hits)), strength)


@routes.get(f"{AT}/hits")
def hits(
    page: Page,
    session: Name,
    query: ConversationView,
    *,
    q: Text,
    how: How = "words",
    kinds: Kinds | None = None,
) -> HitPlacesDocument:
    """Where a conversation shows the matches of a search, and the texts to mark."""
    opened = page.backend.reading(session)
    talk = talk_of(opened, query)
    with page.backend.index.opened() as index:
        found = search(
            q,
            opened=index,
            how=how,
            kinds=_kinds(kinds, how),
            session=opened.id,
            limit=_MOST_PLACES,
            width=_WIDTH,
            seconds=_SECONDS,
            loose=True,
        )
    return _places(q, found, opened.graph, talk, query.agent)


def _places(
    query: str, found: SearchResult, graph: Graph, talk: ViewMessages, agent: str | None
) -> HitPlacesDocument:
    places, elsewhere = {}, 0
    for hit in found.hits:
        index = talk.places.get(hit.uuid or "") if hit.agent == agent else None
        if index is not None:
            at = talk.shown_at(index)
            places[hit.uuid] = HitPlaceDocument(index=at, uuid=talk.groups[index][-1].uuid, kind=hit.kind)
        else:
            # A title is no message of a branch, nor is what stands beside the conversation.
            node = graph.nodes.get(hit.uuid or "")
            elsewhere += hit.agent != agent or (node is not None and node.is_shown)
    return HitPlacesDocument(
        query=query,
        hits=sorted(places.values(), key=lambda one: one.index),
        texts=_texts(found.hits),
        elsewhere=elsewhere,
        total=found.total,
        total_is_exact=found.is_complete,
        notes=found.notes,
    )


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


def check_ready(opened: OpenIndex) -> None:
    if opened.is_temporary:
        raise Busy("the index is being built", hint="wait until it is ready")
