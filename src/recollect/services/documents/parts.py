"""What belongs to a session besides its messages: agents, files, todo lists, how to resume it."""

from __future__ import annotations

import datetime as dt
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from recollect.model.conversation.agents import AgentLink, SubAgent
from recollect.model.files.history import FileVersion, VersionSource
from recollect.services.todos import SessionTodoList

_PROMPT_CHARACTERS = 500


# ---- agents ----------------------------------------------------------------------------------------------


class AgentDocument(Struct, frozen=True, kw_only=True):
    """A sub-agent: its task, the call that started it, its duration."""

    id: str
    layout: str
    path: str | None
    root_uuid: str | None
    description: str | None
    prompt: str
    tool_use_id: str | None
    spawned_by: str | None
    parent_agent: str | None
    depth: int
    link: AgentLink
    messages: int
    first_at: dt.datetime | None
    last_at: dt.datetime | None


class ListedAgentDocument(AgentDocument, frozen=True, kw_only=True):
    """A sub-agent of ``agents --json``."""

    type: str | None
    warm_up: bool


class PageAgentDocument(AgentDocument, frozen=True, kw_only=True):
    """A sub-agent for the page, with the beginning of its prompt."""

    agent_type: str | None


class ListedAgentsDocument(Struct, frozen=True):
    """What ``agents --json`` prints."""

    session: str
    agents: list[ListedAgentDocument]


class PageAgentsDocument(Struct, frozen=True):
    """The sub-agents of a session, in the order they started."""

    session: str
    agents: list[PageAgentDocument]


def listed_agent(agent: SubAgent) -> ListedAgentDocument:
    return ListedAgentDocument(type=agent.agent_type, warm_up=agent.is_warm_up, **_members(agent))


def page_agent(agent: SubAgent) -> PageAgentDocument:
    members = _members(agent) | {"prompt": agent.prompt[:_PROMPT_CHARACTERS]}
    return PageAgentDocument(agent_type=agent.agent_type, **members)


def _members(agent: SubAgent) -> dict[str, Any]:
    names = (name for name in AgentDocument.__struct_fields__ if name != "root_uuid")
    return {"root_uuid": agent.root, **{name: getattr(agent, name) for name in names}}


# ---- files -----------------------------------------------------------------------------------------------


class FileVersionDocument(Struct, frozen=True, kw_only=True):
    """One version of a file, without its content. ``diff``: changes since the previous version, on request.

    ``added`` and ``removed``: lines of the session's own write or edit; null where it only saw the file.
    """

    number: int
    at: dt.datetime | None
    source: VersionSource
    entry_uuid: str | None
    existed: bool
    known: bool
    bytes: int | None
    backup: str | None
    added: int | None
    removed: int | None
    diff: str | UnsetType = UNSET


class TouchedFileDocument(Struct, frozen=True):
    """A file that a session touched: written or edited by it, or only seen. Lines are those of all its changes."""

    path: str
    is_edited: bool
    added: int
    removed: int
    versions: list[FileVersionDocument]


class FilesDocument(Struct, frozen=True):
    """The files that a session touched."""

    session: str
    files: list[TouchedFileDocument]
    total: int


class FileTextDocument(Struct, frozen=True, kw_only=True):
    """The text of one version; null if it is not text or unknown."""

    path: str
    number: int
    text: str | None
    is_binary: bool
    cut: bool
    bytes: int | None


class FileDiffDocument(Struct, frozen=True, kw_only=True):
    """Changes from one version to another, or why they are unknown."""

    path: str
    number: int
    against: int
    diff: str
    cut: bool
    problem: str | None


def version_document(number: int, version: FileVersion, diff: str | UnsetType = UNSET) -> FileVersionDocument:
    return FileVersionDocument(
        number=number,
        at=version.at,
        source=version.source,
        entry_uuid=version.entry_uuid,
        existed=version.existed,
        known=version.is_known,
        bytes=version_length(version),
        backup=version.backup_name,
        added=None if version.tally is None else version.tally.added,
        removed=None if version.tally is None else version.tally.removed,
        diff=diff,
    )


def touched_file(path: str, versions: list[FileVersionDocument]) -> TouchedFileDocument:
    return TouchedFileDocument(
        path,
        any(one.added is not None for one in versions),
        sum(one.added or 0 for one in versions),
        sum(one.removed or 0 for one in versions),
        versions,
    )


def version_length(version: FileVersion) -> int | None:
    """Bytes of a version, if known."""
    content = version.content
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    return None if data is None else len(data)


# ---- todos and resume ------------------------------------------------------------------------------------


class TodosDocument(Struct, frozen=True):
    """Todo lists; ``todos --json`` also counts them and the empty ones."""

    lists: list[SessionTodoList]
    total: int | UnsetType = UNSET
    empty: int | UnsetType = UNSET


class ResumeDocument(Struct, frozen=True, kw_only=True):
    """How to continue a session in the client."""

    session: str
    title: str
    cwd: str
    cwd_exists: bool
    command: str
    argv: tuple[str, ...]
    restore: str | UnsetType = UNSET  # the command that brings it back from the archive first


class PageResumeDocument(ResumeDocument, frozen=True, kw_only=True):
    """How to continue a session; ``line`` works from any directory."""

    nearby: tuple[str, ...]
    line: str
