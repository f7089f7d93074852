"""One session for a page: its head, agents, files, todos, findings.

Whatever takes a pass over the whole log with its texts (agents, findings, files) is made when it is asked for
and kept until the log changes, a few at a time.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from msgspec import structs

from recollect.errors import NotFound, UsageError
from recollect.model.conversation.agents import SubAgent
from recollect.model.conversation.conversation import Branch
from recollect.model.cost.money import exact
from recollect.model.cost.usage import Tokens
from recollect.model.files.history import FileVersion, diff
from recollect.services.agents import agents_of
from recollect.services.cost.document import counts
from recollect.services.cost.report import costs
from recollect.services.page import findings
from recollect.services.page.content import Blob, blob_of
from recollect.services.page.conversation import ConversationView, ViewMessages, talk_of
from recollect.services.page.desk import PageBackend
from recollect.services.page.log import PageSession, signature_of
from recollect.services.page.sessions import SessionList, SessionRow, project_name
from recollect.services.resume import resumption
from recollect.services.todos import SessionTodoList, to_do_lists
from recollect.storage.file_backups import touched_files

_T = TypeVar("_T")
_PROMPT_CHARACTERS = 500
_LONGEST_TEXT = 1_000_000
_KEPT_EACH = 4


def _remembered(
    desk: PageBackend, what: str, session: PageSession, make: Callable[[], _T], most: int = _KEPT_EACH
) -> _T:
    """What was made of a session, until its log changes; of the ``most`` sessions asked about last."""
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


# ---- the head --------------------------------------------------------------------------------------------


def head_document(desk: PageBackend, listed: SessionList, name: str) -> dict[str, object]:
    """Everything that stands above a conversation."""
    session = desk.reading(name)
    with session.lock:
        seen, graph = desk.glance(session) or session.glance, session.graph
        talk, problem = _active_talk(session)
        cuts = [node for node in graph.nodes.values() if node.is_boundary]
        compactions = session.compactions() if cuts else []
    # The first messages are on screen by now: the next server shall have them sooner.
    session.keep()
    row = listed.row(session)
    return {
        "id": session.id,
        "title": seen.title or "",
        "custom_title": seen.custom_title,
        "tag": seen.tag,
        "project": project_name(seen.cwd or "", session.path),
        "cwd": seen.cwd or None,
        "branch": seen.git_branch,
        "path": str(session.path),
        "home": str(session.home.root),
        "first_at": seen.first_at,
        "last_at": seen.last_at,
        "bytes": session.file.size,
        "version": seen.version,
        "live": row.is_live,
        "is_archive_only": not any(session.home is one for one in desk.home.homes),
        "messages": 0 if talk is None else len(talk),
        "entries": len(graph.nodes) + len(graph.duplicates),
        "hidden": _hidden(session, talk),
        "active_leaf": graph.active_leaf.uuid if graph.active_leaf is not None else None,
        "problem": problem,
        "branches": [_branch(one) for one in session.branches()],
        "compactions": [
            {
                "number": number,
                "uuid": one.boundary,
                "at": one.at,
                "trigger": one.trigger,
                "pre_tokens": one.pre_tokens,
                "before": one.before,
            }
            for number, one in enumerate(compactions, 1)
        ],
        "agents": len(session.agents()),
        **_spending(desk, session),
        "expires_at": row.expires_at,
        "is_archived": listed.is_archived(session),
        "damaged": row.damaged,
        "commands": {
            "show": desk.command("show", session.id),
            "resume": desk.command("resume", session.id),
            "export": desk.command("export", session.id, "--output", f"{session.id[:8]}.md"),
            "check": desk.command("check", session.id),
            "repair": desk.command("repair", session.id),
        },
    }


def _active_talk(session: PageSession) -> tuple[ViewMessages | None, str | None]:
    try:
        return talk_of(session, ConversationView()), None
    except NotFound as problem:
        return None, problem.message


def _hidden(session: PageSession, talk: ViewMessages | None) -> int:
    """How many messages the last compaction keeps from the model."""
    return (
        0
        if talk is None or not talk.boundaries
        else len(talk_of(session, ConversationView(whole=True))) - len(talk)
    )


def _branch(one: Branch) -> dict[str, object]:
    return {
        "leaf": one.leaf,
        "forked_at": one.forked_at,
        "length": one.length,
        "at": one.at,
        "active": one.active,
    }


def _spending(desk: PageBackend, session: PageSession) -> dict[str, object]:
    """What `recollect cost --session` says; nothing while there is no index."""
    nothing: dict[str, object] = {
        "cost_usd": None,
        "unpriced": [],
        "models": [],
        **dict.fromkeys(counts(Tokens())),
        "is_indexed": False,
    }
    with desk.index.opened() as opened:
        if opened.database is None:
            return nothing
        try:
            report = costs(desk.roots, ["model"], opened=opened, session=session.id)
        except NotFound:
            return nothing
    unpriced = [one.model for one in report.unpriced]
    return {
        "cost_usd": None if unpriced else exact(report.totals.pico_usd),
        "unpriced": unpriced,
        "models": [row.keys["model"] for row in report.rows],
        **counts(report.totals.tokens),
        "is_indexed": True,
    }


def resume_document(session: PageSession) -> dict[str, object]:
    """How to go on with it in the client."""
    way = resumption(session)
    line = f"cd {shlex.quote(way.cwd)} && {way.command}" if way.cwd else way.command
    return {
        "session": way.session,
        "title": way.title,
        "cwd": way.cwd,
        "cwd_exists": way.cwd_exists,
        "command": way.command,
        "argv": way.argv,
        "nearby": way.nearby,
        "line": line,
    }


# ---- agents ----------------------------------------------------------------------------------------------


def agents_document(desk: PageBackend, session: PageSession) -> dict[str, object]:
    """The sub-agents, first sent first."""
    agents = _remembered(desk, "agents", session, lambda: agents_of(session))
    return {"session": session.id, "agents": [_agent(one) for one in agents]}


def _agent(agent: SubAgent) -> dict[str, object]:
    return {
        "id": agent.id,
        "layout": agent.layout,
        "path": agent.path,
        "root_uuid": agent.root,
        "agent_type": agent.agent_type,
        "description": agent.description,
        "prompt": agent.prompt[:_PROMPT_CHARACTERS],
        "tool_use_id": agent.tool_use_id,
        "spawned_by": agent.spawned_by,
        "parent_agent": agent.parent_agent,
        "depth": agent.depth,
        "link": agent.link,
        "messages": agent.messages,
        "first_at": agent.first_at,
        "last_at": agent.last_at,
    }


# ---- files and todos -------------------------------------------------------------------------------------

Files = dict[str, list[FileVersion]]


def files_of(desk: PageBackend, session: PageSession) -> Files:
    """Every version of every file it touched."""
    # Every version is text in memory: those of one session at a time.
    return _remembered(desk, "files", session, lambda: touched_files(session.home, session.file), most=1)


def files_document(desk: PageBackend, session: PageSession) -> dict[str, object]:
    """The versions without their contents."""
    files = files_of(desk, session)
    rows = [
        {"path": path, "versions": [_version(number, one) for number, one in enumerate(found, 1)]}
        for path, found in files.items()
    ]
    return {"session": session.id, "files": rows, "total": len(rows)}


def _version(number: int, version: FileVersion) -> dict[str, object]:
    return {
        "number": number,
        "at": version.at,
        "source": version.source,
        "entry_uuid": version.entry_uuid,
        "existed": version.existed,
        "known": version.is_known,
        "bytes": length_of(version),
        "backup": version.backup_name,
    }


def length_of(version: FileVersion) -> int | None:
    """How many bytes a version has, where that is known."""
    content = version.content
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    return None if data is None else len(data)


def version_of(files: Files, path: str, number: int) -> FileVersion:
    """One version of one file."""
    found = files.get(path)
    if found is None:
        raise NotFound(f"file {path!r}: not touched in this session", hint="the list of files shows them")
    if not 1 <= number <= len(found):
        raise NotFound(f"{path}: no version {number}", hint=f"it has versions 1 to {len(found)}")
    return found[number - 1]


def version_document(desk: PageBackend, session: PageSession, path: str, number: int) -> dict[str, object]:
    """The text of a version; nothing where it is no text, or not known."""
    version = version_of(files_of(desk, session), path, number)
    content = version.content
    text: str | None
    try:
        text = content.decode() if isinstance(content, bytes) else content
    except UnicodeDecodeError:
        text = None
    return {
        "path": path,
        "number": number,
        "text": None if text is None else text[:_LONGEST_TEXT],
        "is_binary": content is not None and text is None,
        "cut": text is not None and len(text) > _LONGEST_TEXT,
        "bytes": length_of(version),
    }


def diff_document(
    desk: PageBackend, session: PageSession, path: str, number: int, against: int | None
) -> dict[str, object]:
    """What changed from one version to another."""
    files = files_of(desk, session)
    new = version_of(files, path, number)
    before = number - 1 if against is None else against
    old = None if before == 0 else version_of(files, path, before)
    try:
        text = diff(old, new)
        problem = None
    except UsageError as unknown:
        text, problem = "", unknown.message
    return {
        "path": path,
        "number": number,
        "against": before,
        "diff": text[:_LONGEST_TEXT],
        "cut": len(text) > _LONGEST_TEXT,
        "problem": problem,
    }


def todos_document(desk: PageBackend, session: PageSession) -> dict[str, object]:
    """What was left to do, list by list."""
    lists: Sequence[SessionTodoList] = [one for one in to_do_lists(desk.home) if one.session == session.id]
    return {"lists": [structs.asdict(one) | {"path": str(one.path)} for one in lists]}


# ---- findings --------------------------------------------------------------------------------------------


def findings_document(desk: PageBackend, session: PageSession) -> dict[str, object]:
    """What is wrong with it, and what a repair would do."""
    return _remembered(desk, "findings", session, lambda: findings.found(desk.home, session, desk.data))


# ---- blobs -----------------------------------------------------------------------------------------------


def blob(session: PageSession, uuid: str, number: int, agent: str | None) -> Blob:
    """A picture or document that stands in a line."""
    if agent is None:
        node = session.graph.nodes.get(uuid)
        entry = None if node is None else session.load(node)
    else:
        talk = talk_of(session, ConversationView(agent=agent))
        node = talk.graph.nodes.get(uuid)
        entry = None if node is None else talk.load(node)
    found = None if entry is None else blob_of(entry, number)
    if found is None:
        raise NotFound(f"entry {uuid!r}: no picture or document {number}", hint="load the message again")
    return found


def cost_of(row: SessionRow) -> dict[str, object]:
    """What a session cost, as the list says."""
    amount = row.pico_usd
    return {"cost_usd": None if amount is None or row.unpriced else exact(amount), "unpriced": row.unpriced}
