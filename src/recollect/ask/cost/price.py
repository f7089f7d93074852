"""What an entry, a message or a session cost, and what each prompt did.

The sums of sessions are those of the cost report, from the same table and at the same prices, for lists of ten thousand.
A response belongs to the last prompt typed before it; sub-agents work for the prompt of their session. Prompts are known
to the index; their texts are read from the logs.
"""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Collection
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from recollect.errors import NotFound, StorageError
from recollect.index.access import OpenIndex
from recollect.index.cost_queries import UsageQuery, UsageTables, unrecorded_logs
from recollect.index.database import IndexDatabase
from recollect.index.schema import id_text
from recollect.index.stat_queries import TypedPromptRow, typed_prompts
from recollect.model.budget import PICO
from recollect.model.cost.calendar import UNKNOWN, Timeline
from recollect.model.cost.money import Spending
from recollect.model.cost.report import group_spending
from recollect.model.lines.codec import decode
from recollect.model.lines.damage import Damage, Line
from recollect.model.lines.entry import Entry
from recollect.model.text.titles import typed_text, typed_texts
from recollect.model.views.facts import usage_facts
from recollect.model.views.ledger import Ledger
from recollect.store.logs.reader import OpenLog
from recollect.store.own_settings import price_list

if TYPE_CHECKING:
    from recollect.model.conversation.conversation import Message


def price(what: Entry | Message) -> Spending | None:
    """Tokens and money of an entry, or of the response a message is; None where it says nothing of usage.

    Prices are the package's and, before them, those of the user's config.toml. The lines of one response repeat
    its usage, and so do forks: to add up, take ``Home.responses``, which counts each once.
    """
    ledger = Ledger(price_list())
    for entry in [what] if isinstance(what, Entry) else what.entries:
        ledger.add(usage_facts(entry.raw))
    return ledger.total() if ledger.responses else None


class Performance(Struct, frozen=True):
    """How fast an answer came. ``responses`` are those whose duration is known."""

    responses: int
    duration_ms: int
    output_tokens: int
    tokens_per_second: float | None
    tokens_per_dollar: float | None


def performance(what: Entry | Message) -> Performance | None:
    """How fast an answer came, and how many of its output tokens a dollar bought; None where it says nothing of usage.

    The duration is the one the client recorded (``durationMs``); newer clients record none, and the speed is then
    None. The cost is what the client recorded (``costUSD``), else the price as in ``price``.
    """
    spent = price(what)
    if spent is None:
        return None
    said = [usage_facts(entry.raw) for entry in ([what] if isinstance(what, Entry) else what.entries)]
    answers = [facts.response for facts in said if facts is not None and facts.response is not None]
    duration = max((one.duration_ms or 0 for one in answers), default=0)
    recorded = max((Decimal(one.recorded) for one in answers if one.recorded), default=None)
    output = spent.tokens.output
    pico = spent.pico_usd if recorded is None else int(recorded * PICO)
    return Performance(
        1,
        duration,
        output,
        round(output * 1000 / duration, 2) if duration else None,
        round(output * PICO / pico, 1) if pico > 0 else None,
    )


class PromptTimes:
    """The prompts of every session in the order of time."""

    def __init__(self, database: IndexDatabase) -> None:
        self._prompts: dict[str, list[TypedPromptRow]] = {}
        for row in typed_prompts(database):
            self._prompts.setdefault(row.session, []).append(row)
        self._times = {session: [row.at for row in rows] for session, rows in self._prompts.items()}

    def at(self, session: str, at: int | None) -> str | None:
        """The id of the prompt that a response at this time answers; None if none is known."""
        times = self._times.get(session)
        if times is None or at is None:
            return None
        place = bisect.bisect_right(times, at)
        return id_text(self._prompts[session][place - 1].uuid) if place else None

    def texts(self, wanted: Collection[str]) -> dict[str, str]:
        """What was typed, by the ids of prompts; one that can no longer be read is left out."""
        names = set(wanted)
        found: dict[str, str] = {}
        for rows in self._prompts.values():
            for row in rows:
                name = id_text(row.uuid)
                if name in names:
                    with contextlib.suppress(NotFound, StorageError):
                        found[name] = _text(row)
        return {name: text for name, text in found.items() if text}


def _text(row: TypedPromptRow) -> str:
    with OpenLog(Path(row.path)) as log:
        data = log.read_all(row.length, row.offset).removesuffix(b"\n")
    item = decode(Line(data, row.offset))
    entry = item.readable if isinstance(item, Damage) else item
    if entry is None:
        return ""
    return " ".join((typed_text(entry) or next(iter(typed_texts(entry)), "")).split())


_SESSIONS = "SELECT id, session FROM files"
# Up to so many sessions are asked for by their logs; more are summed with all others.
_FEW = 500


def session_sums(opened: OpenIndex, only: Collection[str] | None = None) -> dict[str, Spending]:
    """By session id, over its log and its agents'; ``only`` names those that are needed, others may be left out.

    One that is left out though it was asked for used nothing.
    """
    database, prices = opened.database, price_list()
    if only is not None and len(only) > _FEW:
        only = None
    chosen = "" if only is None else f" WHERE session IN ({','.join('?' * len(only))})"
    sessions = dict(cast("list[tuple[int, str | None]]", database.rows(_SESSIONS + chosen, *only or ())))
    tables = UsageTables(database)
    timeline = Timeline((), lambda _: 0, changes=prices.changes(tables.models()))
    files = None if only is None else sessions.keys()
    sums: dict[str, Spending] = {}
    for group in tables.sums(UsageQuery(timeline, frozenset(["file"]), files)):
        if group.responses:
            session = sessions.get(cast("int", group.log)) or UNKNOWN
            sums[session] = sums.get(session, Spending()) + group_spending(group, prices)
    unused = [file for file, session in sessions.items() if session not in sums]
    # Few sessions of a list have to be looked at.
    for log in unrecorded_logs(database, unused) if unused else ():
        sums[log.session] = Spending(is_unknown=True)
    return sums
