"""Sound logs of several shapes, and damage of every kind planted in them, with the codes that check must report.

A log is a list of turns. Each plant damages one turn, or the end of the log, so several can stand in one log.
Turns are twenty seconds apart and the lines of a turn at most two, so nothing is joined by time across turns.
"""

from __future__ import annotations

import base64
import json
import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from recollect.model.checks.rules import Severity
from recollect.model.checks.scan import LogIdentity
from recollect.model.repair.plan import Diagnosis
from tests.model.repair.mended_bytes import output
from tests.talk import Fields, assistant, call, encoded, link, mark, moment, result, user

SESSION = "5f0e4f0c-7a58-4f0e-9d43-2f6d1f1b7c22"
GAP = 20
_Line = Fields | bytes


def uuid_of(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


@dataclass
class Log:
    """Turns of lines, what is said in them, and what check must report."""

    turns: list[list[_Line]] = field(default_factory=list)
    first: int = 0
    """The first turn that is sent."""
    words: list[str] = field(default_factory=list)
    """What prompts and answers say that must reach the model."""
    codes: set[str] = field(default_factory=set)
    identity: LogIdentity = field(default_factory=lambda: LogIdentity(SESSION))
    changed: list[Callable[[bytes], bytes]] = field(default_factory=list)
    _uuids: int = 0
    _leaf: str | None = None

    def uuid(self) -> str:
        self._uuids += 1
        return uuid_of(self._uuids)

    @property
    def leaf(self) -> str | None:
        return self._leaf

    def at(self, turn: int, step: float = 0) -> float:
        return turn * GAP + step

    def add_turn(self, *said: tuple[str, Any], message_id: str | None = None) -> list[_Line]:
        """A turn of ("user" or "answer", content), each after the other."""
        turn: list[_Line] = []
        for step, (who, content) in enumerate(said):
            name, at = self.uuid(), self.at(len(self.turns), step / 4)
            made = user(name, self._leaf, at, content) if who == "user" else None
            turn.append(made or assistant(name, self._leaf, at, content, message_id))
            self._leaf = name
        self.turns.append(turn)
        return turn

    def word(self, kind: str) -> str:
        text = f"{kind}-{len(self.turns)}-{len(self.words)}"
        self.words.append(text)
        return text

    @property
    def data(self) -> bytes:
        lines = [line for turn in self.turns for line in turn]
        data = b"".join(line if isinstance(line, bytes) else encoded([line]) for line in lines)
        data = data.replace(b'"sessionId":"s"', f'"sessionId":"{SESSION}"'.encode())
        for change in self.changed:
            data = change(data)
        return data


# ---- sound logs ------------------------------------------------------------------------------------------

THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
OMITTED = {"type": "thinking", "thinking": "", "signature": "c2ln"}


def text(words: str) -> Fields:
    return {"type": "text", "text": words}


def _plain(log: Log, turns: int) -> None:
    for _ in range(turns):
        log.add_turn(("user", log.word("Q")), ("answer", log.word("A")))


def plain(log: Log, rng: random.Random) -> None:
    """Prompts and answers."""
    _plain(log, rng.randint(7, 9))


def tools(log: Log, rng: random.Random) -> None:
    """Calls one after the other, some of them without output."""
    for _ in range(rng.randint(7, 9)):
        name = f"toolu_{log.uuid()[-6:]}"
        given = rng.choice(["out", "", [text("")], [text("out")]])
        log.add_turn(
            ("user", log.word("Q")),
            ("answer", [call(name)]),
            ("user", [result(name, given)]),
            ("answer", log.word("A")),
        )


def thinking(log: Log, rng: random.Random) -> None:
    """Signed thinking on a line of its own, with and without its text."""
    for _ in range(rng.randint(7, 9)):
        name = f"msg_{log.uuid()[-6:]}"
        thought = rng.choice([THOUGHT, OMITTED])
        log.add_turn(
            ("user", log.word("Q")),
            ("answer", [thought]),
            ("answer", [text(log.word("A"))]),
            message_id=name,
        )


def parallel(log: Log, rng: random.Random) -> None:
    """Parallel calls, whose results fan out as the newer clients write them."""
    _plain(log, 3)
    for _ in range(rng.randint(3, 4)):
        one, two = f"toolu_{log.uuid()[-6:]}", f"toolu_{log.uuid()[-6:]}"
        turn = log.add_turn(
            ("user", log.word("Q")), ("answer", [call(one)]), ("answer", [call(two)]), message_id=f"msg_{one}"
        )
        callers = [str(line["uuid"]) for line in turn[1:] if isinstance(line, dict)]
        made, number = [log.uuid(), log.uuid(), log.uuid()], len(log.turns) - 1
        turn += [
            user(made[0], callers[0], log.at(number, 1), [result(one)]),
            user(made[1], callers[1], log.at(number, 1.25), [result(two)]),
            assistant(made[2], made[1], log.at(number, 1.5), log.word("A")),
        ]
        log._leaf = made[2]
    _plain(log, 2)


def compacted(log: Log, rng: random.Random) -> None:
    """A compaction, after which a summary stands for what was before."""
    _plain(log, rng.randint(2, 3))
    log.words.clear()
    number, boundary, summary = len(log.turns), log.uuid(), log.uuid()
    log.turns.append(
        [
            link(
                boundary,
                None,
                log.at(number),
                type="system",
                subtype="compact_boundary",
                content="Conversation compacted",
                logicalParentUuid=log.leaf,
            ),
            user(summary, boundary, log.at(number, 1), log.word("summary"), isCompactSummary=True),
        ]
    )
    log._leaf, log.first = summary, number + 1
    _plain(log, rng.randint(7, 8))


def noted(log: Log, rng: random.Random) -> None:
    """Lines of other kinds between the messages."""
    for _ in range(rng.randint(7, 9)):
        turn = log.add_turn(("user", log.word("Q")), ("answer", log.word("A")))
        name, number = log.uuid(), len(log.turns) - 1
        turn.insert(0, {"type": "mode", "mode": "normal", "sessionId": SESSION})
        turn.append(
            link(name, log.leaf, log.at(number, 1), type="system", subtype="turn_duration", durationMs=5)
        )
        log._leaf = name
        turn.append({"type": "custom-title", "customTitle": "a title", "sessionId": SESSION})
    log.turns[-1].append(mark(str(log.leaf)))


def branched(log: Log, rng: random.Random) -> None:
    """Prompts that were taken back: a branch of each is not resumed."""
    for _ in range(rng.randint(7, 9)):
        before = log.leaf
        turn = log.add_turn(("user", log.word("Q")), ("answer", log.word("A")))
        if before is not None:
            turn.insert(0, user(log.uuid(), before, log.at(len(log.turns) - 1, -10), "taken back"))


SHAPES: dict[str, Callable[[Log, random.Random], None]] = {
    one.__name__: one for one in (plain, tools, thinking, parallel, compacted, noted, branched)
}


def sound(shape: str, seed: int = 0) -> Log:
    """A sound log of this shape."""
    log = Log()
    SHAPES[shape](log, random.Random(f"{shape} {seed}"))
    return log


# ---- damage ----------------------------------------------------------------------------------------------

Plant = Callable[[Log, int], set[str]]
"""Damages a turn of the log and gives the codes that check must report for it."""


def _links(turn: list[_Line]) -> list[int]:
    """The places of the turn's messages on the resumed path."""
    return [
        place
        for place, line in enumerate(turn)
        if isinstance(line, dict)
        and line.get("type") in ("user", "assistant")
        and line["message"]["content"] != "taken back"
    ]


def _prompt(log: Log, turn: int) -> tuple[list[_Line], int, Fields]:
    lines = log.turns[turn]
    place = _links(lines)[0]
    line = lines[place]
    assert isinstance(line, dict)
    return lines, place, line


def _answer(log: Log, turn: int) -> Fields:
    line = log.turns[turn][_links(log.turns[turn])[-1]]
    assert isinstance(line, dict)
    return line


def _half_line(log: Log, turn: int) -> set[str]:
    lines, place, line = _prompt(log, turn)
    lines[place] = encoded([line])[:-40] + b"\n"
    return {"invalid-json", "history-cut"}


def _text_before(log: Log, turn: int) -> set[str]:
    lines, place, line = _prompt(log, turn)
    lines[place] = b"lost and found " + encoded([line])
    return {"invalid-json", "history-cut"}


def _glued(log: Log, turn: int) -> set[str]:
    lines, place, line = _prompt(log, turn)
    lines[place] = b'{"type":"mode","mode":"normal","sessionId":"s"}' + encoded([line])
    return {"glued-objects", "history-cut"}


def _nul_before(log: Log, turn: int) -> set[str]:
    lines, place, line = _prompt(log, turn)
    lines[place] = bytes(40) + encoded([line])
    return {"nul-run", "history-cut"}


def _nul_line(log: Log, turn: int) -> set[str]:
    lines, place, line = _prompt(log, turn)
    lines[place] = bytes(len(encoded([line]))) + b"\n"
    return {"nul-run", "history-cut"}


def _before_turn(*extra: _Line) -> Plant:
    def plant(log: Log, turn: int) -> set[str]:
        log.turns[turn][:0] = extra
        return {"skipped-bytes"}

    return plant


def _after_object(rest: bytes) -> Plant:
    def plant(log: Log, turn: int) -> set[str]:
        lines, place, line = _prompt(log, turn)
        lines[place] = encoded([line])[:-1] + rest + b"\n"
        return {"skipped-bytes"}

    return plant


def _line(code: str, data: bytes) -> Plant:
    def plant(log: Log, turn: int) -> set[str]:
        log.turns[turn].insert(0, data)
        return {code}

    return plant


def _bad_bytes(log: Log, turn: int) -> set[str]:
    lines, place, line = _prompt(log, turn)
    lines[place] = encoded([line]).replace(b"Q-", b"\xffQ-").replace(b"summary-", b"\xffsummary-")
    return {"invalid-utf8"}


def _surrogate(log: Log, turn: int) -> set[str]:
    lines, place, line = _prompt(log, turn)
    lines[place] = encoded([line]).replace(b"Q-", b"\\ud800Q-").replace(b"summary-", b"\\ud800summary-")
    return {"lone-surrogate"}


def _crlf(log: Log, turn: int) -> set[str]:
    lines, place, line = _prompt(log, turn)
    lines[place] = encoded([line])[:-1] + b"\r\n"
    return {"crlf"}


def _aside(turn_lines: Callable[[Log, int], list[Fields]], *codes: str) -> Plant:
    """Lines beside the resumed path, before the turn."""

    def plant(log: Log, turn: int) -> set[str]:
        log.turns[turn][:0] = turn_lines(log, turn)
        return set(codes)

    return plant


def _parent(log: Log, turn: int) -> str | None:
    parent: str | None = _prompt(log, turn)[2]["parentUuid"]
    return parent


def _renamed(log: Log, turn: int) -> set[str]:
    old = _answer(log, turn)["uuid"].encode()
    log.changed.append(lambda data: data.replace(old, b"an-id-of-my-own-" + old[-4:]))
    return {"invalid-id"}


def _no_id(log: Log, turn: int) -> set[str]:
    line = _prompt(log, turn)[2]
    # The client would join what follows to it if it were less than five seconds older.
    line["timestamp"] = moment(log.at(turn, -7))
    del line["uuid"]
    return {"missing-id", "history-cut"}


def _other_copy(log: Log, turn: int) -> set[str]:
    lines, place, line = _prompt(log, turn)
    other = json.loads(json.dumps(line))
    other["message"]["content"] = "other words"
    lines.insert(place, other)
    return {"duplicate-id"}


def _same_copy(log: Log, turn: int) -> set[str]:
    lines, place, line = _prompt(log, turn)
    lines.insert(place, dict(line))
    return {"repeated-entry"}


def _deleted(log: Log, turn: int) -> set[str]:
    lines, place, _ = _prompt(log, turn)
    del lines[place]
    return {"history-cut"}


def _own_parent(log: Log, turn: int) -> set[str]:
    line = _prompt(log, turn)[2]
    line["parentUuid"] = line["uuid"]
    return {"history-cut"}


def _no_parent(log: Log, turn: int) -> set[str]:
    _second(log, turn)["parentUuid"] = None
    return {"unlinked-answer"}


def _second(log: Log, turn: int) -> Fields:
    line = log.turns[turn][_links(log.turns[turn])[1]]
    assert isinstance(line, dict)
    return line


def _without_time(log: Log, turn: int) -> set[str]:
    _answer(log, turn)["timestamp"] = "soon"
    return {"bad-timestamp"}


def _older(log: Log, turn: int) -> set[str]:
    line = _second(log, turn)
    line["timestamp"] = "2025-11-01T00:00:00.000Z"
    return {"time-order"}


def _foreign(log: Log, turn: int) -> set[str]:
    _prompt(log, turn)[2]["sessionId"] = "6f0e4f0c-7a58-4f0e-9d43-2f6d1f1b7c23"
    return {"other-session-id"}


def _inserted(*said: tuple[str, Any], codes: set[str]) -> Plant:
    """Messages on the resumed path, between a prompt and its answer."""

    def plant(log: Log, turn: int) -> set[str]:
        lines, place, prompt = _prompt(log, turn)
        after = _second(log, turn)
        leaf, made = prompt["uuid"], []
        for step, (who, content) in enumerate(said):
            name, at = log.uuid(), log.at(turn, 0.05 * (step + 1))
            blocks = json.loads(json.dumps(content).replace("toolu_own", f"toolu_own{turn}"))
            made.append((user if who == "user" else assistant)(name, leaf, at, blocks))
            leaf = name
        after["parentUuid"] = leaf
        lines[place + 1 : place + 1] = made
        return set(codes)

    return plant


def image(data: str) -> Fields:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


def png(width: int, height: int) -> str:
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height) + bytes(30)
    return base64.b64encode(head).decode()


