"""Random logs with up to six kinds of trouble at once, for a comparison with the real client.

A log starts as a plain talk with tools, parallel calls and metadata lines; each kind of trouble then changes the
lines or adds some. The same number gives the same log.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from tests.talk import Fields, assistant, call, link, mark, moment, result, user

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
MODELS = (
    "claude-opus-4-8",
    "claude-opus-5",
    "claude-sonnet-5",
    "claude-sonnet-5-5",
    "claude-haiku-5-5",
    "gpt-5",
)
METADATA: tuple[Fields, ...] = (
    {"type": "mode", "mode": "normal"},
    {"type": "custom-title", "customTitle": "T"},
    {"type": "summary", "summary": "s", "leafUuid": "x"},
)


class WildLog:
    """The lines of a log while trouble is made of it."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.lines: list[Fields] = []
        self.at = 0
        self.calls = 0
        self.answers = 0

    # ---- a plain talk --------------------------------------------------------------------------------------

    def chance(self, percent: int) -> bool:
        return self.dice.randrange(100) < percent

    def name(self) -> str:
        self.at += self.dice.choice((1, 1, 2, 3, 3, 9))
        return f"n{len(self.lines) + 1}"

    def add(self, line: Fields) -> str:
        self.lines.append(line)
        if self.chance(12):
            self.lines.append(dict(self.dice.choice(METADATA)))
        return str(line["uuid"])

    def message(self) -> str:
        self.answers += 1
        return f"m{self.answers}"

    def turn(self, parent: str | None) -> str:
        name = self.name()
        end = self.add(user(name, parent, self.at, self.text(f"Q{name}")))
        if self.chance(8):
            name = self.name()
            end = self.add(user(name, end, self.at, f"Q{name}"))
        if self.chance(92):
            end = self.answer(end)
        if self.chance(15):
            kind = self.dice.choice(("informational", "turn_duration", "away_summary", "stop_hook_summary"))
            end = self.add(self.system(end, kind))
        return end

    def text(self, words: str) -> str | list[Fields]:
        return words if self.chance(50) else [{"type": "text", "text": words}]

    def system(self, parent: str | None, kind: str, **fields: Any) -> Fields:
        name = self.name()
        return link(
            name, parent, self.at, type="system", subtype=kind, content="note", level="info", **fields
        )

    def note(self, parent: str | None, attachment: Fields, words: str = "", role: str = "system") -> Fields:
        name = self.name()
        shown = (
            {
                "rendered": [{"content": f"<system-reminder>\n{words}{name}\n</system-reminder>"}],
                "renderedRole": role,
            }
            if words
            else {}
        )
        return link(name, parent, self.at, type="attachment", attachment=attachment, **shown)

    def answer(self, parent: str) -> str:
        message, end = self.message(), parent
        if self.chance(25):
            name = self.name()
            thought = [{"type": "thinking", "thinking": f"th{name}", "signature": "c2ln"}]
            end = self.add(assistant(name, end, self.at, thought, message))
        if self.chance(55):
            name = self.name()
            end = self.add(assistant(name, end, self.at, f"A{name}", message))
        if self.chance(50):
            return self.use_tools(end, message)
        name = self.name()
        return self.add(assistant(name, end, self.at, f"D{name}", message))

    def use_tools(self, parent: str, message: str) -> str:
        is_fan, end = self.chance(60), parent
        asked: list[tuple[str, str]] = []
        for _ in range(self.dice.randint(1, 3)):
            self.calls += 1
            name, before = (
                self.name(),
                [{"type": "text", "text": f"pre{self.calls}"}] if self.chance(15) else [],
            )
            end = self.add(assistant(name, end, self.at, [*before, call(f"t{self.calls}")], message))
            asked.append((f"t{self.calls}", end))
        for tool, line in asked:
            failed = {"is_error": True} if self.chance(20) else {}
            content = [result(tool, f"R{tool}", **failed)]
            end = self.add(user(self.name(), line if is_fan else end, self.at, content))
        if self.chance(85):
            name = self.name()
            end = self.add(assistant(name, end, self.at, f"AT{name}", self.message()))
        return end

    # ---- finding and changing lines ------------------------------------------------------------------------

    @property
    def links(self) -> list[Fields]:
        return [line for line in self.lines if "uuid" in line]

    def of_type(self, *types: str) -> list[Fields]:
        return [line for line in self.links if line["type"] in types]

    def prompts(self) -> list[Fields]:
        return [line for line in self.of_type("user") if "tool_result" not in json.dumps(line)]

    def results(self) -> list[Fields]:
        return [line for line in self.of_type("user") if "tool_result" in json.dumps(line)]

    def some(self, lines: list[Fields], most: int = 3) -> list[Fields]:
        return self.dice.sample(lines, min(len(lines), self.dice.randint(1, most)))

    def one(self, lines: list[Fields]) -> Fields:
        return self.dice.choice(lines)

    def last(self) -> str:
        return str(self.links[-1]["uuid"])

    def insert_after(self, before: Fields, line: Fields) -> None:
        """Put a line into the chain behind another: what followed that one follows it."""
        for other in self.links:
            if other.get("parentUuid") == before["uuid"] and other is not line and self.chance(80):
                other["parentUuid"] = line["uuid"]
        self.lines.insert(self.lines.index(before) + 1, line)

    def into_chain(self, make: Callable[[Fields], Fields]) -> None:
        for before in self.some(self.links):
            self.insert_after(before, make(before))


