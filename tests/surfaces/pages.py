"""The documents of the page, and exported pages."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from typing import Any

from recollect.cli.terminal.text import visible
from tests.surfaces.case import Case
from tests.surfaces.commands import UNKNOWN_COST, UNPRICED_COST, fine_cents, used
from tests.surfaces.record import (
    TOKENS,
    UNRECORDED,
    USAGE,
    Record,
    Surface,
    dollars,
    is_unrecorded,
    moment,
)
from tests.web.pages import Browser, served

_TOLD = ("title", "cwd", "first_at", "last_at", "lines", "agents", "tag", "damaged")
_LISTED = (*_TOLD, "messages", "responses", "cost_usd", "is_unpriced", UNRECORDED)
_TRANSCRIBED = ("messages", "agents", "tag", "damaged")
_TEAM_LISTED = tuple(field for field in _LISTED if field not in (*_TRANSCRIBED, UNRECORDED))
# Whether a client wrote down no usage or has not answered yet is not known: then the cost is not known.
_TEAM_SHOWN = {"cost_usd": lambda one: UNKNOWN_COST["cost_usd"](one) if one["responses"] else None}
_HEAD = (*_TOLD, "messages", "responses", *TOKENS, "cost_usd", "is_unpriced", UNRECORDED)


def surfaces(case: Case, names: Sequence[str], opened: Sequence[str]) -> Iterator[Surface]:
    """What the page is told."""
    with Browser(served(case.home, case.data)) as browser:
        yield from page_surfaces("page", browser.get, names, opened)


def page_surfaces(
    name: str, get: Any, names: Sequence[str], opened: Sequence[str], *, is_of_team: bool = False
) -> Iterator[Surface]:
    """The documents of one page: ``get`` asks for one. The list of a team's page is made without transcripts."""
    rows = get("/api/sessions?count=500")["sessions"]
    told, shown = (_TEAM_LISTED, _TEAM_SHOWN) if is_of_team else (_LISTED, UNKNOWN_COST)
    records = {row["id"]: _row(row, _LISTED) for row in rows}
    yield Surface(f"{name}: list", told, records, shown, names)
    if is_of_team:
        # What it cannot know is null, and not a wrong number.
        nothing = dict.fromkeys(_TRANSCRIBED, lambda _: None)
        yield Surface(f"{name}: unknown in the list", _TRANSCRIBED, records, nothing, names)
    heads = {one: _row(get(f"/api/sessions/{one}"), _HEAD) for one in opened}
    yield Surface(f"{name}: head", _HEAD, heads, UNKNOWN_COST, opened)
    yield Surface(
        f"{name}: cost", USAGE, used(get("/api/cost?by=session")["rows"], names), UNPRICED_COST, names
    )


def _row(row: dict[str, Any], fields: Sequence[str]) -> Record:
    found: Record = {field: row[field] for field in fields if field in row}
    found |= {
        "title": row["title"] or "",
        "cwd": row["cwd"] or "",
        "first_at": moment(row["first_at"]),
        "last_at": moment(row["last_at"]),
        "cost_usd": dollars(row["cost_usd"]),
        "is_unpriced": bool(row["unpriced"]),
        UNRECORDED: is_unrecorded(row),
    }
    return found


# ---- exported pages --------------------------------------------------------------------------------------


class _Facts(HTMLParser):
    """The heading of a page, and its facts."""

    def __init__(self) -> None:
        super().__init__()
        self.title = ""
        self.facts: dict[str, str] = {}
        self._in: list[str] = []
        self._name = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in.append(tag)
        if tag == "article":
            raise StopIteration

    def handle_endtag(self, tag: str) -> None:
        while self._in and self._in.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "h1" in self._in:
            self.title += data
        elif "dt" in self._in:
            self._name = data
            self.facts[data] = ""
        elif "dd" in self._in:
            self.facts[self._name] += data


def exported(case: Case, names: Sequence[str]) -> Surface:
    """What stands above each conversation, as a file for colleagues."""
    found = {name: one for name in names if (one := _exported(case, name)) is not None}
    fields = ("title", "cwd", "time", "messages", "responses", "agents", "tag", "damaged", "used")
    counts = ("messages", "responses", "agents", "damaged")
    return Surface(
        "export --format html",
        fields,
        found,
        {
            "title": lambda one: " ".join(visible(str(one["title"])).split()),
            "time": _time,
            "used": _used,
            "tag": lambda one: one["tag"] or "",
            **{field: _counted(field) for field in counts},
        },
        names=(),
    )


def _counted(field: str) -> Any:
    return lambda one: f"{one[field]:,}" if one[field] else ""


def _exported(case: Case, name: str) -> Record | None:
    """None where there is no conversation to write."""
    page = case.said("export", name, "--format", "html", "--no-redact")
    if not page:
        return None
    facts = _Facts()
    with contextlib.suppress(StopIteration):
        facts.feed(page)
    told = facts.facts
    title = "" if facts.title == f"Session {name[:8]}" else facts.title
    return {
        "title": title,
        "cwd": told.get("Directory", ""),
        "time": told.get("Time", ""),
        # The whole story is written; the figure of a list is what a resume loads of it.
        "messages": told.get("Messages", "").rpartition(", ")[2].partition(" ")[0],
        "responses": told.get("Responses", "").partition(" ")[0],
        "agents": told.get("Agents", "").partition(" ")[0],
        "tag": told.get("Tag", ""),
        "damaged": told.get("Damaged lines", "").partition(" ")[0],
        "used": _without_names(told.get("Used", "")),
    }


def _without_names(used: str) -> str:
    """Without the models that have no price; where no model has one, no cost is known."""
    known = used.partition(" without ")[0]
    return known.removesuffix(",").replace("cost not known", "-")


def _time(one: Record) -> str:
    times = [moment(one[field]) for field in ("first_at", "last_at")]
    return " to ".join(f"{at:%Y-%m-%d %H:%M} UTC" for at in times if at is not None)


def _used(one: Record) -> str:
    """Tokens by kind and money, as the page words them."""
    writes = int(str(one["cache_write_5m_tokens"])) + int(str(one["cache_write_1h_tokens"]))
    parts = [
        ("in", one["input_tokens"]),
        ("cache read", one["cache_read_tokens"]),
        ("cache write", writes),
        ("out", one["output_tokens"]),
    ]
    tokens = ", ".join(f"{name} {count:,}" for name, count in parts if count) or "no"
    return f"{tokens} tokens, {'no usage recorded: cost unknown' if one[UNRECORDED] else fine_cents(one)}"
