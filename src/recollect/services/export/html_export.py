"""Sessions as pages that open without recollect: one file, or for a huge session an index and pages.

The split into pages follows from the positions of the lines before any is read, so links can point to pages
that are not written yet, and memory holds one message at a time. Agents are shown inside the call that
started them; in a paged export they have their own pages. Everything is redacted first unless the user asked
otherwise.

The output is complete or does not exist: it is written under another name beside the target, and moved (P7).
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct

from recollect.errors import NotFound, RecollectError, StorageError, UsageError
from recollect.model.cost.money import Spending
from recollect.model.damage import Damage
from recollect.model.ids import short_id
from recollect.model.markdown_html import text_html
from recollect.services import whole_session
from recollect.services.export import export, html_frame
from recollect.services.export.export import Redactor
from recollect.services.export.html_call import ShownCall
from recollect.services.export.html_frame import words_of
from recollect.services.export.html_message import MessageWriter
from recollect.services.export.html_project import ProjectRow, project_page
from recollect.services.export.html_source import ExportAgents, ExportSource
from recollect.services.export.html_turns import plural
from recollect.services.foreign.unknown_records import unknown_records
from recollect.services.homes import Home
from recollect.services.list import ListedSession, ListQuery
from recollect.services.page.conversation import ViewMessages
from recollect.services.projects import ProjectFilter
from recollect.services.session import Session
from recollect.system import fsops
from recollect.system.progress import ProgressCallback

PAGE_BYTES, PAGE_MESSAGES = 2_000_000, 600
ONE_PAGE_BYTES, ONE_PAGE_MESSAGES = 4_000_000, 1_500
_CHUNK = 1 << 16
_DEEPEST = 8  # agents within agents, on one page
_PROMPTS_OF_A_PAGE = 100
_SUFFIXES = (".html", ".htm")
_ODD = re.compile(r"[^A-Za-z0-9._-]")


class HtmlExport(Struct):
    """What was written: where, how much, and what could not be."""

    target: Path
    files: int = 0
    bytes: int = 0
    sessions: int = 0
    problems: list[tuple[str, str]] = []
    damage: list[Damage] = []


class ExportTarget(Struct, frozen=True):
    """Where a session is written: its file, and the directory of its pages beside it.

    ``up`` is a file beside it.
    """

    file: Path
    pages: Path
    up: str = ""


class ExportSize(Struct):
    """What was written of a session."""

    files: int = 0
    bytes: int = 0


# ---- targets ---------------------------------------------------------------------------------------------


def is_file(target: Path) -> bool:
    """Whether a target names a page; otherwise it names a directory."""
    return target.suffix.lower() in _SUFFIXES


def check_target(target: Path, *, force: bool = False) -> None:
    """Refuse a target that may not be written, before anything is read."""
    if is_file(target):
        export.check_target(target, force=force)
        pages = _pages_beside(target)
        if pages.exists() or pages.is_symlink():
            raise UsageError(f"{pages}: already exists", hint="remove it, or name another file")
        return
    if not target.parent.is_dir():
        raise UsageError(f"{target}: there is no directory {target.parent}", hint="create it first")
    is_empty = target.is_dir() and not target.is_symlink() and not any(target.iterdir())
    if (target.exists() or target.is_symlink()) and not is_empty:
        raise UsageError(
            f"{target}: already exists",
            hint="name a new directory, or a file ending in .html; --force replaces only files",
        )


def one_page(session: Session, redactor: Redactor | None, *, whole: bool = True) -> Iterator[bytes]:
    """A session as one document of any size, agents included."""
    source = ExportSource(session, redactor, whole=whole)
    yield from _pieces(_single(source, source.message_view(), ExportAgents(source), ""))


def export_session(
    session: Session, target: Path, redactor: Redactor | None, *, whole: bool = True, force: bool = False
) -> HtmlExport:
    """Write a session to a file, with pages beside it if it is huge, or to a directory with an index."""
    check_target(target, force=force)
    source = ExportSource(session, redactor, whole=whole)
    done = HtmlExport(target, sessions=1, damage=source.damage)
    with _staged(target) as stage:
        name = target.name if is_file(target) else "index.html"
        place = ExportTarget(
            stage / name, stage / (_pages_beside(target).name if is_file(target) else "pages")
        )
        written = _write(source, place)
        done.files, done.bytes = written.files, written.bytes
        if is_file(target):
            _publish_file(place, target, force=force)
        else:
            _publish_directory(stage, target)
    return done


def export_project(
    home: Home,
    project: str,
    target: Path,
    redactor: Redactor | None,
    *,
    whole: bool = True,
    progress: ProgressCallback | None = None,
) -> HtmlExport:
    """Write every session of a project to a directory, with an index. Unreadable ones are named there.

    Sessions that are only in the archive are included. The index has the figures of ``recollect stats``, if there
    is one to read them from.
    """
    if is_file(target):
        raise UsageError(f"{target}: a project is a directory of pages", hint="name a new directory")
    check_target(target)
    sessions = home.listed(_query=ListQuery(in_project=ProjectFilter(project).fits))
    if not sessions:
        raise NotFound(f"project {project!r}: it has no sessions", hint="`recollect list` shows directories")
    done = HtmlExport(target, problems=[], damage=[])
    figures = home.stats(project=project) if home.has_index else None
    with _staged(target) as stage:
        archived = {(one.id, str(one.path)): one for one in home.archived_only(project)}
        rows: dict[str, ProjectRow] = {}
        for number, one in enumerate(sessions, 1):
            name = _file_name(one.id, rows)
            try:
                session = archived[one.id, one.path] if one.is_archived else home.at(one)
            except NotFound as gone:
                done.problems.append((one.id, gone.message))
                rows[name] = ProjectRow(one, problem=gone.message)
                continue
            source = ExportSource(session, redactor, whole=whole)
            rows[name] = _project_session(
                one,
                source,
                ExportTarget(stage / f"{name}.html", stage / f"{name}-pages", up="index.html"),
                done,
            )
            if progress is not None:
                progress(number, len(sessions))
        index = _pieces(project_page(project, rows, figures, redactor))
        done.bytes += export.fill(stage / "index.html", index)
        done.files += 1
        _publish_directory(stage, target)
    return done


def _project_session(
    one: ListedSession, source: ExportSource, place: ExportTarget, done: HtmlExport
) -> ProjectRow:
    """Write one session of a project; the row says why if it cannot be read."""
    try:
        written = _write(source, place)
    except RecollectError as problem:
        why = source.text(problem.message)
        done.problems.append((one.id, why))
        return ProjectRow(one, problem=why)
    done.files, done.bytes, done.sessions = (
        done.files + written.files,
        done.bytes + written.bytes,
        done.sessions + 1,
    )
    used = one.used
    spent = source.cost.spending  # what only the archive has is not summed up without an index
    if used is not None:
        spent = Spending(used.tokens, used.pico_usd, frozenset(used.unpriced), one.is_unrecorded)
    return ProjectRow(one, _title(source), spent)


def _file_name(session: str, taken: Mapping[str, object]) -> str:
    stem = _ODD.sub("_", session)[:100] or "_"
    return next(one for one in _numbered(stem) if one not in taken and one != "index")


def _numbered(stem: str) -> Iterator[str]:
    yield stem
    number = 2
    while True:
        yield f"{stem}-{number}"
        number += 1


# ---- one session -----------------------------------------------------------------------------------------


def _write(source: ExportSource, place: ExportTarget) -> ExportSize:
    message_view, agents = source.message_view(), ExportAgents(source)
    written = ExportSize()
    size = sum(node.length for group in message_view.groups for node in group) + agents.bytes
    if size <= ONE_PAGE_BYTES and len(message_view) <= ONE_PAGE_MESSAGES:
        written.bytes = export.fill(place.file, _pieces(_single(source, message_view, agents, place.up)))
        written.files = 1
    else:
        _PagedExport(source, message_view, agents, place, written).write()
    return written


def _title(source: ExportSource) -> str:
    return words_of(source.text(source.session.title), 300) or f"Session {short_id(source.session.id)}"


def _single(source: ExportSource, message_view: ViewMessages, agents: ExportAgents, up: str) -> Iterator[str]:
    places = _NestedAgents(source, agents)
    yield html_frame.head(_title(source))
    yield html_frame.navigation([(quote(up), "All sessions")]) if up else ""
    yield from _summary(source, message_view, agents)
    writer = MessageWriter(source, message_view, agents, places)
    yield from writer.conversation(range(len(message_view)))
    yield from places.rest()
    prompts = [(writer.anchor(index), words) for index, words in writer.prompts]
    yield html_frame.foot(_made_by(source), prompts)


def _summary(source: ExportSource, message_view: ViewMessages, agents: ExportAgents) -> Iterator[str]:
    session = source.session
    seen = session.glance
    span = [f"{one.astimezone(dt.UTC):%Y-%m-%d %H:%M} UTC" for one in (seen.first_at, seen.last_at) if one]
    yield f"<h1>{text_html(_title(source))}</h1>\n"
    yield html_frame.facts(
        [
            ("Used", html_frame.spent(source.cost.spending)),
            ("Directory", source.text(session.cwd)),
            ("Branch", source.text(seen.git_branch or "")),
            ("Time", " to ".join(span)),
            ("Tag", source.text(seen.tag or "")),
            ("Messages", _counted(source.messages, "message")),
            ("Responses", _counted(source.cost.responses, "response")),
            ("Damaged lines", _counted(len(source.damage), "damaged line")),
            ("Unknown records", _counted(unknown_records(session), "unknown record")),
            ("Agents", _counted(len(agents.numbers), "sub-agent")),
            ("Session", f"session {session.id}"),
        ]
    )
    for note in _notes(source, message_view):
        yield f'<p class="note">{note}</p>\n'


def _counted(number: int, word: str) -> str:
    """A number and its word; "" for 0, so that it is left out."""
    return plural(number, word) if number else ""


def _notes(source: ExportSource, message_view: ViewMessages) -> Iterator[str]:
    """What the page leaves out (law 11)."""
    damaged = len(source.damage)
    if damaged:
        yield f"{damaged:,} lines of the log cannot be read and are not shown."
    if not source.whole and set(message_view.kinds) & {"b", "s"}:
        yield "This is the conversation as the client continues it; what its compactions hide is not shown."
    others = sum(not one.active for one in whole_session.sections(source.opened))
    if others:
        yield f"Other branches ({others:,}) are not shown; this is the active one."


def _made_by(source: ExportSource) -> str:
    kept = "with credentials unredacted" if source.redactor is None else "credentials redacted where found"
    return f"Exported by recollect, {kept}."


class _NestedAgents:
    """Agents inside the calls that started them, each once: task, steps, and the answer with the call."""

    def __init__(self, source: ExportSource, agents: ExportAgents) -> None:
        self._source, self._agents = source, agents
        self._done: set[str] = set()
        self._depth = 0

    def shown(self, name: str, sent_from: str, call: ShownCall) -> Iterator[str]:
        """The steps of the agent. Its task is its first message."""
        number = self._agents.numbers[name]
        if name in self._done or self._depth >= _DEEPEST:
            yield f'<p class="note"><a href="#agent-{number}">Sub-agent {number}</a></p>\n'
            return
        yield from self._agent(name, call.call.text)

    def rest(self) -> Iterator[str]:
        """Agents without a call on this page."""
        for name in self._agents.numbers:
            if name not in self._done:
                yield from self._agent(name, "")

    def _agent(self, name: str, answer: str) -> Iterator[str]:
        self._done.add(name)
        self._depth += 1
        number = self._agents.numbers[name]
        title = text_html(self._agents.title(name))
        yield f'<details class="agent" id="agent-{number}"><summary><b>Sub-agent {number}</b> {title}</summary>\n'
        try:
            message_view = self._source.agent_message_view(name)
        except RecollectError as problem:
            yield f'<p class="note bad">{text_html(self._source.text(problem.message))}</p>\n'
        else:
            mark = f"agent-{number}-"
            writer = MessageWriter(self._source, message_view, self._agents, self, mark=mark, is_agent=True)
            yield from writer.steps(answer)
        yield "</details>\n"
        self._depth -= 1


# ---- pages -----------------------------------------------------------------------------------------------


class _ExportPage(Struct):
    """One page of a conversation: its file name, its messages, and their prompts."""

    name: str
    messages: range
    prompts: list[tuple[str, str]] = []


class _PagedExport:
    """A session as an index and pages. The index is written last: it quotes the prompts of the pages."""

    def __init__(
        self,
        source: ExportSource,
        message_view: ViewMessages,
        agents: ExportAgents,
        place: ExportTarget,
        written: ExportSize,
    ) -> None:
        self._source, self._message_view, self._agents = source, message_view, agents
        self._place, self._written = place, written
        self._senders: dict[str, str] = {}
        self._now = ""

    def write(self) -> None:
        self._place.pages.mkdir(0o700)
        main = self._conversation(self._message_view, _title(self._source))
        rows: list[tuple[str, str, int]] = []
        for name, number in self._agents.numbers.items():
            rows.append((self._agent_page(number), self._agents.title(name), self._write_agent(name, number)))
        fsops.sync_dir(self._place.pages)
        self._fill(self._place.file, self._index(main, rows))

    def shown(self, name: str, sent_from: str, call: ShownCall) -> Iterator[str]:
        """A link from the call to the agent's first page."""
        number = self._agents.numbers[name]
        self._senders.setdefault(name, f"{self._now}#{sent_from}")
        title = text_html(self._agents.title(name))
        yield f'<p class="note"><a href="{self._agent_page(number)}">Sub-agent {number}</a> {title}</p>\n'

    def _agent_page(self, number: int) -> str:
        return f"agent-{number:04}-0001.html"

    def _write_agent(self, name: str, number: int) -> int:
        title = f"Sub-agent {number}: {self._agents.title(name)}"
        try:
            message_view = self._source.agent_message_view(name)
        except RecollectError as problem:
            why = f'<p class="note bad">{text_html(self._source.text(problem.message))}</p>\n'
            page = _ExportPage(self._agent_page(number), range(0))
            self._fill(
                self._place.pages / page.name,
                [html_frame.head(title, prompts=False), why, html_frame.foot("")],
            )
            return 0
        sender = self._senders.get(name, "")
        self._conversation(message_view, title, agent=number, sender=sender)
        return len(message_view)

    def _conversation(
        self, message_view: ViewMessages, title: str, *, agent: int = 0, sender: str = ""
    ) -> list[_ExportPage]:
        """All pages of a conversation: the session's own, or that of an agent by number."""
        mark, prefix = (f"agent-{agent}-", f"agent-{agent:04}-") if agent else ("m", "")
        writer = MessageWriter(self._source, message_view, self._agents, self, mark=mark, is_agent=agent > 0)
        pages = [
            _ExportPage(f"{prefix}{number:04}.html", one)
            for number, one in enumerate(page_ranges(message_view), 1)
        ]
        for number, page in enumerate(pages):
            self._now = page.name
            links = self._links(pages, number, sender)
            self._fill(self._place.pages / page.name, self._page(writer, page, title, links))
        return pages

    def _page(
        self, writer: MessageWriter, page: _ExportPage, title: str, links: list[tuple[str, str]]
    ) -> Iterator[str]:
        first, last = page.messages.start + 1, page.messages.stop
        yield html_frame.head(f"{title} ({first:,} to {last:,})", prompts=not writer.is_agent)
        yield html_frame.navigation(links)
        yield f'<h1>{text_html(title)}</h1>\n<p class="note">Messages {first:,} to {last:,}</p>\n'
        if writer.is_agent:
            for index in page.messages:
                yield from writer.message(index)
        else:
            yield from writer.conversation(page.messages)
        page.prompts = [(writer.anchor(index), words) for index, words in writer.prompts]
        writer.prompts.clear()
        yield html_frame.navigation(links, "after")
        yield html_frame.foot(_made_by(self._source), None if writer.is_agent else page.prompts)

    def _links(self, pages: list[_ExportPage], number: int, sender: str) -> list[tuple[str, str]]:
        before = pages[number - 1].name if number else ""
        after = pages[number + 1].name if number + 1 < len(pages) else ""
        links = [
            (f"../{quote(self._place.file.name)}", "Contents"),
            (before, "Previous page"),
            (after, "Next page"),
            ("", f"Page {number + 1:,} of {len(pages):,}"),
        ]
        return [*links, (sender, "Where it was started")] if sender else links

    def _index(self, pages: list[_ExportPage], agents: list[tuple[str, str, int]]) -> Iterator[str]:
        where = quote(self._place.pages.name)
        yield html_frame.head(_title(self._source), prompts=False, kinds=False)
        yield html_frame.navigation([(quote(self._place.up), "All sessions")]) if self._place.up else ""
        yield from _summary(self._source, self._message_view, self._agents)
        yield "<h2>Pages</h2>\n"
        for page in pages:
            yield _page_row(page, where)
        if agents:
            yield "<h2>Sub-agents</h2>\n<ol>"
        for name, title, messages in agents:
            link = f'<a href="{where}/{name}">{text_html(title)}</a>'
            yield f'<li>{link} <span class="note">{messages:,} messages</span></li>\n'
        yield "</ol>\n" if agents else ""
        yield html_frame.foot(_made_by(self._source))

    def _fill(self, path: Path, pieces: Iterable[str]) -> None:
        self._written.bytes += export.fill(path, _pieces(pieces))
        self._written.files += 1


