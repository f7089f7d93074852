"""The index of an exported project: figures, charts and its sessions. Numbers are those of ``recollect stats --json``."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from urllib.parse import quote

from msgspec import Struct

from recollect.model.cost.cents import PICO, fine_dollars
from recollect.model.cost.money import Spending
from recollect.model.markdown_html import attribute, text_html
from recollect.services.documents.cost.stats import StatDayDocument, StatsDocument
from recollect.services.export import html_frame
from recollect.services.export.export import Redactor
from recollect.services.export.html_turns import duration, plural
from recollect.services.list import ListedSession

_FAMILIES = {"opus": (1, 3), "sonnet": (4, 3), "haiku": (7, 2)}
_REST = (9, 4)
_MOST_DAYS = 1000
_HIGH = 100


class ProjectRow(Struct, frozen=True):
    """A session in the index of a project, as every list shows it. ``problem`` says why it has no pages."""

    listed: ListedSession
    title: str = ""
    spending: Spending = Spending()
    problem: str = ""


def project_page(
    project: str, rows: Mapping[str, ProjectRow], figures: StatsDocument | None, redactor: Redactor | None
) -> Iterator[str]:
    """The page, in pieces."""
    name = project if redactor is None else redactor.text(project)
    written = [row for row in rows.values() if not row.problem]
    total = sum((row.spending for row in written), Spending())
    yield html_frame.head(f"Sessions of {name}", charts=True, prompts=False, kinds=False)
    yield f"<h1>Sessions of {text_html(name)}</h1>\n"
    yield html_frame.facts([("Sessions", plural(len(written), "session")), ("Used", html_frame.spent(total))])
    if figures is not None and figures.days:
        yield from _Charts(figures, redactor).pieces()
    yield '<table class="sessions"><thead><tr><th>Session</th><th>Last message</th>'
    yield '<th class="number">Messages</th><th class="number wide">Sub-agents</th><th class="number">Cost</th></tr></thead>\n<tbody>\n'
    for file, row in rows.items():
        yield _line(file, row)
    yield "</tbody></table>\n"
    yield html_frame.foot(
        "Exported by recollect. A response that several sessions share is counted in the one it was made in."
    )


def _line(name: str, row: ProjectRow) -> str:
    if row.problem:
        return (
            f'<tr><td>{text_html(name)}</td><td class="bad" colspan="4">{text_html(row.problem)}</td></tr>\n'
        )
    one = row.listed
    cells = [
        ("number", f"{one.messages or 0:,}"),
        ("number wide", f"{one.agents:,}"),
        ("number", html_frame.money(row.spending)),
    ]
    shown = "".join(f'<td class="{kind}">{text_html(text)}</td>' for kind, text in cells)
    link = f'<a href="{quote(name)}.html">{text_html(row.title)}</a>'
    mark = ' <span class="chip">archived</span>' if one.is_archived else ""
    return f"<tr><td>{link}{mark}</td><td>{html_frame.when(one.last_at)}</td>{shown}</tr>\n"


class _Charts:
    """Cost by day and model, models, tools. Names come from transcripts and are redacted."""

    def __init__(self, figures: StatsDocument, redactor: Redactor | None) -> None:
        self._figures, self._redactor = figures, redactor
        self._models = sorted({model for day in figures.days for model in day.models}, key=model_hue)

    def pieces(self) -> Iterator[str]:
        yield from self._totals()
        yield f'<section class="card"><h2>Cost by day</h2>\n{self._days()}</section>\n<div class="tiles">\n'
        yield '<section class="card"><h2>Models</h2>\n'
        yield _table(
            ["Model", "Responses", "Cost"],
            (
                [self._swatch(one.name), f"{one.responses:,}", _amount(one.cost_usd, one.unpriced_responses)]
                for one in self._figures.models
            ),
        )
        yield '</section>\n<section class="card"><h2>Tools</h2>\n'
        yield _table(
            ["Tool", "Calls", "Failed", "Retries", "Time"],
            (
                [
                    self._name(one.name),
                    f"{one.calls:,}",
                    f"{one.failures:,}",
                    f"{one.retries:,}",
                    duration(one.duration_ms),
                ]
                for one in self._figures.tools
            ),
        )
        yield "</section>\n</div>\n"

    def _totals(self) -> Iterator[str]:
        whole, cache = self._figures.periods[-1], self._figures.cache
        shown = [
            (
                "Cost",
                _amount(self._figures.total_cost_usd, whole.unpriced_responses),
                plural(whole.sessions, "session"),
            ),
            ("Responses", f"{whole.responses:,}", f"{whole.tokens:,} tokens"),
            ("Edits", f"{whole.edits:,}", plural(whole.commits, "commit")),
            ("Saved by caching", _amount(cache.saved_usd), f"without it {_amount(cache.uncached_usd)}"),
        ]
        boxes = (f"<p><span>{name}</span><b>{big}</b><span>{small}</span></p>" for name, big, small in shown)
        yield f'<div class="figures">{"".join(boxes)}</div>\n'

    def _days(self) -> str:
        days = _filled(self._figures.days)
        highest = max((Decimal(day.cost_usd or 0) for day in days), default=Decimal(0))
        bars = "".join(self._bar(place, day, highest or Decimal(1)) for place, day in enumerate(days))
        label = f"Cost by day, {days[0].day} to {days[-1].day}" if days else "Cost by day"
        rows = (
            [text_html(day.day), f"{day.responses:,}", _amount(day.cost_usd, day.unpriced_responses)]
            for day in self._figures.days
        )
        table = _table(["Day", "Responses", "Cost"], rows)
        ends = (
            f"<span>{days[0].day}</span><span>{f'highest {_dollars(highest)}' * bool(highest)}</span><span>{days[-1].day}</span>"
            if days
            else ""
        )
        legend = " ".join(f"<span>{self._swatch(model)}</span>" for model in self._models)
        return (
            f'<svg class="days" role="img" aria-label="{label}" viewBox="0 0 {max(len(days), 1) * 10} {_HIGH}" '
            f'preserveAspectRatio="none">{bars}</svg>\n<div class="axis">{ends}</div>\n<div class="legend">{legend}</div>\n'
            f"<details><summary>As a table</summary>{table}</details>\n"
        )

    def _bar(self, place: int, day: StatDayDocument, highest: Decimal) -> str:
        """One day: a part for each model, from below."""
        width = 10
        below, parts = Decimal(0), []
        for model in self._models:
            amount = Decimal(day.models.get(model) or 0)
            if amount > 0:
                top, tall = _HIGH * (1 - (below + amount) / highest), _HIGH * amount / highest
                parts.append(
                    f'<rect class="k{model_hue(model)}" x="{place * width + 1}" width="8" y="{top:.2f}" height="{tall:.2f}"/>'
                )
                below += amount
        return (
            f"<g><title>{text_html(day.day)}: {_dollars(Decimal(day.cost_usd or 0))}</title>{''.join(parts)}</g>"
            if parts
            else ""
        )

    def _swatch(self, model: str) -> str:
        return f'<i class="swatch k{model_hue(model)}"></i>{self._name(html_frame.short_model(model))}'

    def _name(self, text: str) -> str:
        return text_html((text if self._redactor is None else self._redactor.text(text))[:200])


def model_hue(model: str) -> int:
    """The number of a model's colour, as ``web/src/lib/colours.ts`` decides it."""
    family = next((one for one in _FAMILIES if one in model), None)
    first, number = _FAMILIES[family] if family else _REST
    digits = re.findall(r"[0-9]+", re.sub(r"-?[0-9]{8}$", "", model))
    version = 0
    for one in digits:
        version = version * 10 + int(one)
    return first + (version if family else _hash(model)) % number


