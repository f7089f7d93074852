"""The commands, as text and as documents."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from recollect import DamageCode
from recollect.cli.terminal.text import shortened, visible, width
from recollect.model.lines.ids import short_id
from tests.surfaces.case import Case
from tests.surfaces.record import (
    TOKENS,
    UNRECORDED,
    USAGE,
    Record,
    Records,
    Surface,
    dollars,
    is_unrecorded,
    known_cost,
    moment,
    nothing_used,
    priced_cost,
)

_TITLE_COLUMNS = 44
_BEFORE_TITLE = 8 + 2 + 13 + 2 + 8 + 2  # id, age and size, with the gaps between columns
_LISTED = (
    "title",
    "cwd",
    "first_at",
    "last_at",
    "messages",
    "lines",
    "agents",
    "tag",
    "damaged",
    "responses",
    "cost_usd",
    "is_unpriced",
    UNRECORDED,
)
UNKNOWN_COST, UNPRICED_COST = {"cost_usd": known_cost}, {"cost_usd": priced_cost}


def surfaces(case: Case, names: Sequence[str], *options: str) -> Iterator[Surface]:
    """All of them; ``options`` say whether the index is used."""
    with_index = f" {' '.join(options)}" if options else ""
    yield Surface(f"list --json{with_index}", _LISTED, listed(case, *options), UNKNOWN_COST)
    yield _text_list(case, names, *options)
    yield Surface(f"cost --json{with_index}", USAGE, _costs(case, names, *options), UNPRICED_COST)
    yield _text_costs(case, names, *options)


def readers(case: Case, names: Sequence[str], opened: Sequence[str]) -> Iterator[Surface]:
    """Those that look at one session, and those that look at the home as a whole: no index is asked."""
    shown = {name: _shown(case, name) for name in opened}
    yield Surface(
        "show --json", ("messages", "damaged"), {name: one for name, one in shown.items() if one}, names=()
    )
    agents: Records = {
        name: {"agents": len(case.document("show", name, "--sub-agents")["agents"])} for name in opened
    }
    yield Surface("agents --json", ("agents",), agents, names=opened)
    yield Surface("check --json", ("damaged",), _checked(case, names))
    # The summary counts the logs of sub-agents too, so it is compared where there are none.
    checked = {name: case.document("doctor", name, "--no-secrets")["summary"] for name in opened}
    counts = ("lines", "damaged")
    alone = {name: _row(one, counts) for name, one in checked.items() if one["logs"] == 1}
    yield Surface("check S --json", counts, alone, names=())
    newest = case.document()["newest"]
    fields = ("title", "cwd", "last_at")
    yield Surface("overview --json", fields, {row["id"]: _row(row, fields) for row in newest}, names=())


def listed(case: Case, *options: str) -> Records:
    """The sessions of ``list --json``, in its order."""
    rows = case.document("list", *options)["sessions"]
    return {row["id"]: _row(row, _LISTED) for row in rows}


def newest(case: Case) -> list[str]:
    """The ids of the sessions the overview shows."""
    return [row["id"] for row in case.document()["newest"]]


def _row(row: dict[str, Any], fields: Sequence[str]) -> Record:
    found: Record = {field: row[field] for field in fields if field in row}
    for field in ("first_at", "last_at"):
        if field in found:
            found[field] = moment(found[field])
    for field in ("title", "cwd"):
        found[field] = found.get(field) or ""
    if "cost_usd" in found:
        found["cost_usd"] = dollars(found["cost_usd"])
        found[UNRECORDED] = is_unrecorded(row)
        found["is_unpriced"] = bool(row.get("unpriced"))
    return found


def used(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> Records:
    """The rows of a cost document by session; sessions that cost nothing have none."""
    found = {
        row["session"]: {
            "responses": row["responses"],
            **{field: row[field] for field in TOKENS},
            "cost_usd": dollars(row["cost_usd"]),
            "is_unpriced": bool(row["unpriced_responses"]),
        }
        for row in rows
    }
    return {name: found.get(name, nothing_used()) for name in names}


def _costs(case: Case, names: Sequence[str], *options: str) -> Records:
    return used(case.document("cost", "--by", "session", *options)["rows"], names)


def _shown(case: Case, name: str) -> Record | None:
    """None where the client would find no conversation: there is nothing to show."""
    document = json.loads(case.said("show", name, "--no-whole", "--json"))
    if "error" in document:
        return None
    return {"messages": document["total"], "damaged": len(document["findings"])}


def _checked(case: Case, names: Sequence[str]) -> Records:
    codes = {*(code.value for code in DamageCode), "skipped-bytes"}
    findings = case.document("doctor", "--no-secrets", "--limit", "0")["findings"]
    found = Counter(one["session"] for one in findings if one["code"] in codes and not one["agent"])
    return {name: {"damaged": found[name]} for name in names}


# ---- text ------------------------------------------------------------------------------------------------


def _text_list(case: Case, names: Sequence[str], *options: str) -> Surface:
    by_start = {visible(short_id(name)): name for name in names}
    longest = max((len(start) for start in by_start), default=8)
    found = {}
    for line in case.said("list", "--all", *options).splitlines():
        start, rest = line[:longest].rstrip(), line[longest - 8 + _BEFORE_TITLE :]
        title, rest = _columns(rest, _TITLE_COLUMNS)
        place, *marks = rest.strip().split("  ")
        agents = next(
            (int(mark.split()[0].replace(",", "")) for mark in marks if mark.endswith(("agent", "agents"))), 0
        )
        tag = next((mark[1:] for mark in marks if mark.startswith("#")), None)
        found[by_start[start]] = {"title": title.rstrip(), "place": place, "agents": agents, "tag": tag}
    return Surface(
        " ".join(["list", *options]),
        ("title", "place", "agents", "tag"),
        found,
        {
            "place": lambda one: visible(str(one["cwd"] or one["directory"])),
            "title": lambda one: shortened(visible(str(one["title"])) or "(no title)", _TITLE_COLUMNS),
            "tag": lambda one: visible(str(one["tag"])) if one["tag"] else None,
        },
    )


def _columns(text: str, columns: int) -> tuple[str, str]:
    """A text cut after so many columns of a terminal."""
    end = 0
    while end < len(text) and width(text[: end + 1]) <= columns:
        end += 1
    return text[:end], text[end:]


def _text_costs(case: Case, names: Sequence[str], *options: str) -> Surface:
    head, *rows, _ = case.said("cost", "--by", "session", *options).splitlines() or [""]
    by_start = {short_id(name): name for name in names}
    columns = re.split(r"\s{2,}", head.strip())
    found = {name: dict.fromkeys(columns[1:], "0") | {"cost": "$0.00"} for name in names}
    # Between the id and the figures stands the title, which may hold anything.
    figures = re.compile(rf"\s((?:[\d,]+\s+){{{len(columns) - 2}}}(?:-?\$[\d.,]+|-))(?:\s\s.*)?$")
    for row in rows:
        start, said = row.partition(" ")[0], figures.search(row)
        if start in by_start and said is not None:
            found[by_start[start]] = dict(zip(columns[1:], said[1].split(), strict=True))
    heads = {"responses": "responses", "input": "input_tokens", "output": "output_tokens", "cost": "cost_usd"}
    heads |= {"cache write": "cache_write", "cache read": "cache_read_tokens"}
    records: Records = {
        name: {heads[column]: value for column, value in one.items() if column in heads}
        for name, one in found.items()
    }
    written = {
        field: _figure(field) for field in ("responses", "input_tokens", "output_tokens", "cache_read_tokens")
    }
    return Surface(
        " ".join(["cost", *options]),
        ("responses", "input_tokens", "output_tokens", "cache_write", "cache_read_tokens", "cost_usd"),
        records,
        {**written, "cache_write": _cache_writes, "cost_usd": cents},
    )


def _figure(field: str):  # type: ignore[no-untyped-def]
    return lambda one: f"{one[field]:,}"


def _cache_writes(one: Record) -> str:
    return f"{int(str(one['cache_write_5m_tokens'])) + int(str(one['cache_write_1h_tokens'])):,}"


def cents(one: Record) -> str:
    """Money as people see it; what has no price is not free."""
    amount = Decimal(str(one["cost_usd"]))
    if not amount and one["is_unpriced"]:
        return "-"
    return written(amount)


def written(amount: Decimal, smallest: str = "0.01") -> str:
    """Dollars, to so many places."""
    return f"${amount.quantize(Decimal(smallest), ROUND_HALF_UP):,}"


def fine_cents(one: Record) -> str:
    """The same on pages, which show single sessions: below ten cents with four places."""
    amount = Decimal(str(one["cost_usd"]))
    return written(amount, "0.0001") if 0 < amount < Decimal("0.1") else cents(one)
