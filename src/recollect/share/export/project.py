"""A project as a directory of pages, with an index. Its figures are those of ``recollect report --json``."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import count
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct

from recollect.ask.homes import Homes
from recollect.ask.list import ListQuery
from recollect.ask.report.stats import StatsDocument, stats
from recollect.ask.secrets.redactor import Redactor
from recollect.ask.sessions.projects import ProjectFilter
from recollect.errors import NotFound, RecollectError, StorageError, UsageError
from recollect.index.access import open_index
from recollect.model.budget import PICO, fine_dollars
from recollect.model.cost.money import Spending
from recollect.model.lines.json_text import encode_json
from recollect.model.session import SessionSummary
from recollect.share.export import page
from recollect.share.export.export import ExportDocument, ExportProblemDocument, fill, redacted
from recollect.share.export.page import facts, money, page_title, plural, session_page, spent, text_html
from recollect.system import fsops
from recollect.system.pool import ProgressCallback

_SUFFIXES = (".html", ".htm")
_ODD = re.compile(r"[^A-Za-z0-9._-]")


class _Row(Struct, frozen=True):
    """A session in the index, as every list shows it. ``problem`` says why it has no page."""

    listed: SessionSummary
    title: str = ""
    cost: str = ""
    problem: str = ""


def check_directory(target: Path) -> None:
    """Refuse a target that may not be written, before anything is read."""
    if target.suffix.lower() in _SUFFIXES:
        raise UsageError(f"{target}: a project is a directory of pages", hint="name a new directory")
    if not target.parent.is_dir():
        raise UsageError(f"{target}: there is no directory {target.parent}", hint="create it first")
    is_empty = target.is_dir() and not target.is_symlink() and not any(target.iterdir())
    if (target.exists() or target.is_symlink()) and not is_empty:
        raise UsageError(f"{target}: already exists", hint="name a new directory")


def export_project(
    home: Homes,
    project: str,
    target: Path,
    redactor: Redactor | None,
    *,
    whole: bool = True,
    progress: ProgressCallback | None = None,
) -> ExportDocument:
    """Write every session of a project to a directory, with an index. Unreadable ones are named there.

    Sessions that are only in the archive are included. The index has the figures of ``recollect report``, if there
    is one to read them from.
    """
    check_directory(target)
    sessions = home.listed(_query=ListQuery(in_project=ProjectFilter(project).fits))
    if not sessions:
        raise NotFound(f"project {project!r}: it has no sessions", hint="`recollect list` shows directories")
    size, problems = 0, list[ExportProblemDocument]()
    figures = _figures(home, project) if home.has_index else None
    with _staged(target) as stage:
        archived = {(session.id, str(session.path)): session for session in home.archived_only(project)}
        rows: dict[str, _Row] = {}
        for number, listed in enumerate(sessions, 1):
            name = _file_name(listed.id, rows)
            try:
                session = archived[listed.id, listed.path] if listed.is_archive_only else home.at(listed)
                pieces = session_page(session, redactor, whole=whole, up="index.html")
                size += fill(stage / f"{name}.html", pieces)
            except RecollectError as problem:
                (stage / f"{name}.html").unlink(missing_ok=True)
                why = problem.message if redactor is None else redactor.text(problem.message)
                problems.append(ExportProblemDocument(listed.id, why))
                rows[name] = _Row(listed, problem=why)
            else:
                cost = money(listed.spending)
                cost = cost if redactor is None else redactor.text(cost)
                rows[name] = _Row(listed, page_title(session, redactor), cost)
            if progress is not None:
                progress(number, len(sessions))
        index = page.in_chunks(_index(project, rows, figures, redactor))
        size += fill(stage / "index.html", index)
        fsops.sync_dir(stage)
        if target.is_dir():
            fsops.remove_directory(target)  # it was empty; if it no longer is, the move fails
        fsops.move(stage, target)
    written = len(sessions) - len(problems)
    return ExportDocument(
        project=project,
        format="html",
        output=str(target),
        bytes=size,
        files=written + 1,
        sessions=written,
        redacted=redacted(redactor),
        losses=(),
        findings=[],
        problems=problems,
    )


def _figures(home: Homes, project: str) -> StatsDocument:
    roots = [one.root for one in home.homes]
    with open_index(roots, cache=home.index_cache) as opened:
        return stats(opened, project=project)


def _file_name(session: str, taken: Mapping[str, object]) -> str:
    stem = _ODD.sub("_", session)[:100] or "_"
    names = (stem if number == 1 else f"{stem}-{number}" for number in count(1))
    return next(name for name in names if name not in taken and name != "index")


@contextlib.contextmanager
def _staged(target: Path) -> Iterator[Path]:
    """A temporary directory beside the target; what is left in it at the end is removed."""
    stage = target.with_name(f".{target.name[:200]}.{os.urandom(6).hex()}.tmp")
    try:
        stage.mkdir(0o700)
        yield stage
    except FileExistsError as cause:
        raise UsageError(f"{target}: already exists", hint="name another") from cause
    except OSError as cause:
        hint = "nothing was left there; check the directory"
        raise StorageError("write", target, cause, hint=hint) from cause
    finally:
        shutil.rmtree(stage, ignore_errors=True)


# ---- the index -------------------------------------------------------------------------------------------


def _index(
    project: str, rows: Mapping[str, _Row], figures: StatsDocument | None, redactor: Redactor | None
) -> Iterator[str]:
    name = project if redactor is None else redactor.text(project)
    written = [row for row in rows.values() if not row.problem]
    total = sum((row.listed.spending for row in written), Spending())
    yield page.head(f"Sessions of {name}")
    yield f"<h1>Sessions of {text_html(name)}</h1>\n"
    used = spent(total) if redactor is None else redactor.text(spent(total))
    yield facts([("Sessions", plural(len(written), "session")), ("Used", used)])
    yield '<div id="app"></div>\n'
    if figures is not None and figures.days:
        yield from _tables(figures, redactor)
    yield "<table><thead><tr><th>Session</th><th>Last message</th>"
    yield '<th class="number">Messages</th><th class="number wide">Sub-agents</th><th class="number">Cost</th></tr></thead>\n<tbody>\n'
    for file, row in rows.items():
        yield _line(file, row)
    yield "</tbody></table>\n"
    yield page.foot(
        "Exported by recollect. A response that several sessions share is counted in the one it was made in."
    )


def _line(name: str, row: _Row) -> str:
    if row.problem:
        return (
            f'<tr><td>{text_html(name)}</td><td class="bad" colspan="4">{text_html(row.problem)}</td></tr>\n'
        )
    listed = row.listed
    at = listed.last_at
    mark = ' <span class="chip">archived</span>' if listed.is_archive_only else ""
    cells = [
        f'<td><a href="{quote(name)}.html">{text_html(row.title)}</a>{mark}</td>',
        f"<td>{f'{at.astimezone(dt.UTC):%Y-%m-%d %H:%M} UTC' if at else ''}</td>",
        f'<td class="number">{listed.messages or 0:,}</td>',
        f'<td class="number wide">{listed.agents:,}</td>',
        f'<td class="number">{text_html(row.cost)}</td>',
    ]
    return f"<tr>{''.join(cells)}</tr>\n"


def _tables(figures: StatsDocument, redactor: Redactor | None) -> Iterator[str]:
    """Totals, days, models, tools. Names come from transcripts and are redacted."""

    def named(text: str) -> str:
        return text_html((text if redactor is None else redactor.text(text))[:200])

    whole, cache = figures.periods[-1], figures.cache
    totals = [
        (
            "Cost",
            _amount(figures.total_cost_usd, whole.unpriced_responses),
            plural(whole.sessions, "session"),
        ),
        ("Responses", f"{whole.responses:,}", f"{whole.tokens:,} tokens"),
        ("Edits", f"{whole.edits:,}", plural(whole.commits, "commit")),
        ("Saved by caching", _amount(cache.saved_usd), f"without it {_amount(cache.uncached_usd)}"),
    ]
    boxes = (f"<p><span>{name}</span><b>{big}</b><span>{small}</span></p>" for name, big, small in totals)
    yield f'<div class="figures">{"".join(boxes)}</div>\n'
    days = encode_json(figures.days).decode()
    yield page.data("days", days if redactor is None else redactor.text(days))
    yield "<details><summary>Cost by day</summary>"
    yield _table(
        ["Day", "Responses", "Cost"],
        (
            [text_html(day.day), f"{day.responses:,}", _amount(day.cost_usd, day.unpriced_responses)]
            for day in figures.days
        ),
    )
    yield "</details>\n<h2>Models</h2>\n"
    yield _table(
        ["Model", "Responses", "Cost"],
        (
            [named(model.name), f"{model.responses:,}", _amount(model.cost_usd, model.unpriced_responses)]
            for model in figures.models
        ),
    )
    yield "<h2>Tools</h2>\n"
    yield _table(
        ["Tool", "Calls", "Failed", "Retries", "Time"],
        (
            [
                named(tool.name),
                f"{tool.calls:,}",
                f"{tool.failures:,}",
                f"{tool.retries:,}",
                _duration(tool.duration_ms),
            ]
            for tool in figures.tools
        ),
    )
    yield "<h2>Sessions</h2>\n"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
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
    shown = f"{fine_dollars(int(Decimal(exact) * PICO))}{' + unpriced' if unpriced else ''}"
    return f'<data value="{exact}">{shown}</data>'


def _duration(milliseconds: float) -> str:
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    minutes, seconds = divmod(milliseconds / 1000, 60)
    hours, minutes = divmod(int(minutes), 60)
    return (
        f"{hours} h {minutes} min"
        if hours
        else f"{minutes} min {seconds:.0f} s"
        if minutes
        else f"{seconds:.1f} s"
    )