Trouble = Callable[[WildLog], None]


def _named(kind: str, **fields: Any) -> Fields:
    return {"type": kind, **fields}


def _hook(kind: str, event: str, **fields: Any) -> Fields:
    return _named(kind, hookName=event, hookEvent=event, toolUseID="x", **fields)


# ---- notes and other lines in the chain ----------------------------------------------------------------------


def attachment_rendered(log: WildLog) -> None:
    kinds = (_named("date", date="x"), _named("zork", content="x"), _named("total_tokens_reminder", text="x"))
    role = log.dice.choice(("system", "user"))
    log.into_chain(lambda line: log.note(line["uuid"], dict(log.dice.choice(kinds)), "N", role))


def attachment_known(log: WildLog) -> None:
    def kind() -> Fields:
        number = log.dice.randrange(1000)
        return log.dice.choice(
            [
                _named("skill_listing", content=f"- k{number}: does", skillCount=1, isInitial=True),
                _hook("hook_success", "SessionStart", content=f"hk{number}"),
                _hook("hook_success", "Stop", content=f"hk{number}"),
                _hook("hook_additional_context", "UserPromptSubmit", content=[f"ctx{number}"]),
                _hook("hook_blocking_error", "Stop", blockingError={"blockingError": "b", "command": "c"}),
                _named(
                    "nested_memory", path="/x/M.md", content={"path": "/x/M.md", "content": f"mem{number}"}
                ),
                _named("critical_system_reminder", content=f"crit{number}"),
                _named("zork_unknown", content="x"),
                _named("command_permissions", allowedTools=[]),
            ]
        )

    log.into_chain(lambda line: log.note(line["uuid"], kind()))


def queued(log: WildLog) -> None:
    def kind() -> Fields:
        words: Any = f"QC{log.dice.randrange(1000)}"
        if log.chance(30):
            words = [{"type": "text", "text": words}, *([IMAGE] if log.chance(50) else [])]
        return _named("queued_command", prompt=words, commandMode="prompt")

    log.into_chain(lambda line: log.note(line["uuid"], kind()))


def queued_news(log: WildLog) -> None:
    news = "<task-notification>done</task-notification>"
    kind = _named("queued_command", prompt=news, commandMode="task-notification")
    log.into_chain(lambda line: log.note(line["uuid"], dict(kind)))


def progress(log: WildLog) -> None:
    def line(before: Fields) -> Fields:
        return link(log.name(), before["uuid"], log.at, type="progress", data={})

    log.into_chain(line)


def unknown_type(log: WildLog) -> None:
    log.into_chain(lambda before: link(log.name(), before["uuid"], log.at, type="zork", x=1))


