"""A new session that starts as a copy of another, up to any entry.

The copy is what the client's ``--fork-session`` and ``/branch`` make: every line of the
conversation with the same uuid, another ``sessionId`` and a ``forkedFrom``.
Since ids of messages and requests stay, the usage of a fork is not counted twice.

The lines are laid out so that old clients load them too: one straight chain,
parents before children, the results of parallel calls in a row behind the last
call. Sub-agents and progress notes stay behind; the backups of files
come along, so that a rewind works in the fork. The last line is its title.

The original is only read. The new log appears under its name complete and synced.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import UNSET, Struct, UnsetType

from recollect.ask.sessions.home_guard import refuse_mirrored
from recollect.ask.sessions.session import Session
from recollect.change.label import checked_label, copy_title, title_line
from recollect.change.undo import ChangeDocument, RequestDocument
from recollect.errors import StorageError, UsageError
from recollect.model.conversation.graph import Node
from recollect.model.lines import codec
from recollect.model.lines.damage import Damage
from recollect.model.lines.entry import Entry, FileHistoryDelta, FileHistorySnapshot, Kind
from recollect.model.lines.ids import SessionId
from recollect.model.lines.json_text import loose_object
from recollect.store.session_files import HomeBorder
from recollect.system import fsops
from recollect.system.whole_files import copy_regular_files, regular_files


class ForkPlan(Struct, frozen=True):
    """A fork to be made: where the copy ends and what it will hold. Nothing is written yet."""

    session: str
    new: SessionId
    path: Path
    leaf: str
    title: str
    lines: tuple[bytes, ...]
    entries: int
    backups: tuple[Path, ...]
    backups_to: Path | None

    @property
    def bytes(self) -> int:
        """The size of the new log."""
        return sum(map(len, self.lines)) + len(self.lines)


def planned_fork(session: Session, at: str | None = None, title: str | None = None) -> ForkPlan:
    """The fork of a session up to ``at`` (an entry's id or its start), or to where it would be resumed."""
    refuse_mirrored(session)
    conversation = session.conversation(at, whole=True)
    if conversation.leaf.is_sidechain:
        raise UsageError(
            f"entry {conversation.leaf.uuid}: is a sub-agent's", hint="name an entry of the main conversation"
        )
    nodes = in_a_row([node for node in conversation.nodes if node.is_link and not node.is_sidechain])
    if not nodes:
        raise UsageError(
            f"entry {conversation.leaf.uuid}: no conversation leads to it", hint="name a message instead"
        )
    new = SessionId(str(uuid.uuid4()))
    path = session.path.with_name(f"{new}.jsonl")
    HomeBorder(session.home.root).require(path)
    name = copy_title(session.title, "(fork)") if title is None else checked_label("title", title)
    chain = list(_chain_lines(session, nodes, new))
    notes = list(_note_lines(session, {node.uuid for node in nodes}, new))
    backups, target = _backups(session, new)
    return ForkPlan(
        session=session.id,
        new=new,
        path=path,
        leaf=nodes[-1].uuid,
        title=name,
        lines=(*chain, *notes, title_line(new, name)),
        entries=len(chain),
        backups=backups,
        backups_to=target,
    )


def apply(fork: ForkPlan) -> Path:
    """Write the new session; its log comes last, so it is complete when it can be seen."""
    try:
        if fork.backups and fork.backups_to is not None:
            copy_regular_files(fork.backups, fork.backups_to)
        fsops.replace_file(fork.path, b"".join(line + b"\n" for line in fork.lines))
    except OSError as cause:
        hint = f"the original is untouched; {fsops.next_step(cause)}"
        raise StorageError("write", fork.path, cause, hint=hint) from cause
    return fork.path


def in_a_row(chain: Iterable[Node]) -> list[Node]:
    """The chain with the lines of each answer side by side, and what stood between them behind the last.

    Only results and notes are passed: an answer that goes on behind a prompt
    is, whatever its id says, another one.
    """
    ordered: list[Node] = []
    for node in chain:
        place = len(ordered)
        if node.type == "assistant" and node.message_id:
            while place and _may_be_passed(ordered[place - 1]):
                place -= 1
            if not place or ordered[place - 1].message_id != node.message_id:
                place = len(ordered)
        ordered.insert(place, node)
    return ordered


def _may_be_passed(node: Node) -> bool:
    return bool(node.result_ids) or (not node.is_message and not node.is_boundary)


def _chain_lines(session: Session, nodes: list[Node], new: SessionId) -> Iterator[bytes]:
    parent: str | None = None
    for node in nodes:
        entry = session.load(node)
        if entry is not None:
            origin = {"sessionId": session.id, "messageUuid": node.uuid}
            yield _changed(entry, {"parentUuid": parent, "sessionId": str(new), "forkedFrom": origin})
            parent = node.uuid


def _note_lines(session: Session, uuids: set[str], new: SessionId) -> Iterator[bytes]:
    """Metadata the copied conversation needs: replaced results, and the backups of its prompts."""
    for item in session.entries():
        entry = item.readable if isinstance(item, Damage) else item
        body = entry.body if entry is not None else None
        if entry is None:
            continue
        if entry.kind is Kind.CONTENT_REPLACEMENT:
            yield _changed(entry, {"sessionId": str(new)})
        elif isinstance(body, FileHistorySnapshot | FileHistoryDelta) and body.message_id in uuids:
            yield entry.raw


def _changed(entry: Entry, changes: dict[str, object]) -> bytes:
    try:
        return codec.changed(entry, changes).raw
    except ValueError:
        # Bytes that are not sound JSON (a lone surrogate, a NUL run): write what is read there.
        fields = loose_object(entry.raw.strip(b"\0 \t\r"))
        return json.dumps({**fields, **changes}, separators=(",", ":")).encode()


def _backups(session: Session, new: SessionId) -> tuple[tuple[Path, ...], Path | None]:
    if session.session_id is None:
        return (), None
    home = session.home
    return tuple(regular_files(home.file_history_dir(session.session_id))), home.file_history_dir(new)


class ForkDocument(ChangeDocument, frozen=True, kw_only=True):
    """A copy that continues as a separate session. A plan has no id yet: every run makes a new one."""

    session: str
    at: str
    title: str
    entries: int
    bytes: int
    backups: int
    new: str | None
    path: str | None


def fork_document(
    plan: ForkPlan, *, applied: bool, undo: str | None, request: RequestDocument | UnsetType | None = UNSET
) -> ForkDocument:
    return ForkDocument(
        session=plan.session,
        at=plan.leaf,
        title=plan.title,
        entries=plan.entries,
        bytes=plan.bytes,
        backups=len(plan.backups),
        new=str(plan.new) if applied else None,
        path=str(plan.path) if applied else None,
        applied=applied,
        undo=undo,
        undo_request=request,
    )
