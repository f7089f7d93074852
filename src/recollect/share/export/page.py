"""A session as one file that opens in any browser, without recollect and without a network: the page with the session inside.

Every message is there twice: as plain text, for readers without scripts, and as the JSON that the local page is
sent, which a script shows as the page does (``web/export``). JSON in an element of that type is never run, and it
holds no ``<``. The style and the script are allowed by their hashes, so a browser runs no other and loads nothing.

Secrets are removed from a line before anything is made from it, so no markup can split one.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import functools
import hashlib
import os
import weakref
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct, structs

from recollect.agents.homes import UNKNOWN_COST
from recollect.ask.conversation.content import PageSession, media_type_of
from recollect.ask.conversation.conversation import ConversationView, ViewMessages, talk_of
from recollect.ask.conversation.documents import (
    ConversationMapDocument,
    TurnCostDocument,
)
from recollect.ask.conversation.turns import turns_document
from recollect.ask.conversation.window import MessageWindow, map_document, prompt_document, prompt_places
from recollect.ask.secrets.redactor import Redactor
from recollect.ask.secrets.scan import SuspectLines
from recollect.ask.sessions import messages as whole_session
from recollect.ask.sessions.messages import first_prompt
from recollect.ask.sessions.originals import unknown_records
from recollect.ask.sessions.session import Compaction, Session
from recollect.errors import RecollectError
from recollect.model.budget import fine_dollars
from recollect.model.conversation.agents import inline_roots, is_warm_up, read_meta
from recollect.model.conversation.conversation import Message, spoken
from recollect.model.conversation.graph import Node
from recollect.model.cost.money import AmountDocument, Spending
from recollect.model.lines import codec
from recollect.model.lines.blocks import (
    Block,
    McpToolUseBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    blocks_of,
)
from recollect.model.lines.damage import Damage, Line, readable
from recollect.model.lines.entry import Entry
from recollect.model.lines.ids import short_id
from recollect.model.lines.json_text import encode_json
from recollect.model.text.snippet import plain
from recollect.store.home import AgentFile
from recollect.store.logs.conversation_cache import LogGraph, entry_of
from recollect.store.logs.reader import OpenLog, entry_in
from recollect.system.peek import open_regular

_FRAME = Path(__file__).parent / "frame"
_LONGEST_TEXT = 200_000
_LARGEST_PICTURE, _LARGEST_META = 8 << 20, 1 << 20
_AT_HAND = 8  # a message, its cost and its calls need the same lines
_CHUNK = 1 << 16


class ExportedAgent(Struct, frozen=True):
    """A sub-agent whose messages are in the file. ``problem`` says why they are not."""

    id: str
    title: str
    problem: str = ""


class ExportedSession(Struct, frozen=True):
    """What the script needs besides the messages."""

    id: str
    is_whole: bool
    map: ConversationMapDocument
    turns: list[TurnCostDocument]
    compactions: list[Compaction]
    agents: list[ExportedAgent]


def session_page(
    session: Session, redactor: Redactor | None, *, whole: bool = True, up: str = ""
) -> Iterator[bytes]:
    """The file, in pieces; ``redactor`` is None where secrets may stay, ``up`` is a file beside it."""
    yield from in_chunks(_SessionPage(session, redactor, whole=whole).pieces(up))


def page_title(session: Session, redactor: Redactor | None) -> str:
    title = session.title if redactor is None else redactor.text(session.title)
    return first_words(title, 300) or f"Session {short_id(session.id)}"


class _CleanLog(LogGraph):
    """A log that stays open, with its lines without their secrets."""

    def __init__(self, log: LogGraph, redactor: Redactor) -> None:
        super().__init__(log.path, log.points)
        self._redactor = redactor
        self._log = OpenLog(log.path)
        weakref.finalize(self._log, os.close, self._log.fd)
        self._suspects = SuspectLines(self._log)
        self._counted: set[int] = set()
        self._at_hand: dict[int, Entry | None] = {}

    def load(self, node: Node) -> Entry | None:
        """The entry of a node without its secrets, each of which is counted once."""
        if node.offset not in self._at_hand:
            self._at_hand[node.offset] = self._read(node)
            if len(self._at_hand) > _AT_HAND:
                del self._at_hand[next(iter(self._at_hand))]
        return self._at_hand[node.offset]

    def _read(self, node: Node) -> Entry | None:
        entry = entry_of(entry_in(self._log, node.offset, node.length), node)
        if entry is None or not self._suspects.may_be_in(entry.offset, entry.length):
            return entry
        clean = self._redactor.line(entry.raw, count=node.offset not in self._counted)
        if clean == entry.raw:
            return entry
        self._counted.add(node.offset)
        return readable(codec.decode(Line(clean, entry.offset)))


class _SessionPage:
    """Writes one session; memory holds one message at a time."""

    def __init__(self, session: Session, redactor: Redactor | None, *, whole: bool) -> None:
        files = session.agents()
        # One moment is exported, and looking for its sub-agents takes long where there are many.
        self._session = PageSession(session, agents=lambda: files)
        self._redactor, self._view = redactor, ConversationView(whole=whole)
        self._talk = self._without_secrets(talk_of(self._session, self._view))

    def _without_secrets(self, talk: ViewMessages) -> ViewMessages:
        if self._redactor is None:
            return talk
        log = _CleanLog(talk.log, self._redactor)
        return ViewMessages(talk.groups, talk.graph, log, talk.context, talk.seams)

    def _text(self, text: str) -> str:
        return text if self._redactor is None else self._redactor.text(text)

    def pieces(self, up: str) -> Iterator[str]:
        session, title = self._session, page_title(self._session, self._redactor)
        agents = [self._agent(*one) for one in _agents(session)]
        yield head(title)
        yield f'<nav class="pages"><a href="{quote(up)}">All sessions</a></nav>\n' if up else ""
        yield f'<h1 dir="auto">{text_html(title)}</h1>\n{facts(self._facts(len(agents)))}'
        yield from (f'<p class="note">{note}</p>\n' for note in self._notes())
        yield '<div id="app"></div>\n'
        yield from self._messages(self._view, self._talk)
        for number, agent in enumerate(agents, 1):
            yield f'<h2 class="plain">Sub-agent {number}: {text_html(agent.title)}</h2>\n'
            view = ConversationView(agent=agent.id)
            if not agent.problem:
                yield from self._messages(view, self._without_secrets(talk_of(session, view)))
        prompts = [prompt_document(self._talk, index) for index in prompt_places(self._talk)]
        document = ExportedSession(
            session.id,
            self._view.whole,
            structs.replace(map_document(self._talk), prompts=prompts),
            turns_document(session, self._view, AmountDocument(None, [])).turns,
            session.compactions(),
            agents,
        )
        yield data("session", self._text(encode_json(document).decode("utf-8", "replace")))
        kept = "with credentials unredacted" if self._redactor is None else "credentials redacted where found"
        yield foot(f"Exported by recollect, {kept}.")

    def _messages(self, view: ConversationView, talk: ViewMessages) -> Iterator[str]:
        """Each message as text, then as what the page is sent; results are sent with their calls."""
        agent = f' data-agent="{_attribute(view.agent)}"' if view.agent else ""
        window = MessageWindow(self._session, view, talk=talk, picture=_picture, longest=_LONGEST_TEXT)
        for index, group in enumerate(talk.groups):
            seams = [f"--- {seam.words} ---\n" for seam in talk.seams.get(index, ())]
            text = plain_text(spoken(group, talk.load))
            yield f'<pre class="plain">\n{"".join(seams)}{text_html(text)}</pre>\n'
            if talk.kinds[index] != "r":
                document = encode_json(window.message(index)).decode("utf-8", "replace")
                yield f'<script type="application/json" class="message"{agent}>{inert(document)}</script>\n'

    def _agent(self, name: str, file: AgentFile | None) -> ExportedAgent:
        try:
            talk_of(self._session, ConversationView(agent=name))
        except RecollectError as problem:
            return ExportedAgent(name, self._agent_title(name, file), self._text(problem.message))
        return ExportedAgent(name, self._agent_title(name, file))

    def _agent_title(self, name: str, file: AgentFile | None) -> str:
        """Its type and description, if its file has them."""
        if file is None or file.meta_path is None:
            return f"agent {name[:8]}"
        try:
            with open_regular(file.meta_path) as opened:
                meta = read_meta(opened.read(_LARGEST_META))
        except (OSError, RecollectError):
            return f"agent {name[:8]}"
        words = ": ".join(word for word in (meta.agent_type, meta.description) if word)
        return self._text(words) or f"agent {name[:8]}"

    def _facts(self, agents: int) -> list[tuple[str, str]]:
        session, seen, used = self._session, self._session.glance, self._session.spending()
        span = [f"{at.astimezone(dt.UTC):%Y-%m-%d %H:%M} UTC" for at in (seen.first_at, seen.last_at) if at]
        shown, loaded = len(self._talk), len(talk_of(session, ConversationView()))
        more = f", {loaded:,} loaded on resume" if shown != loaded else ""
        return [
            ("Used", self._text(spent(used))),
            ("Directory", self._text(session.cwd)),
            ("Branch", self._text(seen.git_branch or "")),
            ("Time", " to ".join(span)),
            ("Tag", self._text(seen.tag or "")),
            ("Messages", _counted(shown, "message") + more),
            ("Responses", _counted(used.responses, "response")),
            ("Damaged lines", _counted(len(self._damage), "damaged line")),
            ("Unknown records", _counted(unknown_records(session), "unknown record")),
            ("Agents", _counted(agents, "sub-agent")),
            ("Session", f"session {session.id}"),
        ]

    @functools.cached_property
    def _damage(self) -> list[Damage]:
        return self._session.damage()

    def _notes(self) -> Iterator[str]:
        """What the file leaves out (law 11)."""
        if self._damage:
            yield f"{len(self._damage):,} lines of the log cannot be read and are not shown."
        if not self._view.whole and set(self._talk.kinds) & {"b", "s"}:
            yield "This is what a resume would load; what its compactions hide is not shown."
        others = sum(not section.active for section in whole_session.sections(self._session))
        if others:
            yield f"Other branches ({others:,}) are not shown; this is the active one."


def _agents(session: PageSession) -> Iterator[tuple[str, AgentFile | None]]:
    """The sub-agents, in the order of their logs, and those inside the session's own log."""
    for file in session.agents():
        if not is_warm_up(first_prompt(file.path)):
            yield str(file.agent_id or file.path.stem), file
    yield from ((node.uuid, None) for node in inline_roots(session.graph))


