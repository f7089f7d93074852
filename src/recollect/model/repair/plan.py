"""From the lines of a log to the plan of its repair.

Times, links, calls and content depend on one another (a repaired link brings calls into the conversation), so
they are repaired in rounds until one changes nothing. A second repair of the result therefore changes nothing
either.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter

import msgspec
from msgspec import Struct

from recollect.model import codec
from recollect.model.checks.resumed import LIMITS
from recollect.model.checks.scan import LogScan, LogSource
from recollect.model.damage import Damage, Line
from recollect.model.repair.calls import mend_calls
from recollect.model.repair.content import mend_content
from recollect.model.repair.draft import RepairAction, RepairDraft, SetAsideBytes
from recollect.model.repair.lines import take_lines
from recollect.model.repair.order import fill_times, links_of_chain, mend_links
from recollect.model.repair.proof import RepairProof, proved, scan_of, still_owed, unchanged

_ROUNDS = 12


class LogRepair(Struct, frozen=True):
    """The plan of a repair: what is done to which line, what is set aside, and the proof of the result.

    ``mended`` are the violations that it fixes, by their index in the scan of the log.
    """

    draft: RepairDraft
    actions: tuple[RepairAction, ...]
    set_aside: tuple[SetAsideBytes, ...]
    notes: tuple[str, ...]
    proof: RepairProof
    mended: frozenset[int]
    bytes_before: int
    bytes_kept: int
    bytes_set_aside: int
    bytes_after: int


def mended(source: LogSource, before: LogScan) -> LogRepair:
    """Plan the repair of a log from its scan."""
    draft = RepairDraft(source.read, source.size)
    take_lines(draft, source.lines(), source.end)
    mend_until_sound(draft, source.written)
    after = scan_of(draft, source.log)
    history = before.resumed.history
    if len(after.resumed.history) < still_owed(draft, history, after.resumed.history):
        draft = RepairDraft(source.read, source.size)
        take_lines(draft, source.lines(), source.end)
        _keep_history(draft, as_read(source))
        mend_until_sound(draft, source.written)
        after = scan_of(draft, source.log)
    draft.notes += _repeats(draft)
    return summed(draft, *proved(draft, before, after))


def untouched(source: LogSource, before: LogScan) -> LogRepair:
    """The plan that changes nothing."""
    return summed(as_read(source), unchanged(before), frozenset())


def summed(draft: RepairDraft, proof: RepairProof, mended: frozenset[int]) -> LogRepair:
    """The plan of a finished draft."""
    kept, aside, after = draft.sums()
    return LogRepair(
        draft,
        tuple(draft.actions),
        tuple(draft.set_aside()),
        tuple(draft.notes),
        proof,
        mended,
        draft.size,
        kept,
        aside,
        after,
    )


def as_read(source: LogSource) -> RepairDraft:
    """The log as the client reads it now: lines that are not exactly one entry are absent."""
    draft = RepairDraft(source.read, source.size)
    number = 0
    for number, line in enumerate(source.lines(), 1):
        draft.keep(number, line.offset, line.length, is_unreadable=_is_lost(line))
    tail = source.tail
    if tail is not None:
        draft.keep(number + 1, source.end, source.size - source.end, is_unreadable=_is_lost(tail))
    return draft


def _is_lost(line: Line | Damage) -> bool:
    item = codec.decode(line, LIMITS) if isinstance(line, Line) else line
    return isinstance(item, Damage) and item.readable is None


def mend_until_sound(draft: RepairDraft, now: dt.datetime) -> None:
    """Repair times, links, calls and content in rounds until one changes nothing."""
    for _ in range(_ROUNDS):
        if not (fill_times(draft, now) | mend_links(draft) | mend_calls(draft) | mend_content(draft)):
            return
    draft.notes.append(f"problems remain after {_ROUNDS} rounds: repair the result again")


def _keep_history(draft: RepairDraft, old: RepairDraft) -> None:
    """If recovered lines lead to a shorter history, keep the history that was resumed so far."""
    leaf = old.graph().active_leaf
    if leaf is None:
        return
    nodes = draft.graph().nodes
    links = links_of_chain(old, old.graph(), leaf)
    for uuid, (parent, code, _) in links.items():
        if uuid in nodes and nodes[uuid].parent != parent:
            why = f"follows {parent}, as the client joins it now: its own parent leads to a shorter history"
            draft.change(nodes[uuid].offset, {"parentUuid": parent}, code, why)
    now = draft.graph().active_leaf
    entry = draft.load(nodes[leaf.uuid]) if leaf.uuid in nodes else None
    if entry is not None and (now is None or now.uuid != leaf.uuid):
        mark = {"type": "last-prompt", "leafUuid": leaf.uuid, "sessionId": entry.session_id}
        why = "recovered lines start a shorter branch; the longer one is still resumed"
        draft.insert(len(draft.rows), msgspec.json.encode(mark), "leaf-kept", why, leaf.uuid)


def _repeats(draft: RepairDraft) -> list[str]:
    """Ids on several lines with different bytes; the client takes the last, which does not change."""
    texts: dict[str, set[bytes]] = {}
    wanted = {name for name, count in Counter(draft.graph().duplicates).items() if count}
    if not wanted:
        return []
    for number in range(len(draft.rows)):
        entry = draft.entry(number)
        if entry is not None and entry.uuid in wanted:
            texts.setdefault(entry.uuid or "", set()).add(draft.text(number))
    return [
        f"entry {uuid} is in the log {len(found)} times with different bytes; the client takes the last"
        for uuid, found in texts.items()
        if len(found) > 1
    ]
