"""What a migration step would do to a session, that nothing was lost by it, and how it is carried out.

A step never writes. It reads the session, makes a ``ChangePlan`` and says what the new layout has no place for; the steps
are in ``change/migrations.py``. Here it is asked whether a client has the session open, our lock is held, the change is
made, and it is taken back unless the session means the same. One step of one session is one change; rolling back is its
undo, byte for byte. Where one step of several fails, those before it are rolled back too.

``SessionMeaning`` is what must be the same before and after: what was said, called and answered, in order, and
the tokens. It is computed from the files as they are, never from what the step believes it wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from recollect.ask.homes import Homes
from recollect.ask.sessions.home_guard import refuse_mirrored, refuse_open, without_mirrors
from recollect.ask.sessions.messages import depth_of
from recollect.ask.sessions.session import Session
from recollect.errors import DamagedData, NotFound, RecollectError, UsageError
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
from recollect.store.changes.journal import Change, ChangeJournal, Step
from recollect.store.changes.plan import ChangePlan
from recollect.store.home import ClaudeHome, SessionFile
from recollect.store.logs.reader import LogReader, read_lines
from recollect.store.session_files import hold_logs
from recollect.system.paths import CLAUDE

WHAT = "migrate"
# Words by role, calls and results of one conversation, each in their order.
Talk = tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...], tuple[tuple[str, bool], ...]]


class SessionMeaning(Struct, frozen=True):
    """What a migration must not change. ``tokens`` are input, output, cache written and cache read."""

    talks: tuple[Talk, ...] = ()
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


class MigrationStep(Struct, frozen=True):
    """One step: its source and target layout, and the function that plans it.

    It is None where there is nothing to do, ``UsageError`` where it cannot be done. ``version`` is the first client
    version that has the target layout; None where no client has it.
    """

    number: int
    name: str
    source: str
    target: str
    about: str
    planned: Callable[[ClaudeHome, SessionFile, str | None], Migration | None]
    version: str | None = None


def whole_entries(path: Path, session: str) -> list[Entry | Damage]:
    """Every line of a log; refused where its last line is not whole."""
    reader = LogReader(path)
    if reader.pending() is not None:
        raise UsageError(
            f"session {session}: its last line is not whole",
            hint=f"nothing was changed; `recollect doctor {short_id(session)} --fix` first",
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


def talk_of(items: Iterable[Entry | Damage]) -> Talk:
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


def _talk(turns: Iterable[object]) -> Talk:
    words: list[tuple[str, str]] = []
    calls: list[tuple[str, str]] = []
    results: list[tuple[str, bool]] = []
    for turn in turns:
        if isinstance(turn, TurnPrompt):
            words += _texts("user", turn.blocks)
        elif isinstance(turn, Response):
            words += _texts("assistant", [part for _, part in turn.parts])
            calls += [(call.block.name, _canonical(call.block.input)) for call in turn.calls]
            results += [(one.block.text(), one.block.is_error is True) for one in turn.results]
    return tuple(words), tuple(calls), tuple(results)


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


# ---- planning and carrying out ---------------------------------------------------------------------------


class MigrationRefusal(Struct, frozen=True):
    """A session that a step cannot be done for, and why."""

    session: str
    reason: str
    hint: str


class StepReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step of a plan; without the rest where an earlier step must be carried out to know it."""

    step: str
    log: Path | None = None
    result: Path | None = None
    steps: Sequence[Step] = ()
    losses: Sequence[Loss] = ()
    notes: Sequence[str] = ()


class SessionMigration(Struct, frozen=True):
    """A session and the steps that apply to it; once they are made, ``changes`` are their ids, in order."""

    session: str
    steps: tuple[StepReport, ...] = ()
    changes: tuple[str, ...] = ()


class PlanOutcome(Struct):
    """What a plan would do to some sessions. ``untouched`` had nothing to migrate."""

    planned: list[tuple[Session, SessionMigration]]
    refused: list[MigrationRefusal]
    untouched: int = 0