def sys_api_error(log: WildLog) -> None:
    log.into_chain(lambda before: log.system(before["uuid"], "api_error", retryAttempt=1))


def local_command(log: WildLog) -> None:
    log.into_chain(lambda before: log.system(before["uuid"], "local_command"))


def microcompact(log: WildLog) -> None:
    log.into_chain(lambda before: log.system(before["uuid"], "microcompact_boundary"))


def meta(log: WildLog) -> None:
    log.into_chain(lambda before: user(log.name(), before["uuid"], log.at, f"meta{log.at}", isMeta=True))


def interrupted(log: WildLog) -> None:
    words = [{"type": "text", "text": "[Request interrupted by user]"}]
    log.into_chain(lambda before: user(log.name(), before["uuid"], log.at, [dict(words[0])]))


def summary_flag(log: WildLog) -> None:
    for line in log.some(log.prompts(), 1):
        line["isCompactSummary"] = True


# ---- answers -------------------------------------------------------------------------------------------------


def _made_up(log: WildLog, before: str, words: str, **fields: Any) -> Fields:
    line = assistant(log.name(), before, log.at, words, f"uu{log.at}", **fields)
    line["message"]["model"] = "<synthetic>"
    return line


def synthetic(log: WildLog) -> None:
    log.into_chain(lambda before: _made_up(log, before["uuid"], "No response requested."))


def api_error(log: WildLog) -> None:
    log.into_chain(
        lambda before: _made_up(log, before["uuid"], "API Error", isApiErrorMessage=True, error="unknown")
    )


def api_error_end(log: WildLog) -> None:
    log.add(_made_up(log, log.last(), "API Error: 529", isApiErrorMessage=True, error="unknown"))


def server_tools(log: WildLog) -> None:
    for number, line in enumerate(log.some(log.of_type("assistant"))):
        name = f"srv{number}"
        asked = {"type": "server_tool_use", "id": name, "name": "web_search", "input": {"query": "x"}}
        told = {"type": "web_search_tool_result", "tool_use_id": name, "content": []}
        line["message"]["content"] = [
            asked,
            *([told] if log.chance(60) else []),
            *([result(name)] if log.chance(20) else []),
            *line["message"]["content"],
        ]


def thinking_odd(log: WildLog) -> None:
    for line in log.some(log.of_type("assistant")):
        thought: Fields = log.dice.choice(
            [
                {"type": "thinking", "thinking": "", "signature": "c2ln"},
                {"type": "thinking", "thinking": "hm"},
                {"type": "redacted_thinking", "data": "abcd"},
            ]
        )
        line["message"]["content"] = [thought, *(line["message"]["content"] if log.chance(40) else [])]


def models(log: WildLog) -> None:
    model = log.dice.choice(MODELS)
    for line in log.of_type("assistant"):
        if log.chance(70) and line["message"]["model"] != "<synthetic>":
            line["message"]["model"] = model


def split_message_ids(log: WildLog) -> None:
    for line in log.some(log.of_type("assistant")):
        line["message"]["id"] = f"split{line['uuid']}"


def reuse_msgid(log: WildLog) -> None:
    lines = log.of_type("assistant")
    for line in log.some(lines):
        line["message"]["id"] = log.one(lines)["message"]["id"]


def dup_tool_ids(log: WildLog) -> None:
    names = [f"t{number + 1}" for number in range(log.calls)]
    for line in log.some(log.of_type("assistant", "user"), 6):
        content = line["message"].get("content")
        for block in content if isinstance(content, list) and names else ():
            if block.get("type") == "tool_use":
                block["id"] = log.dice.choice(names)


def content_odd(log: WildLog) -> None:
    for line in log.some(log.of_type("user", "assistant")):
        blank = [{"type": "text", "text": "  \n"}]
        line["message"]["content"] = log.dice.choice([None, "", [], blank, [*blank, IMAGE], 5, {"a": 1}])


def no_message(log: WildLog) -> None:
    for line in log.some(log.of_type("user"), 2):
        line.pop("message")


