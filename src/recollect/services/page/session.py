"""One session for a page: header, agents, files, todos, findings.

Agents, findings and files need a pass over the whole log. They are computed on request and cached
until the log changes.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from recollect.errors import NotFound, UsageError
from recollect.index.database import IndexDatabase
from recollect.model.cost.money import exact
from recollect.model.files.history import FileVersion, diff
from recollect.model.ids import short_id
from recollect.services.agents import agent_count, agents_of
from recollect.services.cost.report import costs
from recollect.services.documents import parts
from recollect.services.documents.conversation import CompactionDocument, SessionHeadDocument
from recollect.services.documents.cost.spending import AmountDocument, counts
from recollect.services.documents.findings import FindingsDocument
from recollect.services.home_guard import is_only_read
from recollect.services.page import findings
from recollect.services.page.content import Blob, blob_of
from recollect.services.page.conversation import ConversationView, ViewMessages, talk_of
from recollect.services.page.desk import PageBackend
from recollect.services.page.log import PageSession, signature_of
from recollect.services.page.sessions import SessionList, SessionRow, project_name
from recollect.services.resume import resumption
from recollect.services.session import Compaction
from recollect.services.todos import to_do_lists
from recollect.storage.file_backups import own_name, restorable, touched_files
from recollect.system.paths import CLAUDE

_T = TypeVar("_T")
_LONGEST_TEXT = 1_000_000
_KEPT_EACH = 4


def _remembered(
    desk: PageBackend, what: str, session: PageSession, make: Callable[[], _T], most: int = _KEPT_EACH
) -> _T:
    """A value computed from a session, cached until its log changes, for the last ``most`` sessions."""
    key = (session.path, signature_of(session.path))
    with desk.lock:
        kept = cast("dict[object, object]", desk.kept.setdefault(what, {}))
        if key in kept:
            return cast("_T", kept[key])
    made = make()
    with desk.lock:
        while len(kept) >= most:
            kept.pop(next(iter(kept)))
        kept[key] = made
    return made


# ---- header ----------------------------------------------------------------------------------------------


def head_document(
    desk: PageBackend,
    listed: SessionList,
    name: str,
    spending: Callable[[PageSession], dict[str, Any]] | None = None,
) -> SessionHeadDocument:
    """Everything shown above a conversation. ``spending``: who says what it cost; the index, if no one else."""
    session = desk.reading(name)
    with session.lock:
        seen, graph = desk.glance(session) or session.glance, session.graph
        talk, problem = _active_talk(session)
        cuts = [node for node in graph.nodes.values() if node.is_boundary]
        compactions = session.compactions() if cuts else []
    # The first messages are on screen by now; save the positions for the next start of the server.
    session.keep()
    if not listed.is_current(session):
        desk.index.hurry()
    spent = _spending(desk, session) if spending is None else spending(session)
    row = listed.row(session)
    return SessionHeadDocument(
        id=session.id,
        agent=row.agent,
        title=seen.title or "",
        custom_title=seen.custom_title,
        tag=seen.tag,
        project=project_name(seen.cwd or "", session.path),
        cwd=seen.cwd or None,
        branch=seen.git_branch,
        path=str(session.path),
        home=str(session.home.root),
        first_at=seen.first_at,
        last_at=seen.last_at,
        bytes=session.file.size,
        version=seen.version,
        live=row.is_live,
        is_archive_only=_is_archive_only(desk, session),
        messages=0 if talk is None else len(talk),
        lines=row.lines,
        hidden=_hidden(session, talk),
        active_leaf=graph.active_leaf.uuid if graph.active_leaf is not None else None,
        problem=problem,
        branches=session.branches(),
        compactions=[_compaction(number, one) for number, one in enumerate(compactions, 1)],
        agents=agent_count(session),
        expires_at=row.expires_at,
        is_archived=listed.is_archived(session),
        damaged=row.damaged,
        is_only_read=is_only_read(session),
        commands=_commands(desk, session),
        **spent,
    )


def _compaction(number: int, one: Compaction) -> CompactionDocument:
    return CompactionDocument(
        number=number,
        uuid=one.boundary,
        at=one.at,
        trigger=one.trigger,
        pre_tokens=one.pre_tokens,
        before=one.before,
    )


def _commands(desk: PageBackend, session: PageSession) -> dict[str, str]:
    name = session.id
    words = ("show", "resume", "check", *(() if is_only_read(session) else ("repair",)))
    commands = {word: desk.command(word, name) for word in words}
    return commands | {"export": desk.command("export", name, "--output", f"{short_id(name)}.md")}


def _active_talk(session: PageSession) -> tuple[ViewMessages | None, str | None]:
    try:
        return talk_of(session, ConversationView()), None
    except NotFound as problem:
        return None, problem.message


def _hidden(session: PageSession, talk: ViewMessages | None) -> int:
    """How many messages the last compaction hides from the model."""
    return (
        0
        if talk is None or not talk.boundaries
        else len(talk_of(session, ConversationView(whole=True))) - len(talk)
    )


def _spending(desk: PageBackend, session: PageSession) -> dict[str, Any]:
    """What `recollect cost --session` reports; nothing without an index."""
    with desk.index.opened() as opened:
        if opened.database is None:
            return {}
        try:
            report = costs(desk.roots, ["model"], opened=opened, session=session.id)
        except NotFound:
            return {}
    unpriced = [one.model for one in report.unpriced]
    responses = report.totals.responses
    unknown = report.is_unknown
    return {
        "responses": responses,
        "cost_usd": None if unpriced or unknown else exact(report.totals.pico_usd),
        "known_cost_usd": None if unknown else exact(report.totals.pico_usd),
        "unpriced": unpriced,
        "models": [row.keys["model"] for row in report.rows],
        **counts(report.totals.tokens),
        "is_indexed": True,
    }


@contextlib.contextmanager
def copies_known(desk: PageBackend, session: PageSession) -> Iterator[IndexDatabase | None]:
    """The index, for a session whose calls may be copies of others'; None where there is none, and for Claude's."""
    if session.agent == CLAUDE:
        yield None
        return
    with desk.index.opened() as opened:
        yield opened.database


def resume_document(desk: PageBackend, session: PageSession) -> parts.PageResumeDocument:
    """How to continue the session in the client; what only the archive has is restored first."""
    way, restore = resumption(session), ""
    command, argv = way.command, way.argv
    if _is_archive_only(desk, session):
        # The client finds it by its id once it is back in its home; until then only the copy's path is known.
        argv = tuple(session.id if one == str(session.path) else one for one in argv)
        command = shlex.join(argv)
        restore = f"{desk.command('archive', 'restore', session.id, '--apply')} && "
    line = f"cd {shlex.quote(way.cwd)} && {command}" if way.cwd else command
    return parts.PageResumeDocument(
        session=way.session,
        title=way.title,
        cwd=way.cwd,
        cwd_exists=way.cwd_exists,
        command=command,
        argv=argv,
        nearby=way.nearby,
        line=restore + line,
    )


def _is_archive_only(desk: PageBackend, session: PageSession) -> bool:
    return not any(session.home is one for one in desk.home.homes)


def agents_document(desk: PageBackend, session: PageSession) -> parts.PageAgentsDocument:
    """The sub-agents, in the order they started."""
    agents = _remembered(desk, "agents", session, lambda: agents_of(session))
    return parts.PageAgentsDocument(session.id, [parts.page_agent(one) for one in agents])


# ---- files and todos -------------------------------------------------------------------------------------

Files = dict[str, list[FileVersion]]


def files_of(desk: PageBackend, session: PageSession) -> Files:
    """Every version of every file the session touched."""
    # Every version is text in memory, so only one session's are kept.
    return _remembered(desk, "files", session, lambda: touched_files(session.home, session.file), most=1)


def files_document(desk: PageBackend, session: PageSession) -> parts.FilesDocument:
    """The versions without their contents."""
    rows = [
        parts.touched_file(path, [parts.version_document(number, one) for number, one in enumerate(found, 1)])
        for path, found in files_of(desk, session).items()
    ]
    return parts.FilesDocument(session.id, rows, len(rows))


def version_of(files: Files, path: str, number: int) -> FileVersion:
    found = files.get(path)
    if found is None:
        raise NotFound(
            f"file {path!r}: not touched in this session", hint="choose one from the list of files"
        )
    if not 1 <= number <= len(found):
        raise NotFound(f"{path}: no version {number}", hint=f"it has versions 1 to {len(found)}")
    return found[number - 1]


def version_document(
    desk: PageBackend, session: PageSession, path: str, number: int
) -> parts.FileTextDocument:
    """The text of a version; nothing if it is not text or unknown."""
    version = version_of(files_of(desk, session), path, number)
    content = version.content
    text: str | None
    try:
        text = content.decode() if isinstance(content, bytes) else content
    except UnicodeDecodeError:
        text = None
    return parts.FileTextDocument(
        path=path,
        number=number,
        text=None if text is None else text[:_LONGEST_TEXT],
        is_binary=content is not None and text is None,
        cut=text is not None and len(text) > _LONGEST_TEXT,
        bytes=parts.version_length(version),
    )


def version_bytes(desk: PageBackend, session: PageSession, path: str, number: int) -> tuple[bytes, str]:
    """The bytes of a version, as a restoration would write them, and the name of the file."""
    return restorable(version_of(files_of(desk, session), path, number)), own_name(path) or "file"


def diff_document(
    desk: PageBackend, session: PageSession, path: str, number: int, against: int | None
) -> parts.FileDiffDocument:
    files = files_of(desk, session)
    new = version_of(files, path, number)
    before = number - 1 if against is None else against
    old = None if before == 0 else version_of(files, path, before)
    try:
        text = diff(old, new)
        problem = None
    except UsageError as unknown:
        text, problem = "", unknown.message
    return parts.FileDiffDocument(
        path=path,
        number=number,
        against=before,
        diff=text[:_LONGEST_TEXT],
        cut=len(text) > _LONGEST_TEXT,
        problem=problem,
    )


def todos_document(desk: PageBackend, session: PageSession) -> parts.TodosDocument:
    return parts.TodosDocument([one for one in to_do_lists(desk.home) if one.session == session.id])


# ---- findings --------------------------------------------------------------------------------------------


def findings_document(desk: PageBackend, session: PageSession) -> FindingsDocument:
    """The findings of the session, and what a repair would do."""
    return _remembered(desk, "findings", session, lambda: findings.found(desk.home, session, desk.data))


# ---- blobs -----------------------------------------------------------------------------------------------


def blob(session: PageSession, uuid: str, number: int, agent: str | None) -> Blob:
    """An image or document of a line."""
    if agent is None:
        node = session.graph.nodes.get(uuid)
        entry = None if node is None else session.load(node)
    else:
        talk = talk_of(session, ConversationView(agent=agent))
        node = talk.graph.nodes.get(uuid)
        entry = None if node is None else talk.load(node)
    found = None if entry is None else blob_of(entry, number)
    if found is None:
        raise NotFound(f"entry {uuid!r}: no image or document {number}", hint="reload the message")
    return found


def cost_of(row: SessionRow) -> AmountDocument:
    """The cost of a session, as in the list."""
    return AmountDocument(row.cost_usd, row.unpriced, row.known_cost_usd)