def chosen(home: Homes, target: str | None) -> list[Session]:
    """One session, or those of a project, or all. The name of a session comes before that of a project."""
    if target is None:
        return _ours(home, home.sessions())
    try:
        session = home.own_session(target)
        refuse_mirrored(session)
        return [session]
    except NotFound as problem:
        found = _ours(home, home.sessions(target))
        if not found:
            raise problem from None
        return found


def _ours(home: Homes, sessions: Iterable[Session]) -> list[Session]:
    homes = without_mirrors(home.homes)
    return [one for one in sessions if any(one.home is each for each in homes) and one.agent == CLAUDE]


def planned_steps(
    steps: Sequence[MigrationStep], sessions: Iterable[Session], cwd: str | None = None
) -> PlanOutcome:
    """Plan every step for some sessions; nothing is written."""
    outcome = PlanOutcome([], [])
    for session in sessions:
        try:
            reports = _plan_steps(session, steps, cwd)
            if reports:
                refuse_open(session.home, session.id)
        except RecollectError as problem:
            outcome.refused.append(MigrationRefusal(session.id, problem.message, problem.hint))
            continue
        if reports:
            outcome.planned.append((session, SessionMigration(session.id, tuple(reports))))
        else:
            outcome.untouched += 1
    return outcome


def _plan_steps(session: Session, steps: Sequence[MigrationStep], cwd: str | None) -> list[StepReport]:
    """A step that cannot be planned yet needs those before it: there may be nothing to do for it then."""
    reports: list[StepReport] = []
    for step in steps:
        try:
            migration = step.planned(session.home, session.file, cwd)
        except RecollectError:
            if not reports:
                raise
            reports.append(StepReport(step=step.name))
            continue
        if migration is not None:
            reports.append(_report(step, migration))
    return reports


def _report(step: MigrationStep, migration: Migration) -> StepReport:
    return StepReport(
        step=step.name,
        log=migration.log,
        result=migration.result,
        steps=migration.plan.steps,
        losses=migration.losses,
        notes=migration.notes,
    )


def carry_out(
    steps: Sequence[MigrationStep], session: Session, data: Path, cwd: str | None = None
) -> SessionMigration:
    """Take a session through the steps, each planned again; all or none of them stay done."""
    name = session.id
    changes: list[str] = []
    reports: list[StepReport] = []
    try:
        for step in steps:
            made = _migrated(step, session, data, cwd)
            if made is not None:
                change, migration = made
                changes.append(change.id)
                reports.append(_report(step, migration))
                # A step that writes other files than the log, as that of todos, leaves the session where it is.
                moved = (one for one in session.home.sessions() if one.path == migration.result)
                session = next((Session(session.home, one) for one in moved), session)
    except BaseException:
        journal = ChangeJournal(data / "undo")
        for change_id in reversed(changes):
            journal.undo(change_id)
        raise
    return SessionMigration(name, tuple(reports), tuple(changes))


def _migrated(
    step: MigrationStep, session: Session, data: Path, cwd: str | None
) -> tuple[Change, Migration] | None:
    with hold_logs([session.path], data):
        refuse_open(session.home, session.id)
        migration = step.planned(session.home, session.file, cwd)
        if migration is None:
            return None
        return _verified(migration, ChangeJournal(data / "undo")), migration


def _verified(migration: Migration, journal: ChangeJournal) -> Change:
    """Make the change, read what is there now, and take it back unless it means the same."""
    applied = journal.apply(migration.plan)
    try:
        is_same = migration.after() == migration.before
    except BaseException:
        journal.undo(applied.id)
        raise
    if not is_same:
        journal.undo(applied.id)
        raise DamagedData(
            f"session {migration.session}: it would not say the same after the migration",
            hint="it was rolled back, every byte as before; please report this session's layout",
        )
    return applied