def image(log: WildLog) -> None:
    for line in log.some(log.prompts()):
        line["message"]["content"] = [{"type": "text", "text": f"I{line['uuid']}"}, IMAGE]


# ---- results -------------------------------------------------------------------------------------------------


def results_odd(log: WildLog) -> None:
    for line in log.some(log.results()):
        content = line["message"]["content"]
        if not isinstance(content, list):
            continue
        told = content[0]
        odd: list[list[Fields]] = [
            [{"type": "text", "text": f"before{line['uuid']}"}, told],
            [told, {"type": "text", "text": f"beside{line['uuid']}"}],
            [told, dict(told)],
            [{**told, "content": ""}],
            [{**told, "content": None}],
            [{**told, "content": [{"type": "text", "text": "x"}, IMAGE]}],
            [told, IMAGE],
            [
                {
                    **told,
                    "content": [
                        {"type": "tool_reference", "tool_name": log.dice.choice(("WebFetch", "Nope"))}
                    ],
                }
            ],
        ]
        line["message"]["content"] = log.dice.choice(odd)


def result_to_other(log: WildLog) -> None:
    for line in log.some(log.results()):
        for block in line["message"]["content"]:
            if isinstance(block, dict) and block.get("type") == "tool_result":
                block["tool_use_id"] = f"t{log.dice.randint(1, log.calls + 1)}"


def results_gone(log: WildLog) -> None:
    for line in log.some(log.results(), 2):
        for other in log.links:
            if other["parentUuid"] == line["uuid"]:
                other["parentUuid"] = line["parentUuid"]
        log.lines.remove(line)


def results_late(log: WildLog) -> None:
    for line in log.some(log.results(), 2):
        log.lines.remove(line)
        log.lines.insert(log.dice.randint(0, len(log.lines)), line)


def result_elsewhere(log: WildLog) -> None:
    for line in log.some(log.results(), 2):
        line["parentUuid"] = log.one(log.links)["uuid"] if log.chance(60) else "lost"


def parallel_mixed(log: WildLog) -> None:
    """As 2.1.39 to 2.1.49 wrote: results between the calls."""
    message, before = log.message(), log.last()
    lines: list[str] = [before]
    for _ in range(log.dice.randint(2, 4)):
        log.calls += 1
        tool = f"t{log.calls}"
        asked = log.add(assistant(log.name(), log.dice.choice(lines[-2:]), log.at, [call(tool)], message))
        if log.chance(85):
            told = log.add(user(log.name(), asked, log.at, [result(tool, f"R{tool}")]))
            lines.append(told)
        lines.append(asked)
    if log.chance(70):
        log.turn(lines[-1])


def interrupted_end(log: WildLog) -> None:
    log.calls += 1
    tool = f"t{log.calls}"
    log.add(assistant(log.name(), log.last(), log.at, [call(tool)], log.message()))
    if log.chance(50):
        log.add(user(log.name(), log.last(), log.at, [result(tool, "Rlast")]))
        words = {"type": "text", "text": "[Request interrupted by user for tool use]"}
        log.add(user(log.name(), log.last(), log.at, [words]))


def leaf_odd(log: WildLog) -> None:
    before = log.last()
    thought = [{"type": "thinking", "thinking": "tip", "signature": "c2ln"}]
    name = log.name()
    log.add(
        log.dice.choice(
            [
                assistant(name, before, log.at, thought, "mTIP"),
                user(name, before, log.at, None),
                link(name, None, log.at, type="progress", data={}),
                link(name, before, log.at, type="system", subtype="informational", content="x"),
                link(name, None, log.at, type="system", subtype="informational", content="x"),
            ]
        )
    )


# ---- links ---------------------------------------------------------------------------------------------------


def branch(log: WildLog) -> None:
    for _ in range(log.dice.randint(1, 2)):
        log.turn(log.one(log.links)["uuid"])


def fork_alt(log: WildLog) -> None:
    first = log.one(log.links)["uuid"]
    log.turn(log.turn(first))
    if log.chance(50):
        log.turn(first)