def _hash(text: str) -> int:
    value = 0x811C9DC5
    for letter in text:
        value = ((value ^ ord(letter)) * 0x01000193) & 0xFFFFFFFF
    return value ^ (value >> 15)


def _filled(rows: Sequence[StatDayDocument]) -> list[StatDayDocument]:
    """Every day from the first to the last: a quiet day is a gap one can see."""
    known = {row.day: row for row in rows if row.day[:4].isdecimal()}
    if not known:
        return []
    day, last = dt.date.fromisoformat(min(known)), dt.date.fromisoformat(max(known))
    found: list[StatDayDocument] = []
    while day <= last and len(found) < _MOST_DAYS:
        found.append(known.get(day.isoformat()) or _quiet(day.isoformat()))
        day += dt.timedelta(days=1)
    return found


def _quiet(day: str) -> StatDayDocument:
    return StatDayDocument(
        day=day,
        cost_usd="0",
        responses=0,
        unpriced_responses=0,
        models={},
        calls=0,
        failures=0,
        edits=0,
        commits=0,
    )


def _table(heads: Sequence[str], rows: Iterator[list[str]]) -> str:
    """A table; all columns but the first are numbers. Cells are HTML."""
    lines = "".join(f"<tr>{_cells('td', row)}</tr>\n" for row in rows)
    return f"<table><thead><tr>{_cells('th', heads)}</tr></thead><tbody>\n{lines}</tbody></table>\n"


def _cells(tag: str, cells: Sequence[str]) -> str:
    numbers = (f'<{tag} class="number">{cell}</{tag}>' for cell in cells[1:])
    return f"<{tag}>{cells[0]}</{tag}>{''.join(numbers)}"


def _amount(exact: str | None, unpriced: int = 0) -> str:
    """Dollars for people, and exactly for programs; what has no price, or no record, is not in them."""
    if exact is None:
        return "unpriced" if unpriced else "unknown"
    shown = f"{_dollars(Decimal(exact))}{' + unpriced' if unpriced else ''}"
    return f'<data value="{attribute(exact)}">{shown}</data>'


def _dollars(amount: Decimal) -> str:
    return fine_dollars(int(amount * PICO))
