"""The command ``show``: what was said in a session."""

from __future__ import annotations

import contextlib
import sys
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from collections.abc import Callable, Iterable, Iterator

from msgspec import Raw, Struct

from recollect.ask.conversation.documents import conversation_pieces
from recollect.ask.cost.price import performance
from recollect.ask.sessions import messages as whole_session
from recollect.ask.sessions.originals import resumed
from recollect.ask.sessions.session import Session
from recollect.cli.terminal import conversation_view, output
from recollect.cli.terminal.conversation_view import DisplayOptions, ToolDetail
from recollect.cli.terminal.numbers import NumberedHit
from recollect.cli.terminal.options import add_json, command, flag
from recollect.cli.terminal.output import paged
from recollect.cli.terminal.sessions import named_hit, tell_lost_beginning, tell_unknown
from recollect.cli.terminal.text import counted, shortened, visible, visible_lines
from recollect.errors import DamagedData, NotFound, UsageError
from recollect.model.conversation.conversation import Conversation, Message, Messages
from recollect.model.lines.blocks import blocks_of
from recollect.model.lines.damage import Damage
from recollect.model.lines.ids import command_name, short_id
from recollect.model.lines.json_text import encode_json
from recollect.store.logs.reader import LogReader
from recollect.system.paths import AGENTS

_FINDINGS_SHOWN = 20
_TITLE_COLUMNS = 60
_CONTEXT = 3
_LONG, _LAST = 40, 20  # of a longer session, a terminal shows the end


class _ShowDocument(Struct):
    """The messages to show, in sections with headings, and the damage of their log."""

    session: str
    sections: list[tuple[str, Messages]]
    damage: Callable[[], list[Damage]]
    conversation: Conversation | None = None
    is_whole: bool = False

    @property
    def total(self) -> int:
        return sum(len(messages) for _, messages in self.sections)


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "session",
        nargs="?",
        metavar="S",
        help="session: id, start of an id, title, path, @last, or a number of the last search",
    )
    parser.usage = "%(prog)s [-h] [OPTION]... [S]"  # argparse cannot wrap the exclusive group
    part = parser.add_mutually_exclusive_group()
    flag(part, "--all-branches", "show all branches, abandoned ones too")
    part.add_argument("--branch", metavar="LEAF", help="show the branch that ends at this entry (see --tree)")
    part.add_argument(
        "--before-compaction", type=int, metavar="N", help="show the conversation before its Nth compaction"
    )
    part.add_argument("--sub-agent", metavar="A", help="show the log of a sub-agent (see --sub-agents)")
    parser.add_argument("--at", metavar="UUID", help="open at this message, with a few around it")
    parser.add_argument(
        "--context",
        type=int,
        default=_CONTEXT,
        metavar="N",
        help=f"with --at or a number: messages before and after (default {_CONTEXT})",
    )
    parser.add_argument(
        "--whole",
        action=BooleanOptionalAction,
        help="everything that was said (default), or only what a resume loads",
    )
    parser.add_argument(
        "--tools",
        choices=[str(one) for one in ToolDetail],
        default="short",
        help="detail of tool calls (default short)",
    )
    flag(parser, "--thinking", "include the model's thinking")
    parser.add_argument(
        "--offset",
        type=int,
        metavar="N",
        help=f"skip N messages; -N: only the last N (default on a terminal: -{_LAST} of more than {_LONG})",
    )
    parser.add_argument("-n", "--limit", type=int, metavar="N", help="show at most N messages")
    flag(parser, "--api", "show the messages sent to the API on resume")
    flag(parser, "--performance", "add the speed of each answer and its tokens per dollar")
    flag(parser, "--strict", "exit with status 4 if lines are damaged")
    add_json(parser)
    flag(parser, "--no-pager", "do not use a pager")
    flag(parser, "--raw", "do not escape control characters; not on a terminal")