def _answered(*blocks: Fields) -> tuple[tuple[str, list[Fields]], ...]:
    return (("answer", list(blocks)), ("user", [text("and")]))


_OWN = "toolu_own"
_PAIR = (("answer", [call(_OWN)]), ("user", [result(_OWN)]))


def _late_result(log: Log, turn: int) -> set[str]:
    given = (("answer", [call(_OWN)]), ("answer", [text("before it")]), ("user", [result(_OWN)]))
    return _inserted(*given, codes={"result-not-sent"})(log, turn)


def _dead_ring(log: Log, turn: int) -> list[Fields]:
    one, two = log.uuid(), log.uuid()
    at = log.at(turn, -2)
    return [user(one, two, at, "ring"), assistant(two, one, at, "ring")]


def _other_talk(log: Log, turn: int) -> list[Fields]:
    one, two, at = log.uuid(), log.uuid(), log.at(turn, -2)
    return [user(one, None, at, "another talk"), assistant(two, one, at, "its answer")]


PLANTS: dict[str, Plant] = {
    "half a line": _half_line,
    "text before an entry": _text_before,
    "an entry after another": _glued,
    "NULs before an entry": _nul_before,
    "NULs for a line": _nul_line,
    "a line of text": _before_turn(b"<<<<<<< HEAD\n"),
    "a line of NULs": _before_turn(bytes(64) + b"\n"),
    "half a title": _before_turn(b'{"type":"custom-title","customTitle":"ha\n'),
    "text after an entry": _after_object(b" and more"),
    "a bracket after an entry": _after_object(b"}"),
    "NULs after an entry": _after_object(bytes(16)),
    "a title after an entry": _after_object(b'{"type":"tag","tag":"x","sessionId":"s"}'),
    "a number": _line("not-an-object", b"42\n"),
    "an array": _line("not-an-object", b"[1]\n"),
    "bytes that are not UTF-8": _bad_bytes,
    "half a surrogate pair": _surrogate,
    "CR LF": _crlf,
    "a deep line": _line("too-deep", b'{"type":"mode","x":' + b"[" * 90 + b"]" * 90 + b"}\n"),
    "an unknown type": _line("unknown-type", b'{"type":"zork","sessionId":"s"}\n'),
    "a record that no one could read": _line(
        "unreadable-record", b'{"type":"codex:unreadable","original":"<<<"}\n'
    ),
    "a record that is too long to be shown": _line(
        "oversize-record", b'{"type":"codex:unreadable","tooLong":70000000}\n'
    ),
    "a message without message": _aside(
        lambda log, turn: [link(log.uuid(), _parent(log, turn), log.at(turn, -1), type="user")],
        "unknown-shape",
    ),
    "an id that is not a UUID": _renamed,
    "a message without id": _no_id,
    "another copy": _other_copy,
    "the same copy": _same_copy,
    "a prompt that is gone": _deleted,
    "a prompt after itself": _own_parent,
    "an answer after nothing": _no_parent,
    "an orphan aside": _aside(
        lambda log, turn: [user(log.uuid(), "gone", log.at(turn, -9), "aside")], "missing-parent"
    ),
    "a ring aside": _aside(_dead_ring, "circle"),
    "another talk": _aside(_other_talk, "second-root"),
    "another session's line": _foreign,
    "no time": _without_time,
    "an old answer": _older,
    "a call without result": _inserted(
        ("answer", [call(_OWN)]), ("user", [text("go on")]), codes={"call-without-result"}
    ),
    "a call aside": _aside(
        lambda log, turn: [
            assistant(log.uuid(), _parent(log, turn), log.at(turn, -1), [call(f"toolu_aside{turn}")])
        ],
        "open-call",
    ),
    "a result without call": _inserted(("user", [result(_OWN)]), codes={"result-without-call"}),
    "two results": _inserted(*_PAIR, ("user", [result(_OWN, "again")]), codes={"duplicate-result"}),
    "one id for two calls": _inserted(
        *_PAIR, *_answered(text("between")), *_PAIR, codes={"duplicate-call-id", "duplicate-result"}
    ),
    "a result after another answer": _late_result,
    "a bad call id": _inserted(
        ("answer", [call("a b")]), ("user", [result("a b")]), codes={"api-bad-call-id"}
    ),
    "an image in an answer": _inserted(
        *_answered(image(png(2, 2)), text("picture")), codes={"api-misplaced-block"}
    ),
    "a call of the user": _inserted(("user", [call(_OWN), text("x")]), codes={"api-misplaced-block"}),
    "blank text before a call": _inserted(
        ("answer", [text(" "), call(_OWN)]), ("user", [result(_OWN)]), codes={"api-empty-text"}
    ),
    "a blank prompt": _inserted(
        ("answer", [text("first")]), ("user", " "), ("answer", [text("then")]), codes={"api-empty-content"}
    ),
    "unsigned thinking": _inserted(
        *_answered({"type": "thinking", "thinking": "hm"}, text("thought")), codes={"api-unsigned-thinking"}
    ),
    "thinking without its field": _inserted(
        *_answered({"type": "thinking", "signature": "s"}, text("thought")), codes={"api-emptied-thinking"}
    ),
    "redacted thinking without data": _inserted(
        *_answered({"type": "redacted_thinking", "data": ""}, text("thought")), codes={"api-emptied-thinking"}
    ),
    "an empty image": _inserted(("user", [image(""), text("x")]), codes={"api-empty-image"}),
    "an empty image in a result": _inserted(
        ("answer", [call(_OWN)]), ("user", [result(_OWN, [image("")])]), codes={"api-empty-image"}
    ),
    "an image that is not base64": _inserted(
        ("user", [image("iVBORw0KGgo[REDACTED]AAA"), text("x")]), codes={"api-damaged-image"}
    ),
    "a wide image": _inserted(("user", [image(png(9000, 10)), text("x")]), codes={"api-oversize-image"}),
}


