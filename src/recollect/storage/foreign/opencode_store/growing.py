"""Sessions of OpenCode that go on: what a pass keeps of their last messages, so that the next one reads no others.

Clients add messages at the end, and write again what they said last: parts that grow, calls that end, the newest prompts.
As long as nothing else changed, only those messages are read and told. If anything else changed, the whole session is told again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import NamedTuple

from msgspec import Struct

from recollect.storage.foreign.lines import LineFields

# How many messages at the end of a session are kept, and how many prompts: clients note there what a turn has changed.
_LAST, _PROMPTS = 8, 2
# Sessions whose ends are kept, and from which size on: small ones are told again as quickly.
MOST, SMALLEST = 8, 100_000
MOST_STALE = 4096


class ToldMessage(Struct, frozen=True, array_like=True, gc=False):
    """A message as the log has it: its links and model calls, the link it follows, and marks of its records by source."""

    id: str
    created: float
    above: str | None
    links: list[str]
    calls: list[str]
    records: dict[str, str]

    @property
    def ids(self) -> list[str]:
        """Of all that the log has of it."""
        return [*self.links, *self.calls]

    @property
    def end(self) -> str | None:
        """What the next message follows."""
        return self.links[-1] if self.links else self.above


class GrowingEnd(NamedTuple):
    """The messages of a session that may still change. No other has an id behind ``last``."""

    messages: list[str]
    last: str


class GrowingSession(Struct, frozen=True):
    """What a pass goes on from: ``told`` are the last messages, ``before`` is a mark of the rows of all others, and
    ``others`` of records that belong to no message. ``about`` has the facts of the session that every line repeats.

    ``stale`` are digests of ids that are in the log and no longer in the conversation: a message that returns to an earlier
    state must not be written twice.
    """

    about: str
    told: list[ToldMessage]
    others: dict[str, str]
    stale: frozenset[int]
    before: str = ""
    last: str = ""
    events: str | None = None

    @property
    def end(self) -> GrowingEnd:
        return GrowingEnd([one.id for one in self.told], self.last)

    @property
    def marks(self) -> dict[str, str]:
        """Of all records that are kept, by source."""
        return {source: mark for one in self.told for source, mark in one.records.items()} | self.others

    @property
    def ids(self) -> set[str]:
        return {name for one in self.told for name in one.ids}

    def is_joined_from(self, number: int) -> bool:
        """Whether all messages from one on are here: what follows another link than before is told again."""
        return all(one.end == after.above for one, after in pairwise(self.told[number:]))


def growing_end(messages: Sequence[tuple[str, bool]]) -> GrowingEnd | None:
    """The end of a session; None where ids cannot tell the order. Each message is an id, and whether it is a prompt."""
    if not messages or not all(name.isascii() for name, _ in messages):
        return None
    prompts = [number for number, (_, is_prompt) in enumerate(messages) if is_prompt][-_PROMPTS:]
    kept = sorted({*prompts, *range(max(0, len(messages) - _LAST), len(messages))})
    return GrowingEnd([messages[number][0] for number in kept], max(name for name, _ in messages))


def digest(name: str) -> int:
    """A short form of an id."""
    return int.from_bytes(blake2b(name.encode(), digest_size=7).digest())


def stale_ids(written: Iterable[str], current: Collection[str]) -> frozenset[int]:
    """Digests of ids that are in a log and not current."""
    return frozenset(digest(name) for name in written if name not in current)


def in_order(told: Sequence[ToldMessage], now: Sequence[tuple[str, float]]) -> bool:
    """Whether the messages of now, by id and time, begin with those that were told."""
    return [(one.id, one.created) for one in told] == [*now[: len(told)]]


def keep_growing(growing: dict[str, GrowingSession], session: str, now: GrowingSession) -> None:
    """The session that changed last stands last; the first ones make room."""
    growing.pop(session, None)
    growing[session] = now
    for name in [*growing][:-MOST]:
        del growing[name]


def ids_of(lines: Iterable[LineFields]) -> list[str]:
    return [str(line["uuid"]) for line in lines]
