"""Hand a session over to another client: a native session of Claude Code or Codex, in a directory that is no one's home.

The conversation as its own client would load it is carried: prompts, answers, calls and their results. What cannot
be carried is listed. Nothing is written into the home of a client: the user copies the file there, or names the directory
as a home.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Raw, Struct, structs

from recollect.agents.lines import FROM_AGENT, encode, titled
from recollect.agents.mirror_files import facts_of_mirror
from recollect.ask.sessions.home_guard import refuse_client_home
from recollect.ask.sessions.session import Session
from recollect.errors import UsageError
from recollect.model.conversation.chain import entries_of
from recollect.model.conversation.conversation import Conversation
from recollect.model.conversation.graph import Node
from recollect.model.convert import Conversion, Loss, to_claude
from recollect.model.convert.into_claude import to_codex
from recollect.model.convert.turns import LossCode, LossCollector
from recollect.model.lines.blocks import Block, ServerToolUseBlock, ThinkingBlock
from recollect.model.lines.entry import Assistant, Entry, User
from recollect.model.lines.ids import derived_uuid
from recollect.model.lines.json_text import loose_value
from recollect.model.project_key import project_key
from recollect.share.export import export
from recollect.system import fsops
from recollect.system.paths import CLAUDE

TARGETS = ("claude", "codex")


class ConvertPlan(Struct, frozen=True):
    """What would be written, and what cannot be carried."""

    session: str
    from_agent: str
    to_agent: str
    new: str
    path: Path
    read_from: Path  # the home of the session's own client
    entries: int
    lines: list[bytes]
    losses: list[Loss]

    @property
    def bytes(self) -> int:
        """The size of the new file."""
        return sum(len(line) + 1 for line in self.lines)


def planned(session: Session, target: str, directory: Path) -> ConvertPlan:
    """Convert a session for another client; ``directory`` is laid out as that client's home is."""
    source = session.agent
    if source == target:
        raise UsageError(
            f"session {session.id}: it is a session of {target} already",
            hint="`recollect fork` copies one of Claude, `recollect export --format original` one of another agent",
        )
    collected = LossCollector()
    conversation = session.conversation()
    entries = list(_carried(entries_of(conversation.nodes, session.load), collected))
    began = next((entry.at for entry in entries if entry.at is not None), dt.datetime.now(dt.UTC))
    new = derived_uuid(f"{session.id}\0{target}", 0)
    if target == "codex":
        made = to_codex(entries, thread=new, cwd=session.cwd, at=began)
        place = Path("sessions", f"{began:%Y/%m/%d}", f"rollout-{began:%Y-%m-%dT%H-%M-%S}-{new}.jsonl")
    else:
        made = to_claude(entries, session_id=new, cwd=session.cwd or "/")
        place = Path("projects", project_key(session.cwd or "/"), f"{new}.jsonl")
    if not made.lines:
        raise UsageError(
            f"session {session.id}: it holds no conversation", hint="`recollect show S --all-branches`"
        )
    title = _given_title(session) if target == CLAUDE else None
    lines = list(map(_without_usage, made.lines)) if target == CLAUDE else made.lines
    lines += [] if title is None else [encode(titled(new, title))]
    losses = [
        *collected.all(),
        *_told(made),
        *_left_behind(session, conversation, is_titled=title is not None),
    ]
    facts = facts_of_mirror(session.home.root)
    home = session.home.root if facts is None else Path(facts.source)
    return ConvertPlan(session.id, source, target, new, directory / place, home, len(entries), lines, losses)


def _without_usage(line: bytes) -> bytes:
    """A line that counts no response: what was paid for in another client did not cost 0 in this one.

    Every client that is asked loads and sends an answer without token counts (tests/oracle).
    """
    fields = msgspec.json.decode(line, type=dict[str, Raw])
    if bytes(fields["type"]) != b'"assistant"':
        return line
    message = msgspec.json.decode(fields["message"], type=dict[str, Raw])
    kept = {name: value for name, value in message.items() if name != "usage"}
    return msgspec.json.encode(fields | {"message": kept})


