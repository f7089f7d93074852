"""What requests may say: the parameters of addresses, and the bodies of changes. Every text and number has a bound."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from recollect.errors import UsageError
from recollect.model.views.facts import TEXT_KINDS

Name = Annotated[str, Meta(max_length=255)]  # of a session
Id = Annotated[str, Meta(max_length=128)]  # of an entry
Text = Annotated[str, Meta(max_length=1_000)]
Short = Annotated[str, Meta(max_length=200)]
Label = Annotated[str, Meta(max_length=400)]
PathText = Annotated[str, Meta(max_length=4_096)]
Kinds = Annotated[str, Meta(max_length=100, description="comma-separated kinds of text")]
Zone = Annotated[str, Meta(max_length=64)]
Since = Annotated[
    str, Meta(max_length=40, description="2026-01-31, 2026-01-31T10:00:00Z, 7d, yesterday, last month")
]
Until = Annotated[str, Meta(max_length=40, description="the same; a day, week or month includes its end")]
Dollars = Annotated[float, Meta(ge=0, le=1e9, description="dollars")]
Place = Annotated[int, Meta(ge=0, le=1 << 40)]
Version = Annotated[int, Meta(ge=1, le=1_000_000)]
Many = Annotated[int, Meta(ge=1, le=500)]
Apply = Annotated[bool, Meta(description="make the change; without it the answer is the plan")]
How = Literal["words", "substring", "regex", "best"]
Sort = Literal["last", "first", "cost", "bytes", "lines", "messages", "title"]


class Query(Struct, kw_only=True, forbid_unknown_fields=True, rename=lambda name: name.rstrip("_")):
    """Parameters of an address."""


# ---- lists -----------------------------------------------------------------------------------------------


class SessionFilters(Query):
    """The filters that the list and the search have in common."""

    project: Text | None = None
    repository: (
        Annotated[PathText, Meta(description="its directory, as in the facets of the list")] | None
    ) = None
    branch: Text | None = None
    model: Short | None = None
    min_cost: Dollars | None = None
    max_cost: Dollars | None = None
    tag: Annotated[Short, Meta(description="exact, or * for any")] | None = None
    damaged: bool | None = None
    expiring: Annotated[bool, Meta(description="the client deletes it within seven days")] | None = None
    live: bool | None = None
    archived: bool | None = None
    starred: bool | None = None
    since: Since | None = None
    until: Until | None = None


class SessionQuery(SessionFilters):
    """Selects and orders sessions."""

    text: Annotated[Short, Meta(description="words of title, id, directory or branch")] | None = None
    sort: Sort = "last"
    order: Literal["desc", "asc"] = "desc"
    from_: Annotated[int, Meta(ge=0, le=10_000_000)] = 0
    count: Many = 100


class SearchQuery(SessionFilters, kw_only=True):
    """A search in all sessions, or in one."""

    q: Text
    how: How = "words"
    kinds: Kinds | None = None
    session: Name | None = None
    rank: Annotated[bool, Meta(description="best first")] = False
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    width: Annotated[int, Meta(ge=20, le=500)] = 160


class StatsQuery(Query):
    """A range of statistics."""

    since: Since | None = None
    until: Until | None = None
    timezone: Zone | None = None
    project: Text | None = None


class CostQuery(StatsQuery):
    """A cost report."""

    by: Annotated[str, Meta(max_length=100, description="comma-separated keys")] = "day"
    model: Short | None = None
    session: Name | None = None
    mode: Literal["calculate", "display", "auto"] = "calculate"
    explain: bool = False


def kinds_of(text: str | None) -> list[str] | None:
    """The kinds of text that were named; None where none was."""
    words = [word for word in (text or "").split(",") if word]
    for word in words:
        if word not in TEXT_KINDS:
            raise UsageError(
                f"kinds: {word[:40]!a} is not a valid value", hint=f"one or more of {', '.join(TEXT_KINDS)}"
            )
    return words or None
