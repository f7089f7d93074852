"""Entries through which a transcript addresses the model in the client's name.

A ``prompt_snapshot`` becomes the system prompt when client 2.1.325 resumes, and ``rendered`` notes are sent
unchanged. The author of a file therefore controls what the model reads: a transcript from elsewhere must be
treated as code. This module finds such entries so that an importer or a viewer can show them before a resume.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct, UnsetType

from recollect.model.brief_repr import brief_repr
from recollect.model.damage import Damage, readable_entries
from recollect.model.entry import Attachment, Entry
from recollect.model.json.text import loose_object


class Influence(Struct, frozen=True):
    """One entry that is sent in the client's name."""

    uuid: str | None
    offset: int
    what: str  # prompt_snapshot or rendered

    __repr__ = brief_repr


def influences(items: Iterable[Entry | Damage]) -> Iterator[Influence]:
    """All of them, in file order."""
    for entry in readable_entries(items):
        if isinstance(entry.body, Attachment):
            if loose_object(bytes(entry.body.attachment)).get("type") == "prompt_snapshot":
                yield Influence(entry.uuid, entry.offset, "prompt_snapshot")
            if not isinstance(entry.body.rendered, UnsetType):
                yield Influence(entry.uuid, entry.offset, "rendered")
