"""What requests may say: the parameters of addresses, and the bodies of changes. Every text and number has a bound."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from recollect.ask.conversation.conversation import ConversationView
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
How = Literal["words", "substring", "regex", "best"]
Sort = Literal["last", "first", "cost", "bytes", "lines", "messages", "title"]


class Query(Struct, kw_only=True, forbid_unknown_fields=True, rename=lambda name: name.rstrip("_")):
    """Parameters of an address."""


class Body(Struct, kw_only=True, forbid_unknown_fields=True):
    """The JSON object of a POST."""


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
    count: Annotated[int, Meta(ge=1, le=500)] = 100


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


class FigureQuery(StatsQuery):
    """One figure of the statistics."""

    work: Literal["calls", "failures", "retries", "edits", "commits"] | None = None
    tool: Short | None = None
    kind: Annotated[Short, Meta(description="the type of a sub-agent")] | None = None
    agents: Annotated[bool, Meta(description="of sub-agents only")] = False
    model: Short | None = None
    repo: Text | None = None
    day: Annotated[str, Meta(max_length=10, description="2026-01-31, a day of that time zone")] | None = None
    weekday: Annotated[int, Meta(ge=0, le=6, description="Monday is 0")] | None = None
    hour: Annotated[int, Meta(ge=0, le=23)] | None = None


class EditsQuery(Query):
    """Edits of files."""

    project: Text | None = None
    text: Annotated[Text, Meta(description="part of a file's path")] | None = None
    from_: Place = 0
    count: Annotated[int, Meta(ge=1, le=200)] = 100


# ---- one session -----------------------------------------------------------------------------------------


class ViewQuery(Query):
    """Which conversation of a session."""

    branch: Annotated[Id, Meta(description="the conversation that ends at this entry")] | None = None
    before: Annotated[int, Meta(ge=1, le=100_000, description="before this compaction")] | None = None
    agent: Annotated[Id, Meta(description="a sub-agent's own conversation")] | None = None
    whole: Annotated[bool, Meta(description="include what compactions hide")] = False

    def view(self) -> ConversationView:
        return ConversationView(self.branch or None, self.before, self.agent or None, self.whole)


class WindowQuery(ViewQuery):
    """A window of messages."""

    from_: Annotated[int, Meta(ge=-(1 << 40), le=1 << 40)] = 0
    count: Annotated[int, Meta(ge=1, le=200)] = 50


class PromptsQuery(ViewQuery):
    """Some prompts."""

    from_: Place = 0
    count: Annotated[int, Meta(ge=1, le=500)] = 100


class PositionQuery(Query):
    """A line, by its id or its place."""

    uuid: Id | None = None
    offset: Place | None = None
    line: Annotated[int, Meta(ge=1, le=1 << 40, description="of its log, counted from 1")] | None = None
    agent: Id | None = None
    whole: Annotated[bool, Meta(description="prefer the view with what compactions hide")] = False


class HitsQuery(ViewQuery, kw_only=True):
    """A search in one conversation."""

    q: Text
    how: How = "words"
    kinds: Kinds | None = None


class EventsQuery(ViewQuery):
    """A conversation to watch."""

    after: Place | None = None


# ---- changes ---------------------------------------------------------------------------------------------


class StarBody(Body):
    """Star a session, or not."""

    on: bool = True


class PinBody(Body, kw_only=True):
    """Pin a message, or not."""

    uuid: Id
    on: bool = True
    text: Short | None = None


class ChangeBody(Body):
    """A change, or its plan."""

    apply: Annotated[bool, Meta(description="make the change; without it the answer is the plan")] = False


class TitleBody(ChangeBody, kw_only=True):
    """A new title."""

    title: Label


class TagBody(ChangeBody, kw_only=True):
    """A new tag."""

    tag: Label


class ForkBody(ChangeBody):
    """A copy that ends at an entry."""

    at: Id | None = None
    title: Label | None = None


class RepairBody(ChangeBody):
    """A repair, as a copy unless in place."""

    in_place: bool = False
    slim: bool = False


class RestoreBody(ChangeBody, kw_only=True):
    """A version of a file, and the directory to write it to."""

    path: PathText
    number: Version
    to: PathText
    overwrite: bool = False


class ExportBody(Body):
    """A file to save."""

    format: Annotated[str, Meta(max_length=40)]
    redact: bool = True
    whole: bool = False


class ArchiveBody(ChangeBody, kw_only=True):
    """Which sessions to archive."""

    which: Literal["all", "expiring"]


class CleanupBody(ChangeBody):
    """Which sessions are old."""

    days: Annotated[float, Meta(ge=1, le=36_500)] = 90
    project: Text | None = None


class UndoBody(ChangeBody, kw_only=True):
    """A change to undo."""

    id: Short


def kinds_of(text: str | None) -> list[str] | None:
    """The kinds of text that were named; None where none was."""
    words = [word for word in (text or "").split(",") if word]
    for word in words:
        if word not in TEXT_KINDS:
            raise UsageError(
                f"kinds: {word[:40]!a} is not a valid value", hint=f"one or more of {', '.join(TEXT_KINDS)}"
            )
    return words or None