def _torn(log: Log) -> set[str]:
    """The log ends in the middle of its last answer."""
    turn = log.turns[-1]
    place = _links(turn)[-1]
    del turn[place + 1 :]
    line = turn[place]
    assert isinstance(line, dict)
    log.changed.append(lambda data: data.rstrip(b"\n")[:-30])
    return {"torn-tail"}


def _torn_title(log: Log) -> set[str]:
    log.changed.append(lambda data: data + b'{"type":"custom-title","custo')
    return {"unfinished-line"}


def _no_newline(log: Log) -> set[str]:
    log.changed.append(lambda data: data.rstrip(b"\n"))
    return {"missing-final-newline"}


def _no_time_at_the_end(log: Log) -> set[str]:
    turn = log.turns[-1]
    del turn[_links(turn)[-1] + 1 :]
    _answer(log, -1)["timestamp"] = "soon"
    return {"bad-timestamp", "session-not-found"}


def _glued_at_the_end(log: Log) -> set[str]:
    turn = log.turns[-1]
    place = _links(turn)[-1]
    del turn[place + 1 :]
    turn[-1] = b'{"type":"mode","mode":"normal","sessionId":"s"}' + encoded([_answer(log, -1)])
    return {"glued-objects"}


def _being_written(log: Log) -> set[str]:
    log.identity = LogIdentity(SESSION, is_open=True)
    log.changed.append(lambda data: data + b'{"parentUuid":"')
    return {"being-written"}


