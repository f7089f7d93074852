"""The handlers of one session: header, agents, files, todos, findings.

Agents, findings and files need a pass over the whole log. They are made on request, and again when the log changed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct, structs

from recollect.ask import file_versions
from recollect.ask.conversation.content import PageSession, blob_of
from recollect.ask.conversation.conversation import ConversationView, ViewMessages, talk_of
from recollect.ask.doctor.check import CheckSummary, check
from recollect.ask.homes import Homes
from recollect.ask.resume import Resumption, resumption
from recollect.ask.sessions.home_guard import is_only_read
from recollect.ask.sessions.messages import SessionAgents, agent_count, agents_of, whole_branches
from recollect.ask.sessions.session import Compaction, Session
from recollect.ask.todos import TodosDocument, to_do_lists
from recollect.change.repair import SessionRepair, page_repair, planned_repair, repair_document
from recollect.errors import NotFound, RecollectError, UsageError
from recollect.model.checks.rules import Finding
from recollect.model.conversation.conversation import Branch
from recollect.model.files.history import FileVersion, diff
from recollect.model.lines.ids import command_name, short_id
from recollect.model.session import SessionSummary
from recollect.store.file_backups import own_name, restorable, touched_files
from recollect.system.locations import is_known_id
from recollect.system.paths import CLAUDE
from recollect.web import answers
from recollect.web.desk import PageBackend
from recollect.web.page import AT, File, Page, Routes
from recollect.web.parameters import Id, Name, PathText, Version
from recollect.web.sessions import glanced

routes = Routes()
_FINDINGS = 500
_PROMPT_CHARACTERS = 500
_LONGEST_TEXT = 1_000_000
Files = dict[str, list[FileVersion]]
Before = Annotated[int, Meta(ge=0, le=1_000_000)]
BlobNumber = Annotated[int, Meta(ge=0, le=99_999)]


# ---- header ----------------------------------------------------------------------------------------------


class SessionHead(SessionSummary, frozen=True, kw_only=True, gc=True):
    """The header of a conversation. Costs are null while the index does not know them, or if no usage was recorded.

    ``messages`` are those that a resume would load, as lists count them; the whole story has ``hidden`` more.

    ``is_only_read``: it belongs to another agent, and `fork` and `repair` would refuse it.
    """

    agent: str
    messages: int
    custom_title: str | None
    version: str | None
    is_only_read: bool
    hidden: int
    active_leaf: str | None
    problem: str | None
    branches: list[Branch]
    compactions: list[Compaction]
    commands: dict[str, str]


@routes.get(AT)
def head(page: Page, session: Name) -> SessionHead:
    """The summary of a session."""
    desk, listed = page.backend, page.listed
    opened = desk.reading(session)
    with opened.lock:
        seen, graph = desk.glance(opened) or opened.glance, opened.graph
        talk, problem = _active_talk(opened)
        cuts = [node for node in graph.nodes.values() if node.is_boundary]
        compactions = opened.compactions() if cuts else []
        hidden = 0 if talk is None else len(talk_of(opened, ConversationView(whole=True))) - len(talk)
    if not listed.is_current(opened):
        desk.index.hurry()
    row = structs.asdict(listed.row(opened)) | glanced(seen)
    return SessionHead(
        **row
        | {
            "agent": opened.agent,
            "messages": 0 if talk is None else len(talk),
            "agents": agent_count(opened),
            "is_archived": listed.is_archived(opened),
        },
        custom_title=seen.custom_title,
        version=seen.version,
        hidden=hidden,
        active_leaf=graph.active_leaf.uuid if graph.active_leaf is not None else None,
        problem=problem,
        branches=whole_branches(opened),
        compactions=compactions,
        is_only_read=is_only_read(opened),
        commands=_commands(desk, opened),
    )


def _commands(desk: PageBackend, session: PageSession) -> dict[str, str]:
    name = command_name(session.id, session.path)
    words = ("show", "resume", "check", *(() if is_only_read(session) else ("repair",)))
    commands = {word: desk.command(word, name) for word in words}
    file = "session.md" if name != session.id else f"{short_id(name)}.md"
    return commands | {"export": desk.command("export", name, "--output", file)}


def _active_talk(session: PageSession) -> tuple[ViewMessages | None, str | None]:
    try:
        return talk_of(session, ConversationView()), None
    except NotFound as problem:
        return None, problem.message


@routes.get(f"{AT}/resume")
def resume(page: Page, session: Name) -> Resumption:
    """How to continue the session. What only the archive has is restored first."""
    desk, opened = page.backend, page.backend.reading(session)
    way = resumption(opened)
    if opened.is_archived:
        # The client finds it by its id once it is back in its home; until then only the copy's path is known.
        if str(opened.path) in way.argv and not is_known_id(CLAUDE, opened.id):
            raise UsageError(
                f"session {opened.id}: only the archive has it, and Claude takes no session of such a name by its id",
                hint=f"restore it and continue it with: {desk.command('resume', opened.id, '--yes')}",
            )
        argv = tuple(opened.id if word == str(opened.path) else word for word in way.argv)
        restore = desk.command("protect", "restore", opened.id, "--apply")
        way = structs.replace(way, argv=argv, restore=restore, command="", line="")
    return way


@routes.get(f"{AT}/agents")
def agents(page: Page, session: Name) -> SessionAgents:
    """Its sub-agents, in the order they started, with the beginning of their prompts."""
    opened = page.backend.reading(session)
    rows = page.backend.answer("agents", opened, lambda: agents_of(opened))
    return SessionAgents(
        opened.id, [structs.replace(one, prompt=one.prompt[:_PROMPT_CHARACTERS]) for one in rows]
    )


# ---- files and todos -------------------------------------------------------------------------------------


def files_of(page: Page, session: PageSession) -> Files:
    """Every version of every file the session touched."""
    return page.backend.answer("files", session, lambda: touched_files(session.home, session.file))


@routes.get(f"{AT}/files")
def files(page: Page, session: Name) -> file_versions.FilesDocument:
    """Versions of the files it changed, without their contents."""
    opened = page.backend.reading(session)
    rows = [
        file_versions.touched_file(
            path, [file_versions.version_document(number, one) for number, one in enumerate(found, 1)]
        )
        for path, found in files_of(page, opened).items()
    ]
    return file_versions.FilesDocument(opened.id, rows, len(rows))


def version_of(files: Files, path: str, number: int) -> FileVersion:
    found = files.get(path)
    if found is None:
        raise NotFound(
            f"file {path!r}: not touched in this session", hint="choose one from the list of files"
        )
    if not 1 <= number <= len(found):
        raise NotFound(f"{path}: no version {number}", hint=f"it has versions 1 to {len(found)}")
    return found[number - 1]


@routes.get(f"{AT}/files/version")
def file_version(
    page: Page, session: Name, path: PathText, number: Version
) -> file_versions.FileTextDocument:
    """The text of one version; nothing if it is not text or unknown."""
    version = version_of(files_of(page, page.backend.reading(session)), path, number)
    content = version.content
    text: str | None
    try:
        text = content.decode() if isinstance(content, bytes) else content
    except UnicodeDecodeError:
        text = None
    return file_versions.FileTextDocument(
        path=path,
        number=number,
        text=None if text is None else text[:_LONGEST_TEXT],
        is_binary=content is not None and text is None,
        cut=text is not None and len(text) > _LONGEST_TEXT,
        bytes=file_versions.version_length(version),
    )


@routes.get(f"{AT}/files/bytes")
def file_bytes(page: Page, session: Name, path: PathText, number: Version) -> File:
    """One version as a file to save, as a restoration would write it."""
    version = version_of(files_of(page, page.backend.reading(session)), path, number)
    return answers.blob(restorable(version), "application/octet-stream", own_name(path) or "file")


@routes.get(f"{AT}/files/diff")
def file_diff(
    page: Page, session: Name, path: PathText, number: Version, against: Before | None = None
) -> file_versions.FileDiffDocument:
    """What changed between two versions; without ``against``, since the one before."""
    files = files_of(page, page.backend.reading(session))
    new = version_of(files, path, number)
    before = number - 1 if against is None else against
    old = None if before == 0 else version_of(files, path, before)
    try:
        text = diff(old, new)
        problem = None
    except UsageError as unknown:
        text, problem = "", unknown.message
    return file_versions.FileDiffDocument(
        path=path,
        number=number,
        against=before,
        diff=text[:_LONGEST_TEXT],
        cut=len(text) > _LONGEST_TEXT,
        problem=problem,
    )


@routes.get(f"{AT}/todos")
def todos(page: Page, session: Name) -> TodosDocument:
    """The todo lists."""
    name = page.backend.reading(session).id
    return TodosDocument([one for one in to_do_lists(page.backend.home) if one.session == name])


class FindingsDocument(Struct, frozen=True):
    """Findings of a session; of very many only the first. ``repair`` is null if none can be made."""

    findings: list[Finding]
    total: int
    summary: CheckSummary
    repair: SessionRepair | None


@routes.get(f"{AT}/findings")
def findings(page: Page, session: Name) -> FindingsDocument:
    """The findings of a check, and what a repair would do."""
    opened, desk = page.backend.reading(session), page.backend
    return desk.answer("findings", opened, lambda: _checked(desk.home, opened, desk.data))


def _checked(home: Homes, session: Session, data: Path) -> FindingsDocument:
    """The log is diagnosed once: for the plan of its repair, and for the findings."""
    try:
        with planned_repair(session) as plan:
            diagnosis = plan.diagnosis
            repair = page_repair(repair_document(plan))
    except RecollectError:
        checked = check(home, [session], data=data, with_secrets=False)
        return FindingsDocument(checked.findings[:_FINDINGS], len(checked.findings), checked.summary, None)
    checked = check(home, [session], data=data, with_secrets=False, known={session.path: diagnosis})
    is_planned = plan.is_needed or bool(diagnosis.refusal)
    return FindingsDocument(
        checked.findings[:_FINDINGS],
        len(checked.findings),
        checked.summary,
        repair if is_planned else None,
    )


@routes.get(f"{AT}/blobs/{{uuid}}/{{number}}")
def blob(page: Page, session: Name, uuid: Id, number: BlobNumber, agent: Id | None = None) -> File:
    """An image or document in a transcript."""
    opened = page.backend.reading(session)
    if agent is None:
        node = opened.graph.nodes.get(uuid)
        entry = None if node is None else opened.load(node)
    else:
        talk = talk_of(opened, ConversationView(agent=agent))
        node = talk.graph.nodes.get(uuid)
        entry = None if node is None else talk.load(node)
    found = None if entry is None else blob_of(entry, number)
    if found is None:
        raise NotFound(f"entry {uuid!r}: no image or document {number}", hint="reload the message")
    data, media_type = found
    suffix = media_type.partition("/")[2].replace("octet-stream", "bin")
    return answers.blob(data, media_type, f"{uuid[:8]}-{number}.{suffix}")