def _picture(uuid: str, number: int, text: str) -> str | None:
    """A picture as an address that holds it; None for what is too large, or no picture by its first bytes."""
    if len(text) > _LARGEST_PICTURE * 4 // 3:
        return None
    try:
        content = base64.b64decode(text, validate=False)
    except (binascii.Error, ValueError):
        return None
    kind = media_type_of(content)
    is_picture = kind.startswith("image/")
    return f"data:{kind};base64,{base64.b64encode(content).decode()}" if is_picture else None


# ---- plain text ------------------------------------------------------------------------------------------

_SPEAKERS = {"user": "You", "assistant": "Assistant", "system": "Client"}


def plain_text(message: Message) -> str:
    """Who said it, when, and what: for readers without scripts."""
    who = _SPEAKERS.get(message.role, message.role)
    if message.is_summary or message.is_error:
        who = "Error" if message.is_error else "Summary of what came before"
    at = f", {message.at.astimezone(dt.UTC):%Y-%m-%d %H:%M} UTC" if message.at else ""
    return "\n".join([f"{who}{at}", *map(_block_text, message.blocks), ""])


def _block_text(block: Block) -> str:
    match block:
        case TextBlock(text):
            shown = text
        case ThinkingBlock(thinking):
            shown = f"Thinking: {thinking}"
        case ToolUseBlock() | ServerToolUseBlock() | McpToolUseBlock():
            shown = f"Call: {block.name} {bytes(block.input).decode('utf-8', 'replace')}"
        case ToolResultBlock():
            shown = "\n".join(["Result:", *map(_block_text, blocks_of(block.content))])
        case _:
            shown = f"[{type(block).__name__.removesuffix('Block')}]"
    return plain(shown, _LONGEST_TEXT)