def _open_end(log: Log) -> set[str]:
    name = log.uuid()
    log.turns[-1].append(assistant(name, log.leaf, log.at(len(log.turns)), [call("toolu_end")]))
    return {"open-call"}


def _marked(log: Log) -> set[str]:
    log.changed.append(lambda data: b"\xef\xbb\xbf" + data)
    return {"byte-order-mark"}


def _named(log: Log) -> set[str]:
    log.identity = LogIdentity(SESSION, "/x/notes.jsonl", None, "foreign-name")
    return {"foreign-name"}


def _without_history(log: Log) -> set[str]:
    meta = {"history_base": {"thread_id": "gone", "end_ordinal_exclusive": 9}}
    original = json.dumps({"type": "session_meta", "payload": meta})
    first = {"type": "foreign-record", "recordType": "session_meta", "original": original}
    log.changed.append(lambda data: json.dumps(first).encode() + b"\n" + data)
    return {"lost-beginning"}


ENDS: dict[str, Callable[[Log], set[str]]] = {
    "a torn end": _torn,
    "half a title at the end": _torn_title,
    "no final newline": _no_newline,
    "no time at the end": _no_time_at_the_end,
    "the last answer glued": _glued_at_the_end,
    "a line being written": _being_written,
    "a call at the end": _open_end,
    "a byte order mark": _marked,
    "a name of its own": _named,
    "a fork without its history": _without_history,
}
"""Damage at the end of a log, or of the log as a whole; one of them in a log."""