def _page_row(page: _ExportPage, where: str) -> str:
    address = f"{where}/{page.name}"
    span = f"Messages {page.messages.start + 1:,} to {page.messages.stop:,}"
    asked = [
        f'<li><a href="{address}#{anchor}">{text_html(words) or "(no text)"}</a></li>\n'
        for anchor, words in page.prompts[:_PROMPTS_OF_A_PAGE]
    ]
    more = len(page.prompts) - len(asked)
    rest = f"<li>and {more:,} more</li>\n" if more > 0 else ""
    listed = f"<ul>{''.join(asked)}{rest}</ul>\n" if asked else ""
    return f'<p><a href="{address}">{span}</a></p>\n{listed}'


def page_ranges(message_view: ViewMessages) -> list[range]:
    """The split of a conversation into pages: by the bytes of its lines and the number of its messages."""
    found: list[range] = []
    start = size = 0
    for index, group in enumerate(message_view.groups):
        length = sum(node.length for node in group)
        if index > start and (size + length > PAGE_BYTES or index - start >= PAGE_MESSAGES):
            found.append(range(start, index))
            start, size = index, 0
        size += length
    return [*found, range(start, len(message_view))]


# ---- files -----------------------------------------------------------------------------------------------


def _pieces(texts: Iterable[str]) -> Iterator[bytes]:
    """Texts as bytes, in pieces large enough for a write."""
    waiting: list[str] = []
    size = 0
    for text in texts:
        waiting.append(text)
        size += len(text)
        if size >= _CHUNK:
            yield "".join(waiting).encode("utf-8", "replace")
            waiting, size = [], 0
    yield "".join(waiting).encode("utf-8", "replace")


def _pages_beside(target: Path) -> Path:
    return target.with_name(f"{target.stem}-pages")


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


def _publish_directory(stage: Path, target: Path) -> None:
    fsops.sync_dir(stage)
    if target.is_dir():
        fsops.remove_directory(target)  # it was empty; if it no longer is, the move fails
    fsops.move(stage, target)


def _publish_file(place: ExportTarget, target: Path, *, force: bool) -> None:
    """Pages first: an existing file has all its pages."""
    pages = _pages_beside(target)
    has_pages = place.pages.is_dir()
    if has_pages:
        fsops.move(place.pages, pages)
    try:
        if force:
            fsops.rename_over(place.file, target)
            fsops.sync_dir(target.parent)
        else:
            fsops.move(place.file, target)
    except OSError:
        if has_pages:
            fsops.move(pages, place.pages)
        raise