# ---- around the content ----------------------------------------------------------------------------------


def head(title: str) -> str:
    """Everything before the content."""
    style, script = _built("page.css"), _built("page.js")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="referrer" content="no-referrer">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="generator" content="recollect">\n'
        f"<title>{text_html(first_words(title, 300))}</title>\n<style>{style}</style>\n<script>{script}</script>\n"
        "</head>\n<body>\n<main>\n"
    )


def foot(note: str) -> str:
    return f"</main>\n<footer>{note}</footer>\n</body>\n</html>\n"


def data(name: str, document: str) -> str:
    """A JSON document for the script."""
    return f'<script type="application/json" id="{name}">{inert(document)}</script>\n'


def inert(document: str) -> str:
    """JSON that can end no element and begin none."""
    return document.replace("<", "\\u003c")


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """A line of (name, value); values are text, and the names are for those who hear the page."""
    lines = [f"<div><dt>{name}</dt><dd>{text_html(value)}</dd></div>" for name, value in rows if value]
    return f'<dl class="facts">{"".join(lines)}</dl>\n'


@functools.cache
def _built(name: str) -> str:
    return (_FRAME / name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


# ---- text ------------------------------------------------------------------------------------------------


def text_html(text: str) -> str:
    """Text as HTML, with control and invisible characters as escapes; tab and newline keep their meaning."""
    return escape(plain(text, len(text)))


def _attribute(text: str) -> str:
    return escape("".join(character for character in text if character.isprintable()))


def first_words(text: str, most: int) -> str:
    """The beginning of a text, on one line."""
    start = " ".join(text[: most * 4].split())
    return start if len(start) <= most else start[: most - 1].rstrip() + "…"


def plural(number: int, word: str) -> str:
    """A number and its word."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _counted(number: int, word: str) -> str:
    """A number and its word; "" for 0, so that it is left out."""
    return plural(number, word) if number else ""


def spent(spending: Spending) -> str:
    """Tokens and cost; models without a price are reported as such (law 6)."""
    tokens = spending.tokens
    counts = [
        ("in", tokens.input),
        ("cache read", tokens.cache_read),
        ("cache write", tokens.cache_write_5m + tokens.cache_write_1h),
        ("out", tokens.output),
    ]
    words = ", ".join(f"{name} {count:,}" for name, count in counts if count)
    return f"{words or 'no'} tokens, {money(spending)}"


def money(spending: Spending) -> str:
    """As the page shows it; models without a price are named."""
    if spending.is_unknown:
        return UNKNOWN_COST
    if not spending.unpriced:
        return fine_dollars(spending.pico_usd)
    missing = f"without {', '.join(sorted(spending.unpriced))}, which has no price"
    return (
        f"{fine_dollars(spending.pico_usd)} {missing}" if spending.pico_usd else f"cost not known, {missing}"
    )


def in_chunks(texts: Iterable[str]) -> Iterator[bytes]:
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