def sidechain(log: WildLog) -> None:
    place = log.dice.randint(0, len(log.lines))
    parent = log.one(log.links)["uuid"] if log.chance(50) else None
    for number in range(log.dice.randint(1, 3)):
        name = f"sc{place}.{number}"
        make = user if number % 2 == 0 else assistant
        log.at += 1
        log.lines.insert(
            place + number, make(name, parent, log.at, f"S{name}", isSidechain=True, agentId="a1")
        )
        parent = name


def orphan(log: WildLog) -> None:
    for line in log.some(log.links[1:], 2):
        line["parentUuid"] = f"lost{line['uuid']}"


def orphan_far(log: WildLog) -> None:
    """Longer gaps, so that some orphans have no elder."""
    seconds, now = {}, 0
    for line in log.links:
        now += log.dice.choice((1, 2, 5, 6, 30))
        seconds[line["uuid"]] = now
        line["timestamp"] = moment(now)
    orphan(log)


def cycle(log: WildLog) -> None:
    line = log.one(log.links)
    line["parentUuid"] = log.one(log.links)["uuid"]


def self_parent(log: WildLog) -> None:
    line = log.one(log.links)
    line["parentUuid"] = line["uuid"]


def second_root(log: WildLog) -> None:
    log.one(log.prompts() or log.links)["parentUuid"] = None


def dup_same(log: WildLog) -> None:
    for line in log.some(log.links):
        log.lines.insert(log.dice.randint(0, len(log.lines)), json.loads(json.dumps(line)))


def dup_range(log: WildLog) -> None:
    first = log.dice.randrange(len(log.lines))
    log.lines += json.loads(json.dumps(log.lines[first:]))


def dup_changed(log: WildLog) -> None:
    line = json.loads(json.dumps(log.one(log.links)))
    line["parentUuid"] = log.one(log.links)["uuid"]
    log.lines.insert(log.dice.randint(0, len(log.lines)), line)


def children_first(log: WildLog) -> None:
    for line in log.some(log.links):
        log.lines.remove(line)
        log.lines.insert(log.dice.randint(0, len(log.lines)), line)


def shuffle_lines(log: WildLog) -> None:
    size = log.dice.randint(2, 6)
    first = log.dice.randint(0, max(len(log.lines) - size, 0))
    part = log.lines[first : first + size]
    log.dice.shuffle(part)
    log.lines[first : first + size] = part


def keys_odd(log: WildLog) -> None:
    for line in log.some(log.links, 2):
        known, odd = line["uuid"], log.dice.choice((None, 5, 7.5, True, ...))
        if odd is ...:
            line.pop("uuid")
            continue
        for other in log.links:
            if other.get("parentUuid") == known:
                other["parentUuid"] = odd
        line["uuid"] = odd


# ---- times ---------------------------------------------------------------------------------------------------


def ts_shuffled(log: WildLog) -> None:
    lines = log.some(log.links, 8)
    times = [line.get("timestamp") for line in lines]
    log.dice.shuffle(times)
    for line, time in zip(lines, times, strict=True):
        line["timestamp"] = time


def ts_equal(log: WildLog) -> None:
    lines = log.some(log.links, 8)
    for line in lines:
        line["timestamp"] = lines[0].get("timestamp")


def ts_missing(log: WildLog) -> None:
    for line in log.some(log.links[:-1]):
        line.pop("timestamp", None)


def ts_bad(log: WildLog) -> None:
    for line in log.some(log.links[:-1]):
        line["timestamp"] = log.dice.choice(("", "yesterday", "2026-13-01T00:00:00Z"))


# ---- marks ---------------------------------------------------------------------------------------------------