def refuse_target(plan: ConvertPlan) -> None:
    """The new file must not be there yet, nor below a file, nor below the home of a client: one of this machine, or the one it is read from."""
    refuse_client_home(plan.path)
    elsewhere = "name another directory with --output DIR"
    if plan.path.resolve().is_relative_to(plan.read_from.resolve()):
        raise UsageError(
            f"{plan.path}: lies in {plan.read_from}, the home of {plan.from_agent} that the session is read from",
            hint=f"recollect writes no session of another client there: {elsewhere}",
        )
    above = next(one for one in plan.path.parents if one.exists())
    if not above.is_dir():
        raise UsageError(f"{above}: is a file, and the new session needs a directory", hint=elsewhere)
    if plan.path.exists() or plan.path.is_symlink():
        hint = f"it was converted before: continue that one, remove it, or {elsewhere}"
        raise UsageError(f"{plan.path}: already exists", hint=hint)


def apply(plan: ConvertPlan) -> None:
    """Write the new file."""
    refuse_target(plan)
    fsops.make_directories(plan.path.parent)
    export.write_file(plan.path, (line + b"\n" for line in plan.lines), force=False)


def _given_title(session: Session) -> str | None:
    """The name that a user or a model gave; what lists show without one is a prompt, which is carried."""
    return session.glance.custom_title or session.glance.ai_title


def _left_behind(session: Session, conversation: Conversation, *, is_titled: bool) -> list[Loss]:
    """What stands outside of the conversation that is carried."""
    hidden = _before_compactions(session, conversation)
    beside = [one for one in session.branches() if not one.active and one.leaf not in hidden]
    spoken = sum(node.is_message for node in hidden.values())
    found = (
        (LossCode.SIDECHAIN, "conversation of a sub-agent", len(session.agents())),
        (LossCode.BRANCHES, "branch beside the conversation", len(beside)),
        (LossCode.COMPACTED, "message before the last compaction, of which the summary is carried", spoken),
        (LossCode.METADATA, "title", int(not is_titled and _given_title(session) is not None)),
        (LossCode.METADATA, "tag", int(session.glance.tag is not None)),
    )
    return [Loss(code, what, 0, count) for code, what, count in found if count]


def _before_compactions(session: Session, conversation: Conversation) -> dict[str, Node]:
    """What compactions of this conversation hide, however often it was compacted."""
    befores = {one.uuid: one.before for one in session.compactions()}
    chain = {node.uuid: node for node in conversation.history}
    waiting = [befores.pop(uuid) for uuid in chain if uuid in befores]
    while waiting:
        before = waiting.pop()
        if before is not None and before in session.graph.nodes and before not in chain:
            earlier = session.conversation(before, whole=True).history
            chain |= {node.uuid: node for node in earlier}
            waiting += [befores.pop(node.uuid) for node in earlier if node.uuid in befores]
    loaded = {node.uuid for node in conversation.nodes}
    return {uuid: node for uuid, node in chain.items() if uuid not in loaded}


def _told(made: Conversion) -> list[Loss]:
    """Without what every session of another agent lacks and no client needs."""
    ordinary = (LossCode.IDS_MADE, LossCode.USAGE_UNKNOWN, LossCode.TIME_MOVED, LossCode.RESPONSE_IDS)
    return [loss for loss in made.losses if loss.code not in ordinary]


def _carried(entries: list[Entry], losses: LossCollector) -> Iterator[Entry]:
    """The entries that mean the same to another client, without thinking that only its own model can read.

    Parts of an answer that stand one after the other are one answer: calls that were made together stay together.
    """
    answer: str | None = None
    for entry in entries:
        body = entry.body
        if isinstance(body, User) and body.is_meta and not _is_from_agent(entry):
            losses.add(LossCode.CONTEXT, "context that the client adds by itself", entry.offset)
        elif isinstance(body, Assistant):
            kept = [block for block in body.message.blocks if _is_carried(block, entry, losses)]
            answer = answer or body.message.id
            if kept:
                message = structs.replace(body.message, content=kept, id=answer)
                yield structs.replace(entry, body=structs.replace(body, message=message))
        else:
            answer = None if isinstance(body, User) else answer
            yield entry


def _is_from_agent(entry: Entry) -> bool:
    line = loose_value(entry.raw) if f'"{FROM_AGENT}"'.encode() in entry.raw else None
    return isinstance(line, dict) and FROM_AGENT in line


def _is_carried(block: Block, entry: Entry, losses: LossCollector) -> bool:
    if isinstance(block, ThinkingBlock):
        losses.add(LossCode.THINKING, "thinking, which only its own model takes back", entry.offset)
    elif isinstance(block, ServerToolUseBlock):
        losses.add(LossCode.SERVER_TOOL, "search that the service made itself", entry.offset)
    return not isinstance(block, ThinkingBlock | ServerToolUseBlock)
