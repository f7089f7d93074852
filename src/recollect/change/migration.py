"""What one step would do to one session: a plan for the journal, and how to see that nothing was lost.

A step never writes. It reads the session, makes a ``ChangePlan`` and says what the new layout has no place for.
Rolling back is the undo of that change, byte for byte; so no step has code of its own for it.

``SessionMeaning`` is what must be the same before and after: what was said, called and answered, in order, and
the tokens. It is computed from the files as they are, never from what the step believes it wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from recollect.ask.sessions.messages import depth_of
from recollect.errors import UsageError
from recollect.model.conversation.agents import SubAgent, linked
from recollect.model.conversation.client_words import NO_CONTENT
from recollect.model.conversation.tool_calls import tool_calls
from recollect.model.convert.turns import Loss, LossCollector, Response, TurnCall, TurnPrompt, turns_of
from recollect.model.lines.blocks import Block, TextBlock, Tokens
from recollect.model.lines.damage import Damage, Line
from recollect.model.lines.entry import Assistant, Dialect, Entry, ToolCallBody, ToolResultBody, User
from recollect.model.lines.ids import short_id
from recollect.model.views.facts import usage_facts
from recollect.model.views.ledger import Ledger
from recollect.store.changes.plan import ChangePlan
from recollect.store.home import ClaudeHome, SessionFile
from recollect.store.logs.reader import LogReader, read_lines

WHAT = "migrate"


class ConversationContent(Struct, frozen=True, order=True):
    """One conversation: words, calls and results, each in their order."""

    words: tuple[tuple[str, str], ...] = ()
    calls: tuple[tuple[str, str], ...] = ()
    results: tuple[tuple[str, bool], ...] = ()


class SessionMeaning(Struct, frozen=True):
    """What a migration must not change. ``tokens`` are input, output, cache written and cache read."""

    talks: tuple[ConversationContent, ...] = ()
    items: tuple[tuple[str, str, str], ...] = ()
    tokens: tuple[int, int, int, int] = (0, 0, 0, 0)


class Migration(Struct):
    """A step, planned for one session."""

    session: str
    log: Path
    plan: ChangePlan
    before: SessionMeaning
    after: Callable[[], SessionMeaning]
    result: Path
    losses: Sequence[Loss] = ()
    notes: Sequence[str] = ()


Planner = Callable[[ClaudeHome, SessionFile, str | None], Migration | None]
"""Plans a step for one session; None where there is nothing to do, ``UsageError`` where it cannot be done."""


def change_for(home: ClaudeHome, session: str) -> ChangePlan:
    """An empty plan for one session."""
    return ChangePlan(WHAT, session, home.root)


def whole_entries(path: Path, session: str) -> list[Entry | Damage]:
    """Every line of a log; refused where its last line is not whole."""
    reader = LogReader(path)
    if reader.pending() is not None:
        raise UsageError(
            f"session {session}: its last line is not whole",
            hint=f"nothing was changed; `recollect repair {short_id(session)}` first",
        )
    return list(reader.entries())


def spoken_entries(items: Iterable[Entry | Damage]) -> list[Entry]:
    """The entries that are part of what was said, in any dialect."""
    said = User | Assistant | ToolCallBody | ToolResultBody
    return [item for item in items if isinstance(item, Entry) and isinstance(item.body, said)]


def dialects_of(items: Iterable[Entry | Damage]) -> set[Dialect]:
    """The dialects in which something was said."""
    return {entry.dialect for entry in spoken_entries(items)}


# ---- meaning ---------------------------------------------------------------------------------------------


def told(items: Iterable[Entry | Damage]) -> SessionMeaning:
    """A conversation of any dialect and the tokens of its answers, each counted once."""
    turns = turns_of(items, LossCollector())
    tokens = Tokens()
    for turn in turns:
        best = turn.best if isinstance(turn, Response) else None
        if best is not None and best.usage is not None:
            tokens = tokens + best.usage.tokens()
    return SessionMeaning((_talk(turns),), tokens=_four(tokens))


def talk_of(items: Iterable[Entry | Damage]) -> ConversationContent:
    """The words, calls and results alone."""
    return _talk(turns_of(items, LossCollector()))


def spent(paths: Iterable[Path]) -> tuple[int, int, int, int]:
    """The tokens in some logs together, each answer counted once however many lines and logs it is in."""
    ledger = Ledger()
    for path in paths:
        for line in read_lines(path):
            ledger.add(usage_facts(line.data) if isinstance(line, Line) else None, path=str(path))
    return _four(ledger.total().tokens)


def _four(tokens: Tokens) -> tuple[int, int, int, int]:
    # The two lifetimes of a cache are one count in other dialects.
    written = tokens.cache_write_5m + tokens.cache_write_1h
    return tokens.input, tokens.output, written, tokens.cache_read


def _talk(turns: Iterable[object]) -> ConversationContent:
    words: list[tuple[str, str]] = []
    calls: list[tuple[str, str]] = []
    results: list[tuple[str, bool]] = []
    for turn in turns:
        if isinstance(turn, TurnPrompt):
            words += _texts("user", turn.blocks)
        elif isinstance(turn, Response):
            words += _texts("assistant", [part.what for part in turn.parts])
            calls += [(call.block.name, _canonical(call.block.input)) for call in turn.calls]
            results += [(one.block.text(), one.block.is_error is True) for one in turn.results]
    return ConversationContent(tuple(words), tuple(calls), tuple(results))


def _texts(role: str, parts: Iterable[Block | TurnCall]) -> list[tuple[str, str]]:
    texts = [part.text for part in parts if isinstance(part, TextBlock)]
    return [(role, text) for text in texts if text and text != NO_CONTENT]


def _canonical(raw: msgspec.Raw) -> str:
    try:
        return msgspec.json.encode(msgspec.json.decode(raw), order="deterministic").decode()
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return repr(bytes(raw))


Lines = Sequence[Entry | Damage]


def meta_files(main: Lines, agents: Mapping[str, Lines], known: Sequence[SubAgent] = ()) -> dict[str, bytes]:
    """The meta file of each agent whose call is known. ``known`` have one already, and keep their calls."""
    calls = tool_calls(_entries(main))
    sender: dict[str, str] = {}
    for name, lines in agents.items():
        own = tool_calls(_entries(lines))
        sender |= {call.id: name for call in own}
        calls += own
    found = [*known, *(SubAgent(name, "flat", prompt=_prompt(lines)) for name, lines in agents.items())]
    named = {agent.id: agent for agent in linked(found, calls) if agent.id in agents and agent.tool_use_id}
    parents = {name: sender.get(agent.tool_use_id or "") for name, agent in named.items()}
    return {name: _meta(agent, parents[name], depth_of(name, parents)) for name, agent in named.items()}


def _entries(lines: Lines) -> list[Entry]:
    return [line for line in lines if isinstance(line, Entry)]


def _prompt(lines: Lines) -> str:
    first = next((one.body for one in _entries(lines) if isinstance(one.body, User)), None)
    blocks = first.message.blocks[:1] if first is not None else []
    return "".join(block.text for block in blocks if isinstance(block, TextBlock))


def _meta(agent: SubAgent, parent: str | None, depth: int) -> bytes:
    fields = {
        "agentType": agent.agent_type,
        "description": agent.description,
        "toolUseId": agent.tool_use_id,
        "parentAgentId": parent,
        "spawnDepth": depth,
    }
    return msgspec.json.encode({name: value for name, value in fields.items() if value is not None})
