"""What the records of OpenCode say of themselves: when and where a message was said first, and which model calls it took.

One ``step-finish`` part is one model call; a fork copies messages under new ids with unchanged times, so a call is known by when it was
made and what it used.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from msgspec import structs

from recollect.agents import lines as entry
from recollect.agents.loose import Fields
from recollect.agents.opencode_database import RowStore
from recollect.agents.opencode_store import FileStore, OpenCodeRecord

_WRAP = 1 << 36  # ids hold the time modulo so many milliseconds
_ID_TIME = re.compile(r"[a-z]+_([0-9a-f]{12})")
_CACHED_APART = (1, 0, 62)  # before it, input holds the cached tokens
_OWN_CACHE_COUNTS = ("anthropic", "amazon-bedrock")
Fact = tuple[object, ...]


class OpenCodeCall(NamedTuple):
    """A model call, by a key that is the same in every copy of it; the counts are disjoint."""

    key: str
    counts: dict[str, int]
    cost: object

    @property
    def fact(self) -> Fact:
        """What calls that may be the same have in common."""
        return (*sorted(self.counts.items()), self.cost)


def is_copied(message: OpenCodeRecord) -> bool:
    """Whether a fork made this message: its id is younger than the time it has."""
    result, created = _ID_TIME.match(message.id), created_at(message.fields)
    if result is None or not created:
        return False
    return 1000 < ((int(result[1], 16) >> 12) - int(created)) % _WRAP < _WRAP // 2


def created_at(fields: Fields) -> float:
    """When a record was made; 0 where it does not say so."""
    time = fields.get("time")
    created = time.get("created") if isinstance(time, dict) else fields.get("time_created")
    return created if isinstance(created, int | float) and math.isfinite(created) else 0


def session_of(record: OpenCodeRecord) -> str:
    """The session that a record names; "" where it names none."""
    return str(record.fields.get("sessionID") or "")


def said_when(message: OpenCodeRecord) -> Fact:
    """What a message has in common with its copies."""
    return created_at(message.fields), message.fields.get("role"), message.fields.get("modelID")


class StoreFacts:
    """What concerns several sessions, found where one of them asks for it: who said copied messages first, whose calls parts
    without a message are.
    """

    def __init__(self, store: FileStore | RowStore, sessions: dict[str, OpenCodeRecord]) -> None:
        self._store, self._sessions = store, sessions

    def began(self, session: str) -> tuple[float, str]:
        """Sessions are written in the order in which they began: parents first."""
        record = self._sessions.get(session)
        return (created_at(record.fields) if record is not None else 0, session)

    def version(self, session: str) -> tuple[int, ...] | None:
        """That of the client which began a session."""
        record = self._sessions.get(session)
        text = record.fields.get("version") if record is not None else None
        result = re.match(r"v?(\d+)\.(\d+)\.(\d+)", text) if isinstance(text, str) else None
        return None if result is None else tuple(map(int, result.groups()))

    @cached_property
    def firsts(self) -> dict[Fact, str]:
        """The session that said a message first, where forks may have copied it."""
        said = [
            (self.began(session), created_at(message.fields), message.id, said_when(message))
            for message in self._store.every("message")
            if not is_copied(message) and (session := session_of(message))
        ]
        # The last that is put there is the first that was said.
        return {
            fact: session for (_, session), _, _, fact in sorted(said, key=lambda one: one[:3], reverse=True)
        }

    @cached_property
    def orphans(self) -> list[tuple[str, OpenCodeCall]]:
        """Steps whose message a revert deleted, by session. A fork that was made before may hold the same call."""
        messages: dict[str, OpenCodeRecord] = {}
        steps: dict[str, list[OpenCodeRecord]] = {}
        for record in self._store.every("message", "part"):
            light = structs.replace(record, original=b"")
            if record.table == "message":
                messages[record.id] = light
            elif record.fields.get("type") == "step-finish":
                steps.setdefault(str(record.fields.get("messageID")), []).append(light)
        copies: dict[Fact, list[str]] = {}
        own: set[str] = set()
        for message in messages.values():
            for call in self.calls(message, sorted(steps.get(message.id, ()), key=lambda part: part.id)):
                if is_copied(message):
                    copies.setdefault(call.fact, []).append(call.key)
                else:
                    own.add(call.key)
        result = []
        lost = (part for name, parts in steps.items() if name not in messages for part in parts)
        for part in sorted(lost, key=lambda part: part.id):
            session = session_of(part)
            counts = _split(part.fields.get("tokens"), None, self.version(session))
            call = OpenCodeCall(entry.key_of("opencode", part.id), counts, part.fields.get("cost"))
            twins = [key for key in copies.get(call.fact, ()) if key not in own]
            if twins:
                call = call._replace(key=twins[0])
                own.add(twins[0])
            result.append((session, call))
        return result

    def calls(self, message: OpenCodeRecord, parts: Iterable[OpenCodeRecord]) -> Iterator[OpenCodeCall]:
        """The model calls of an answer: its finished steps, or its own numbers where it has none."""
        fields, version = message.fields, self.version(session_of(message))
        steps = [part.fields for part in parts if part.fields.get("type") == "step-finish"]
        if not steps and fields.get("role") == "assistant":
            steps = [fields]
        same: dict[Fact, int] = {}
        for step in steps:
            counts = _split(step.get("tokens"), fields.get("providerID"), version)
            if any(counts.values()):
                used = tuple(counts.values())
                same[used] = same.get(used, 0) + 1
                about = created_at(fields), fields.get("providerID"), fields.get("modelID")
                key = entry.key_of("opencode", *about, sorted(counts.items()), same[used])
                yield OpenCodeCall(key, counts, step.get("cost"))


def _split(tokens: object, provider: object, version: tuple[int, ...] | None) -> dict[str, int]:
    """Disjoint counts. Clients changed their minds about what input and output include."""
    given: Fields = tokens if isinstance(tokens, dict) else {}
    cache: Fields = given["cache"] if isinstance(given.get("cache"), dict) else {}
    read = (
        given.get("input"),
        cache.get("read"),
        cache.get("write"),
        given.get("output"),
        given.get("reasoning"),
    )
    whole = [value if isinstance(value, int) and value > 0 else 0 for value in read]
    counts = dict(zip(("input", "cache_read", "cache_write", "output", "reasoning"), whole, strict=True))
    is_old = version is not None and version < _CACHED_APART
    if is_old and counts["input"] >= counts["cache_read"] and provider not in _OWN_CACHE_COUNTS:
        counts["input"] -= counts["cache_read"]
    if counts["reasoning"]:
        total = given.get("total")
        flat = sum(counts.values()) - counts["reasoning"]
        if total == flat or (total is None and "google" not in str(provider or "")):
            counts["output"] = max(0, counts["output"] - counts["reasoning"])
    return counts
