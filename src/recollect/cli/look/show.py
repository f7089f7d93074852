"""Show a conversation as the client would load it, or another way it went.

Messages are printed as they are read: a long session starts at once. --offset and
--limit count messages, a negative offset from the end. On a terminal a long one goes
through $PAGER (less). Damaged lines are told on stderr when the end is reached; what
can be read is shown. --api gives the list client 2.1.325 would send on resume. Writes nothing.

Example:
  recollect show @last
  recollect show 3f2a --offset -20 --tools full
  recollect show 3f2a --api --json
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator

from msgspec import Raw, Struct

from recollect.cli.terminal import conversation_view, output
from recollect.cli.terminal.conversation_view import DisplayOptions, ToolDetail
from recollect.cli.terminal.homes import open_home
from recollect.cli.terminal.pager import paged
from recollect.cli.terminal.text import counted, visible
from recollect.errors import DamagedData, UsageError
from recollect.model.blocks import blocks_of
from recollect.model.conversation.conversation import Conversation, Message, Messages
from recollect.model.damage import Damage
from recollect.services import history
from recollect.services.documents.conversation import conversation_pieces
from recollect.services.session import Session
from recollect.storage.logs.reader import LogReader
from recollect.storage.logs.summary import glance

_FINDINGS_TOLD = 20


class _ShowDocument(Struct):
    """What is to be shown: sections with a heading each, and where damage is looked for."""

    session: str
    sections: list[tuple[str, Messages]]
    damage: Callable[[], list[Damage]]
    conversation: Conversation | None = None

    @property
    def total(self) -> int:
        return sum(len(messages) for _, messages in self.sections)


def add_options(parser: ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("session", nargs="?", metavar="S", help="id or its start, title, path, or @last")
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--all-branches", action="store_true", help="also what was given up by going back")
    part.add_argument("--branch", metavar="LEAF", help="the conversation that ends there (see `tree`)")
    part.add_argument("--before-compaction", type=int, metavar="N", help="as it was before the Nth one")
    part.add_argument("--agent", metavar="A", help="the log of a sub-agent (see `agents`)")
    parser.add_argument("--whole", action="store_true", help="also what compactions hide")
    parser.add_argument(
        "--tools", choices=[str(one) for one in ToolDetail], default="short", help="default short"
    )
    parser.add_argument("--thinking", action="store_true", help="also what the model thought")
    parser.add_argument("--offset", type=int, default=0, metavar="N", help="pass over so many messages")
    parser.add_argument("--limit", type=int, metavar="N", help="at most so many messages")
    parser.add_argument("--api", action="store_true", help="the Messages-API list instead")
    parser.add_argument("--strict", action="store_true", help="exit 4 where lines are damaged")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--no-pager", action="store_true", help="print straight to the terminal")
    parser.add_argument(
        "--raw", action="store_true", help="control characters as they are; not to a terminal"
    )


def run(options: Namespace) -> int:
    """Print the conversation."""
    _check(options)
    session = open_home(options.homes, options.data).session(options.session)
    reading = _reading(session, options)
    if options.api:
        damage = _print_api(reading, options)
    elif options.json:
        damage = _print_json(reading, options)
    else:
        damage = _print_text(session, reading, options)
    if damage and (options.api or not options.json):
        tell_damage(damage)
    _tell_pending(session)
    return DamagedData.exit_code if damage and options.strict else 0


def _tell_pending(session: Session) -> None:
    """A tail without its newline is no damage, but what it may hold is not shown."""
    pending = LogReader(session.path).pending()
    if pending is not None:
        output.note(f"recollect: {counted(pending.length, 'byte')} after the last newline are not shown yet")


def _check(options: Namespace) -> None:
    if options.session is None:
        raise UsageError("show: which session?", hint="for example: recollect show @last")
    if options.raw and sys.stdout.isatty():
        raise UsageError(
            "--raw: control characters of a transcript do not go to a terminal",
            hint=f"send it elsewhere: recollect show {options.session} --raw > talk.txt",
        )
    if options.limit is not None and options.limit < 0:
        raise UsageError(
            f"--limit {options.limit}: must not be negative", hint="--offset -20 takes the last 20"
        )
    if options.api and (options.all_branches or options.offset or options.limit is not None):
        raise UsageError(
            "--api: is the list for one conversation as a whole",
            hint="leave out --all-branches, --offset and --limit",
        )


def _reading(session: Session, options: Namespace) -> _ShowDocument:
    if options.agent is not None:
        talk = history.agent_talk(session, options.agent)
        heading = f"sub-agent {talk.name}"
        return _ShowDocument(
            session.id, [(heading, talk.conversation.messages)], talk.log.damage, talk.conversation
        )
    if options.all_branches:
        found = [(_section_heading(one), one.messages) for one in history.sections(session)]
        return _ShowDocument(session.id, found, session.damage)
    if options.before_compaction is not None:
        conversation = history.before_compaction(session, options.before_compaction)
    else:
        conversation = session.conversation(options.branch, whole=options.whole)
    messages = history.whole_messages(session, conversation) if options.whole else conversation.messages
    compacted = not options.whole and bool(conversation.nodes) and conversation.nodes[0].is_boundary
    heading = "compacted here; --whole shows what was before" if compacted else ""
    return _ShowDocument(session.id, [(heading, messages)], session.damage, conversation)


def _section_heading(section: history.ConversationSection) -> str:
    state = "active branch" if section.active else "branch"
    fork = f", from {section.forked_at[:8]}" if section.forked_at else ""
    return f"{state} {section.leaf[:8]}{fork}"


def _chosen(reading: _ShowDocument, options: Namespace) -> Iterator[tuple[str, Message]]:
    """The messages asked for, each read when it is its turn; the first of a section with its heading."""
    wanted = range(reading.total)[options.offset :]
    wanted = wanted if options.limit is None else wanted[: options.limit]
    start = 0
    for heading, messages in reading.sections:
        title = heading
        for index in range(max(start, wanted.start), min(start + len(messages), wanted.stop)):
            yield title, messages[index - start]
            title = ""
        start += len(messages)


def _print_json(reading: _ShowDocument, options: Namespace) -> list[Damage]:
    damage: list[Damage] = []

    def looked_for() -> Iterator[Damage]:
        damage.extend(reading.damage())
        yield from damage

    messages = (spoken for _, spoken in _chosen(reading, options))
    output.write_json(conversation_pieces(reading.session, messages, reading.total, looked_for()))
    return damage


def _print_text(session: Session, reading: _ShowDocument, options: Namespace) -> list[Damage]:
    view = DisplayOptions(ToolDetail(options.tools), options.thinking)
    safe = _as_it_is if options.raw else conversation_view.safe_text
    with paged(enabled=not options.no_pager) as write:
        write(_title(session))
        for heading, spoken in _chosen(reading, options):
            title = [output.styled(f"--- {visible(heading)} ---", "bold"), ""] if heading else []
            lines = [*title, *conversation_view.lines(spoken, view, safe)]
            if lines:
                write("\n".join(lines))
    return reading.damage()


def _title(session: Session) -> str:
    """Which session this is, from the two ends of its log: the first line must not wait for a search."""
    seen = glance(session.path, deep=False)
    facts = [seen.custom_title or seen.ai_title or "", seen.cwd or "", session.id]
    return output.styled("  ".join(visible(fact) for fact in facts if fact), "bold") + "\n"


def _as_it_is(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _print_api(reading: _ShowDocument, options: Namespace) -> list[Damage]:
    conversation = reading.conversation
    messages = conversation.to_api() if conversation is not None else []
    damage = reading.damage()
    if options.json:
        output.print_json({"session": reading.session, "messages": messages})
        return damage
    view = DisplayOptions(ToolDetail(options.tools), options.thinking)
    safe = _as_it_is if options.raw else conversation_view.safe_text
    with paged(enabled=not options.no_pager) as write:
        for text in _api_texts(messages, view, safe):
            write(text)
    return damage


def _api_texts(
    messages: Iterable[dict[str, object]], view: DisplayOptions, safe: Callable[[str], str]
) -> Iterator[str]:
    for one in messages:
        blocks = tuple(blocks_of(Raw(output.json_bytes(one["content"]))))
        spoken = Message("", None, str(one["role"]), None, blocks, ())
        yield "\n".join(conversation_view.lines(spoken, view, safe))


def tell_damage(damage: list[Damage]) -> None:
    """Findings on stderr; of very many, the first."""
    partly = sum(one.readable is not None for one in damage)
    rest = f"; {counted(partly, 'line')} of them shown as far as legible" if partly else "; the rest is shown"
    output.note(f"recollect: {counted(len(damage), 'line')} of this log cannot be read as written{rest}")
    for one in damage[:_FINDINGS_TOLD]:
        output.note(f"  byte {one.offset}: {one.code}: {visible(one.detail)}")
    if len(damage) > _FINDINGS_TOLD:
        output.note(f"  and {len(damage) - _FINDINGS_TOLD:,} more; --json lists them all")
