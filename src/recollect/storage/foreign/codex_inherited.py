"""What a fork or a revert without a copy of its history goes on from, out of the log that has it."""

from __future__ import annotations

from recollect.storage.foreign import lines as made
from recollect.storage.foreign.codex_shapes import fitted_line, meta_of
from recollect.storage.foreign.codex_usage import vector
from recollect.storage.foreign.lines import LineFields
from recollect.storage.foreign.loose import Fields
from recollect.storage.foreign.mirror import AgentMirror
from recollect.storage.foreign.mirroring.sources import originals


def chain_before(into: AgentMirror, log: str, rollout: str, end: int) -> list[LineFields]:
    """The conversation of a rollout up to an ordinal, first entry first."""
    by_id: dict[str, LineFields] = {}
    leaf, name = None, ""
    for line in into.lines(log):
        if line.get("type") == made.SOURCE:
            name = str(line["source"])
        if "uuid" not in line:
            continue
        by_id[line["uuid"]] = line
        is_own = "original" not in line and "forkedFrom" in line
        if (rollout in name or is_own) and line.get("ordinal", end) < end:
            leaf = line["uuid"]
    chain: list[LineFields] = []
    while leaf in by_id and len(chain) <= len(by_id):
        line = by_id[leaf]
        chain.append({key: value for key, value in line.items() if not key.startswith("original")})
        leaf = line.get("parentUuid") or line.get("logicalParentUuid")
    return chain[::-1]


def is_all_here(into: AgentMirror, log: str, rollout: str, end: int) -> bool:
    """Whether a log has a rollout up to an ordinal: its file may be here only in part. Old ones number nothing."""
    records = originals(into.lines(log))
    mine = next((records[name] for name in records if f"{rollout}.jsonl" in name), [])
    last = fitted_line(mine[-1]).fields.get("ordinal") if mine else None
    return not isinstance(last, int) or last >= end - 1


def total_before(
    into: AgentMirror, log: str, rollout: str, end: int, below: frozenset[str] = frozenset()
) -> tuple[int, ...] | None:
    """The running total that a fork goes on from. A circle of forks ends where it began."""
    records = originals(into.lines(log))
    mine = next((records[name] for name in records if f"{rollout}.jsonl" in name), [])
    total = None
    base: Fields = {}
    for raw in mine:
        line = fitted_line(raw).fields
        base = base or meta_of(line)
        payload: Fields = line.get("payload") or {}
        info = payload.get("info") if payload.get("type") == "token_count" else None
        if isinstance(info, dict) and line.get("ordinal", end) < end:
            total = vector(info.get("total_token_usage"))
    above: Fields = base.get("history_base") or {}
    elder = str(above.get("thread_id"))
    where = into.log_of(elder)
    if total is None and where is not None and elder not in below | {rollout}:
        until = min(end, above.get("end_ordinal_exclusive") or 0)
        return total_before(into, where, elder, until, below | {rollout})
    return total


def before_prompts(chain: list[LineFields]) -> list[str | None]:
    """The entry before each prompt that is still sent after such a history; what a compaction left counts too."""
    found: list[str | None] = []
    for line in chain:
        if line.get("subtype") == made.COMPACTED:
            found.clear()
        elif is_prompt_line(line) or line.get("isCompactSummary"):
            found.append(line["parentUuid"])
    return found


def is_prompt_line(line: LineFields) -> bool:
    """Whether an entry is a prompt for a roll-back: what a person typed, or a sub-agent told."""
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    is_result = isinstance(content, list) and any(block.get("type") == "tool_result" for block in content)
    is_aside = line.get("isMeta") and made.TOLD_BY not in line
    return line.get("type") == "user" and not (is_aside or line.get("isCompactSummary") or is_result)