def _mark(log: WildLog, **fields: Any) -> None:
    leaf = log.one(log.links)["uuid"] if log.chance(90) else "lost"
    log.lines.insert(log.dice.randint(len(log.lines) // 2, len(log.lines)), mark(leaf, **fields))


def plain_mark(log: WildLog) -> None:
    _mark(log)


def mark_explicit(log: WildLog) -> None:
    _mark(log, explicit=True)


def marks_many(log: WildLog) -> None:
    for _ in range(log.dice.randint(2, 4)):
        _mark(log, **({"explicit": True} if log.chance(40) else {}))


def mark_side(log: WildLog) -> None:
    log.lines.append(mark(log.one(log.results() or log.links)["uuid"]))


def mark_repeated(log: WildLog) -> None:
    leaf = log.one(log.links)["uuid"]
    log.lines += [mark(leaf, explicit=True), mark(leaf)]


# ---- compaction ----------------------------------------------------------------------------------------------


def _compact(log: WildLog, parent: str | None = None, kept: Fields | None = None) -> None:
    before = log.last()
    fields = {"trigger": "auto", "preTokens": 1000, **(kept or {})}
    boundary = log.system(parent, "compact_boundary", logicalParentUuid=before, compactMetadata=fields)
    log.add(boundary)
    name = log.name()
    log.add(user(name, boundary["uuid"], log.at, f"SUM{name}", isCompactSummary=True))
    log.turn(log.last())


def _next_names(log: WildLog) -> tuple[str, str]:
    return f"n{len(log.lines) + 1}", log.last()


def boundary(log: WildLog) -> None:
    _compact(log)


def boundary_parented(log: WildLog) -> None:
    _compact(log, log.last())


def two_boundaries(log: WildLog) -> None:
    _compact(log)
    log.dice.choice((preserved_messages, preserved_segment, boundary))(log)


def preserved_messages(log: WildLog) -> None:
    lines = [line["uuid"] for line in log.links[-log.dice.randint(1, 5) :]]
    if log.chance(15):
        lines.insert(0, "lost")
    lines = [name for name in lines if log.chance(85)] or lines
    _compact_with(log, "preservedMessages", {"uuids": lines, "allUuids": lines})


def preserved_segment(log: WildLog) -> None:
    tail = log.links[-1]["uuid"]
    head = log.links[-log.dice.randint(1, min(5, len(log.links)))]["uuid"]
    _compact_with(log, "preservedSegment", {"headUuid": head, "tailUuid": tail})


def _compact_with(log: WildLog, kind: str, fields: Fields) -> None:
    _compact(log, kept={kind: fields})
    summary = next(line for line in reversed(log.links) if line.get("isCompactSummary"))
    fields["anchorUuid"] = summary["uuid"] if log.chance(90) else log.one(log.links)["uuid"]


TROUBLES: dict[str, Trouble] = {
    make.__name__: make
    for make in (
        *(attachment_rendered, attachment_known, queued, queued_news, progress, unknown_type, sys_api_error),
        *(local_command, microcompact, meta, interrupted, summary_flag, synthetic, api_error, api_error_end),
        *(server_tools, thinking_odd, models, split_message_ids, reuse_msgid, dup_tool_ids, content_odd),
        *(no_message, image, results_odd, result_to_other, results_gone, results_late, result_elsewhere),
        *(parallel_mixed, interrupted_end, leaf_odd, branch, fork_alt, sidechain, orphan, orphan_far, cycle),
        *(
            self_parent,
            second_root,
            dup_same,
            dup_range,
            dup_changed,
            children_first,
            shuffle_lines,
            keys_odd,
        ),
        *(ts_shuffled, ts_equal, ts_missing, ts_bad, plain_mark, mark_explicit, marks_many, mark_side),
        *(mark_repeated, boundary, boundary_parented, two_boundaries, preserved_messages, preserved_segment),
    )
}
# Trouble that takes ids or messages away comes last: the others look for them.
_LAST = ("content_odd", "no_message", "keys_odd")


def wild_log(number: int) -> tuple[list[str], list[Fields]]:
    """The kinds of trouble of this number, and the lines of its log."""
    dice = random.Random(f"wild log {number}")
    log = WildLog(dice)
    end: str | None = None
    for _ in range(dice.randint(1, 4)):
        end = log.turn(end)
    names = dice.sample(sorted(TROUBLES), dice.choice((1, 1, 1, 2, 2, 3, 4, 5, 6)))
    names.sort(key=lambda name: _LAST.index(name) + 1 if name in _LAST else 0)
    for name in names:
        if not log.links:
            break
        TROUBLES[name](log)
    return names, log.lines