def run(options: Namespace) -> int:
    _check(options)
    _, session, hit = named_hit(options, options.session)
    reading = _reading(session, options) if hit is None else _reading_at_hit(session, options, hit)
    if options.at is not None:
        reading = _at_message(session, reading, options)
    elif sys.stdout.isatty() and reading.total > _LONG and _wants_all(options):
        options.offset = -_LAST
    if options.offset or options.limit is not None:
        _tell_part(options, session, reading)
    if options.api:
        is_other = session.agent in AGENTS
        damage = _print_other_api(session, options) if is_other else _print_api(reading, options)
    elif options.json:
        damage = _print_json(reading, options)
    else:
        damage = _print_text(session, reading, options)
    if damage and (options.api or not options.json):
        tell_damage(damage)
    _tell_around(session, with_results=options.tools == ToolDetail.FULL)
    return DamagedData.exit_code if damage and options.strict else 0


def _wants_all(options: Namespace) -> bool:
    """Whether nothing was said about which messages are meant."""
    is_chosen = options.all_branches or options.before_compaction is not None or options.json or options.api
    return not is_chosen and options.offset is None and options.limit is None


def _tell_part(options: Namespace, session: Session, reading: _ShowDocument) -> None:
    """Which messages these are, and how to read those before and after them."""
    chosen = range(reading.total)[options.offset or 0 :][: options.limit]
    if options.json or len(chosen) == reading.total or not chosen:
        return
    whole = " of the whole session" if reading.is_whole else ""
    output.note(f"recollect: messages {chosen.start + 1:,} to {chosen.stop:,} of {reading.total:,}{whole}")
    name, count = command_name(short_id(session.id), session.path), max(len(chosen), _LAST)
    if chosen.start:
        before = max(chosen.start - count, 0)
        words = ["show", name, "--offset", str(before), "-n", str(chosen.start - before)]
        output.note(f"  before: {visible(command(options, *words))}")
    if chosen.stop < reading.total:
        words = ["show", name, "--offset", str(chosen.stop), "-n", str(count)]
        output.note(f"  after: {visible(command(options, *words))}")


def _tell_around(session: Session, *, with_results: bool) -> None:
    """What belongs to the session and was not shown."""
    pending = LogReader(session.path).pending()
    if pending is not None:  # no damage
        output.note(
            f"recollect: {counted(pending.length, 'byte')} at the end are half a line and not shown yet"
        )

    if session.glance.continued_in:
        output.note(f"recollect: goes on in session {visible(session.glance.continued_in)}")
    if session.glance.bridge_session:
        output.note(f"recollect: controlled through session {visible(session.glance.bridge_session)}")
    tell_lost_beginning(session)
    tell_unknown(session)
    # Of results that were too large for the log, the conversation has the beginning only.
    place = session.file.tool_results
    large = sum(1 for file in place.iterdir() if file.is_file()) if with_results and place.is_dir() else 0
    if large:
        are = "result is" if large == 1 else "results are"
        output.note(f"recollect: {large:,} large {are} whole in {visible(str(place))}")


def _check(options: Namespace) -> None:
    if options.session is None:
        raise UsageError("show: no session was named", hint="for example: recollect show @last")
    if options.raw and sys.stdout.isatty():
        raise UsageError(
            "--raw: not on a terminal, because a transcript can hold control characters",
            hint=f"write to a file: recollect show {options.session} --raw > talk.txt",
        )
    if options.context < 0:
        raise UsageError(f"--context {options.context}: must not be negative", hint="0 shows one message")
    if options.at is not None and (options.offset or options.limit is not None or options.api):
        raise UsageError("--at: opens at one message", hint="leave out --offset, --limit and --api")
    if options.limit is not None and options.limit < 0:
        raise UsageError(
            f"--limit {options.limit}: must not be negative", hint="--offset -20 takes the last 20"
        )
    if options.api and (options.all_branches or options.offset or options.limit is not None):
        raise UsageError(
            "--api: works on one whole conversation",
            hint="leave out --all-branches, --offset and --limit",
        )


