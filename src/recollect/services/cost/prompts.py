"""What each prompt cost: a response belongs to the last prompt that was typed in its session before it.

Sub-agents work for the prompt of their session. Prompts are known to the index; their texts are read from the logs.
"""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Collection
from pathlib import Path

from recollect.errors import NotFound, StorageError
from recollect.index.database import IndexDatabase
from recollect.index.prompt_queries import TypedPromptRow, typed_prompts
from recollect.index.schema import id_text
from recollect.model.codec import decode
from recollect.model.damage import Damage, Line
from recollect.model.prompts import typed_text, typed_texts
from recollect.storage.logs.reader import OpenLog


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