def planted(shape: str, names: list[str], seed: int = 0) -> Log:
    """A sound log with this damage, each in a turn of its own; ``codes`` says what check must report."""
    log = sound(shape, seed)
    rng = random.Random(f"{shape} {names} {seed}")
    # Two turns between any two, so that each damage stands alone.
    places = range(log.first + 1, len(log.turns) - 1)
    inner = [name for name in names if name in PLANTS]
    chosen = sorted(rng.sample(places, len(inner)))
    for name, turn in zip(inner, reversed(chosen), strict=True):
        log.codes |= PLANTS[name](log, turn)
    for name in names:
        if name in ENDS:
            log.codes |= ENDS[name](log)
    return log


def combined(count: int, seed: int = 0) -> Iterator[tuple[str, list[str], Log]]:
    """Logs with two or three kinds of damage."""
    rng = random.Random(seed)
    for number in range(count):
        shape = rng.choice([*SHAPES])
        names = rng.sample([*PLANTS], rng.choice([2, 3]))
        if rng.random() < 0.3:
            names[-1] = rng.choice([*ENDS])
        yield shape, names, planted(shape, names, number)


def touched(log: Log, diagnosis: Diagnosis) -> list[int]:
    """The lines that a repair changes although no error names them."""
    if diagnosis.repair is None:
        return []
    named = {one.line for one in diagnosis.findings if one.severity is Severity.ERROR}
    left = iter(output(diagnosis.repair).split(b"\n"))
    lines = enumerate(log.data.split(b"\n"), 1)
    return [number for number, line in lines if number not in named and line not in left]