def _reading(session: Session, options: Namespace) -> _ShowDocument:
    if options.sub_agent is not None:
        agent = whole_session.agent_talk(session, options.sub_agent)
        heading = f"sub-agent {agent.name}"
        return _ShowDocument(
            session.id, [(heading, agent.conversation.messages)], agent.log.damage, agent.conversation
        )
    if options.all_branches:
        found = [(_section_heading(one), one.messages) for one in whole_session.sections(session)]
        return _ShowDocument(session.id, found, session.damage, is_whole=True)
    if options.before_compaction is not None:
        conversation = whole_session.before_compaction(session, options.before_compaction)
    else:
        try:
            conversation = session.conversation(options.branch, whole=options.api and bool(options.whole))
        except NotFound as problem:
            return _of_another_dialect(session, options, problem)
    is_whole = options.before_compaction is None if options.whole is None else options.whole
    if is_whole and not options.api:
        story = whole_session.whole_story(session, conversation.leaf.uuid)
        return _ShowDocument(session.id, [("", story.messages)], session.damage, conversation, is_whole=True)
    is_cut = bool(conversation.nodes) and conversation.nodes[0].is_boundary
    heading = "compacted here; --whole shows the messages before" if is_cut else ""
    return _ShowDocument(session.id, [(heading, conversation.messages)], session.damage, conversation)


def _of_another_dialect(session: Session, options: Namespace, problem: NotFound) -> _ShowDocument:
    """A log in our flat dialect is shown to people too, and it is said that the client loads nothing of it.

    Documents are about what the client loads, and have no messages of it on any surface.
    """
    is_exact = options.branch or options.api or options.json
    converted = [] if is_exact else whole_session.converted_sections(session)
    if not converted:
        raise problem
    output.note(f"recollect: {visible(problem.message)}; this is what recollect reads of it")
    return _ShowDocument(session.id, [("", one.messages) for one in converted], session.damage)


def _reading_at_hit(session: Session, options: Namespace, hit: NumberedHit) -> _ShowDocument:
    """What a number of the last search stands for; other options still choose another part."""
    is_free = not (options.all_branches or options.branch or options.before_compaction or options.sub_agent)
    is_free = is_free and not options.offset and options.limit is None and not options.api
    options.at = options.at or (hit.uuid if is_free else None)
    if is_free and hit.uuid is None:
        output.note("recollect: the hit is in a file beside the log; this is the conversation")
    if is_free and hit.agent is not None:
        with contextlib.suppress(NotFound):
            agent = whole_session.agent_talk(session, hit.agent)
            heading = f"sub-agent {agent.name}"
            return _ShowDocument(
                session.id, [(heading, agent.conversation.messages)], agent.log.damage, agent.conversation
            )
    return _reading(session, options)


def _at_message(session: Session, reading: _ShowDocument, options: Namespace) -> _ShowDocument:
    """The part of the log in which a message stands, cut down to it and its neighbours."""
    for wider in ({}, {"whole": True}, {"all_branches": True}):
        if wider:
            vars(options).update(wider)
            reading = _reading(session, options)
        place = _place_of(reading, options.at)
        if place is None:
            continue
        options.offset = max(place - options.context, 0)
        options.limit = place + options.context + 1 - options.offset
        return reading
    raise NotFound(
        f"message {options.at!r}: not in session {session.id}",
        hint="`recollect search` names messages; `recollect show --tree` shows the branches",
    )


def _place_of(reading: _ShowDocument, uuid: str) -> int | None:
    start = 0
    for _, messages in reading.sections:
        place = messages.place_of(uuid)
        if place is not None:
            return start + place
        start += len(messages)
    return None


def _section_heading(section: whole_session.ConversationSection) -> str:
    state = "active branch" if section.active else "branch"
    fork = f", from {section.forked_at[:8]}" if section.forked_at else ""
    return f"{state} {section.leaf[:8]}{fork}"


def _chosen(reading: _ShowDocument, options: Namespace) -> Iterator[tuple[str, Message]]:
    """The chosen messages, read lazily; the first of a section comes with its heading."""
    chosen = range(reading.total)[options.offset or 0 :][: options.limit]
    start = 0
    for heading, messages in reading.sections:
        title = heading
        for index in range(max(start, chosen.start), min(start + len(messages), chosen.stop)):
            yield title, messages[index - start]
            title = ""
        start += len(messages)


