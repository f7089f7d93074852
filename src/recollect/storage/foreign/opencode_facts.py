"""What the records of OpenCode say of themselves: when and where a message was said first, and which model calls it took.

One ``step-finish`` part is one model call; a fork copies messages under new ids with unchanged times, so a call is known by when it was
made and what it used.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache

import msgspec

from recollect.storage.foreign import lines as made
from recollect.storage.foreign.loose import Fields
from recollect.storage.foreign.opencode_store.store import OpenCodeRecord, OpenCodeStore

_WRAP = 1 << 36  # ids hold the time modulo so many milliseconds
_ID_TIME = re.compile(r"[a-z]+_([0-9a-f]{12})")
_CACHED_APART = (1, 0, 62)  # before it, input holds the cached tokens
_OWN_CACHE_COUNTS = ("anthropic", "amazon-bedrock")


def told_at(message: OpenCodeRecord) -> tuple[float, str]:
    """The order of a conversation."""
    return created_at(message.fields), message.id


def message_of(record: OpenCodeRecord) -> str:
    """The id of the message that a record belongs to; "None" where it belongs to none."""
    return record.id if record.table == "message" else str(record.fields.get("messageID"))


def told_when(message: OpenCodeRecord) -> tuple[object, ...]:
    fields = message.fields
    return created_at(fields), fields.get("role"), fields.get("modelID")


def is_copied(message: OpenCodeRecord) -> bool:
    return is_copy(message.id, created_at(message.fields))


@lru_cache(maxsize=4096)  # every message is asked several times
def is_copy(message: str, created: float) -> bool:
    """Whether a fork made this message: its id is younger than the time it has."""
    found = _ID_TIME.match(message)
    if found is None or not created:
        return False
    return 1000 < ((int(found[1], 16) >> 12) - int(created)) % _WRAP < _WRAP // 2


def created_at(fields: Fields) -> float:
    time = fields.get("time")
    created = time.get("created") if isinstance(time, dict) else fields.get("time_created")
    return created if isinstance(created, int | float) and math.isfinite(created) else 0


def began(sessions: dict[str, OpenCodeRecord], session: str) -> tuple[float, str]:
    """Sessions are written in the order in which they began: parents first."""
    record = sessions.get(session)
    return (created_at(record.fields) if record is not None else 0, session)


class StoreFacts:
    """What concerns several sessions, found where one of them asks for it: who said copied messages first, whose calls parts
    without a message are.
    """

    def __init__(self, store: OpenCodeStore, sessions: dict[str, OpenCodeRecord]) -> None:
        self._store, self._sessions = store, sessions

    @cached_property
    def firsts(self) -> dict[tuple[object, ...], str]:
        """The session that said a message first, where forks may have copied it."""
        said = [
            (began(self._sessions, session), created_at(message.fields), message.id, message, session)
            for message in self._store.every("message")
            if not is_copied(message) and (session := str(message.fields.get("sessionID") or ""))
        ]
        found: dict[tuple[object, ...], str] = {}
        for *_, message, session in sorted(said, key=lambda one: one[:3]):
            found.setdefault(told_when(message), session)
        return found

    @cached_property
    def orphans(self) -> list[tuple[str, OpenCodeRecord, str, dict[str, int]]]:
        """Steps whose message a revert deleted, by session. A fork that was made before may hold the same call."""
        messages: dict[str, OpenCodeRecord] = {}
        steps: dict[str, list[OpenCodeRecord]] = {}
        for record in self._store.every("message", "part"):
            light = msgspec.structs.replace(record, original=b"")
            if record.table == "message":
                messages[record.id] = light
            elif record.fields.get("type") == "step-finish":
                steps.setdefault(str(record.fields.get("messageID")), []).append(light)
        copies: dict[tuple[object, ...], list[str]] = {}
        own: set[str] = set()
        for message in messages.values():
            version = self._version(str(message.fields.get("sessionID") or ""))
            parts = sorted(steps.get(message.id, ()), key=lambda one: one.id)
            for key, counts, cost in steps_of(message, parts, version):
                if is_copied(message):
                    copies.setdefault((*sorted(counts.items()), cost), []).append(key)
                else:
                    own.add(key)
        lost = [part for name, parts in steps.items() if name not in messages for part in parts]
        return [self._orphan(part, copies, own) for part in sorted(lost, key=lambda one: one.id)]

    def _orphan(
        self, part: OpenCodeRecord, copies: dict[tuple[object, ...], list[str]], own: set[str]
    ) -> tuple[str, OpenCodeRecord, str, dict[str, int]]:
        session = str(part.fields.get("sessionID") or "")
        counts = _split(part.fields.get("tokens"), None, self._version(session))
        same = copies.get((*sorted(counts.items()), part.fields.get("cost")), [])
        twin = next((key for key in same if key not in own), None)
        if twin is not None:
            same.remove(twin)
        return session, part, twin or made.key_of("opencode", part.id), counts

    def _version(self, session: str) -> tuple[int, ...] | None:
        record = self._sessions.get(session)
        return version_of(record.fields.get("version")) if record is not None else None


def steps_of(
    message: OpenCodeRecord, parts: Iterable[OpenCodeRecord], version: tuple[int, ...] | None
) -> Iterator[tuple[str, dict[str, int], object]]:
    """The model calls of an answer: its finished steps, or its own numbers where it has none."""
    fields = message.fields
    steps = [part.fields for part in parts if part.fields.get("type") == "step-finish"]
    if not steps and fields.get("role") == "assistant":
        steps = [fields]
    same: dict[tuple[int, ...], int] = {}
    for step in steps:
        counts = _split(step.get("tokens"), fields.get("providerID"), version)
        if any(counts.values()):
            fact = (
                created_at(fields),
                fields.get("providerID"),
                fields.get("modelID"),
                sorted(counts.items()),
            )
            used = tuple(counts.values())
            same[used] = same.get(used, 0) + 1
            yield made.key_of("opencode", *fact, same[used]), counts, step.get("cost")


def _split(tokens: object, provider: object, version: tuple[int, ...] | None) -> dict[str, int]:
    """Disjoint counts. Clients changed their minds about what input and output include."""
    given: Fields = tokens if isinstance(tokens, dict) else {}
    cache: Fields = given["cache"] if isinstance(given.get("cache"), dict) else {}
    counts = {
        "input": _count(given.get("input")),
        "cache_read": _count(cache.get("read")),
        "cache_write": _count(cache.get("write")),
        "output": _count(given.get("output")),
        "reasoning": _count(given.get("reasoning")),
    }
    is_old = version is not None and version < _CACHED_APART
    if is_old and counts["input"] >= counts["cache_read"] and provider not in _OWN_CACHE_COUNTS:
        counts["input"] -= counts["cache_read"]
    if counts["reasoning"]:
        total = given.get("total")
        flat = sum(counts.values()) - counts["reasoning"]
        if total == flat or (total is None and "google" not in str(provider or "")):
            counts["output"] = max(0, counts["output"] - counts["reasoning"])
    return counts


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def version_of(text: object) -> tuple[int, ...] | None:
    found = re.match(r"v?(\d+)\.(\d+)\.(\d+)", text) if isinstance(text, str) else None
    return None if found is None else tuple(int(part) for part in found.groups())