def _print_json(reading: _ShowDocument, options: Namespace) -> list[Damage]:
    damage: list[Damage] = []

    def collected() -> Iterator[Damage]:
        damage.extend(reading.damage())
        yield from damage

    messages = (message for _, message in _chosen(reading, options))
    output.write_json(
        conversation_pieces(
            reading.session,
            messages,
            reading.total,
            collected(),
            is_whole=reading.is_whole,
            with_performance=options.performance,
        )
    )
    return damage


def _print_text(session: Session, reading: _ShowDocument, options: Namespace) -> list[Damage]:
    view = DisplayOptions(ToolDetail(options.tools), options.thinking, tagged=options.raw)
    safe = _unchanged if options.raw else visible_lines
    with paged(enabled=not options.no_pager) as write:
        # A title may stand anywhere in the log: a millisecond for each megabyte.
        title_line = [shortened(visible(session.title), _TITLE_COLUMNS), visible(session.glance.cwd or "")]
        write(output.styled("  ".join(filter(None, [*title_line, visible(session.id)])), "bold") + "\n")
        for heading, message in _chosen(reading, options):
            title = [output.styled(f"--- {visible(heading)} ---", "bold"), ""] if heading else []
            if options.at is not None and any(entry.uuid == options.at for entry in message.entries):
                title.append(output.styled("--- found here ---", "yellow"))
            lines = [*title, *conversation_view.lines(message, view, safe)]
            lines += _speed(message) if options.performance else []
            if lines:
                write("\n".join(lines))
    return reading.damage()


def _speed(message: Message) -> list[str]:
    """How fast an answer came; nothing for other messages."""
    found = performance(message)
    if found is None:
        return []
    rates = [(found.tokens_per_second, "tokens/s"), (found.tokens_per_dollar, "tokens/$")]
    said = [f"{rate:,.1f} {unit}" for rate, unit in rates if rate is not None]
    took = [f"{found.duration_ms / 1000:,.1f} s"] if found.duration_ms else []
    return [output.styled(", ".join([*took, f"{found.output_tokens:,} tokens", *said]), "dim"), ""]


def _unchanged(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _print_other_api(session: Session, options: Namespace) -> list[Damage]:
    """Items of another agent's client: they have a shape of their own, so text is JSON as well."""
    items = resumed(session)
    if options.json:
        output.print_json({"session": session.id, "messages": items})
    else:
        with paged(enabled=not options.no_pager) as write:
            for item in items:
                write(visible_lines(encode_json(item).decode()))
    return []


def _print_api(reading: _ShowDocument, options: Namespace) -> list[Damage]:
    conversation = reading.conversation
    messages = conversation.to_api() if conversation is not None else []
    damage = reading.damage()
    if options.json:
        output.print_json({"session": reading.session, "messages": messages})
        return damage
    view = DisplayOptions(ToolDetail(options.tools), options.thinking)
    safe = _unchanged if options.raw else visible_lines
    with paged(enabled=not options.no_pager) as write:
        for text in _api_texts(messages, view, safe):
            write(text)
    return damage


def _api_texts(
    messages: Iterable[dict[str, object]], view: DisplayOptions, safe: Callable[[str], str]
) -> Iterator[str]:
    for one in messages:
        blocks = tuple(blocks_of(Raw(encode_json(one["content"]))))
        message = Message("", None, str(one["role"]), None, blocks, ())
        yield "\n".join(conversation_view.lines(message, view, safe))


def tell_damage(damage: list[Damage]) -> None:
    """List damage on stderr, the first few only."""
    partly = sum(one.readable is not None for one in damage)
    rest = f"; {counted(partly, 'line')} of them shown in part" if partly else "; all others are shown"
    output.note(f"recollect: {counted(len(damage), 'damaged line')} in this log{rest}")
    for one in damage[:_FINDINGS_SHOWN]:
        output.note(f"  byte {one.offset}: {one.code}: {visible(one.detail)}")
    if len(damage) > _FINDINGS_SHOWN:
        output.note(f"  and {len(damage) - _FINDINGS_SHOWN:,} more; --json lists them all")
