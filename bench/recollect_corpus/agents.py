"""The same conversations as homes of several agents, each in the records that its client writes.

The conversations are those of a generated home of Claude Code: prompts, answers, thoughts, calls with their results and
usage. What a figure for one agent says about another is then a matter of format alone. Ids are made from places, so the
same home is written each time.
"""

from __future__ import annotations

import datetime as dt
import json
import shutil
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

Fields = dict[str, Any]
_MODEL = {"codex": "gpt-5", "gemini": "gemini-2.5-pro", "qwen": "qwen3-coder-plus", "opencode": "gpt-5"}
_TABLES = """
CREATE TABLE session (id text PRIMARY KEY, project_id text, parent_id text, slug text, directory text, title text,
  version text, revert text, time_created integer, time_updated integer);
CREATE TABLE message (id text PRIMARY KEY, session_id text, time_created integer, time_updated integer, data text);
CREATE TABLE part (id text PRIMARY KEY, message_id text, session_id text, time_created integer,
  time_updated integer, data text);
CREATE TABLE event_sequence (aggregate_id text PRIMARY KEY, seq integer, owner_id text);
CREATE TABLE event (id text PRIMARY KEY, aggregate_id text, seq integer, type text, data text);
CREATE INDEX message_session_time_created_id_idx ON message (session_id, time_created, id);
CREATE INDEX part_message_id_id_idx ON part (message_id, id);
CREATE INDEX part_session_idx ON part (session_id);
CREATE UNIQUE INDEX event_aggregate_seq_idx ON event (aggregate_id, seq);
CREATE INDEX event_aggregate_type_seq_idx ON event (aggregate_id, type, seq);
"""


class Said(NamedTuple):
    """One step of a conversation: ``prompt``, ``text``, ``thought``, ``call`` or ``result``; or the ``usage`` of a response."""

    kind: str
    at: str
    text: str = ""
    call: str = ""
    name: str = ""
    given: Fields = {}  # noqa: RUF012 - never changed


class Talk(NamedTuple):
    """One conversation."""

    session: str
    cwd: str
    steps: list[Said]


def written(claude: Path, size: int, into: Path) -> dict[str, Path]:
    """Homes of all agents below ``into``, by name; ``claude`` has the logs they were made of, about ``size`` bytes."""
    taken, logs = 0, []
    for log in sorted(claude.glob("projects/*/*.jsonl")):
        if taken < size and not log.name.startswith("agent-"):
            taken += log.stat().st_size
            logs.append(log)
    for log in logs:
        copy = into / "claude" / log.relative_to(claude)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(log, copy)
    homes = {"claude": into / "claude"}
    for name, write in WRITERS.items():
        homes[name] = into / name
        homes[name].mkdir()
        write(homes[name], (_talk(log, name) for log in logs))
    return homes


def counted(claude: Path) -> dict[str, int]:
    """What an exact reader must say of each home that was made of all of these logs, the same for every agent."""
    talks = [_talk(log, "") for log in claude.glob("projects/*/*.jsonl") if not log.name.startswith("agent-")]
    used = [_used(step) for talk in talks for step in talk.steps if step.kind == "usage"]
    whole, cached, output = map(sum, zip(*used, strict=True))
    return {
        "sessions": len(talks),
        "responses": len(used),
        "input_tokens": whole - cached,
        "cache_read_tokens": cached,
        "output_tokens": output,
    }


def say_more(home: Path) -> None:
    """One record more in one session: the last line of a file again, or a new row."""
    for database in home.glob("*.db"):
        with closing(sqlite3.connect(database)) as store, store:
            _say_more_in(store)
        return
    with max(home.rglob("*.jsonl")).open("rb+") as file:
        last = file.read().splitlines(keepends=True)[-1]
        file.write(last)


def _say_more_in(store: sqlite3.Connection) -> None:
    now = time.time_ns()
    ((message, session),) = store.execute("SELECT id, session_id FROM message ORDER BY id DESC LIMIT 1")
    part = {"type": "text", "text": "one more"}
    row = (f"prt_zz{now}", message, session, now // 1_000_000, now // 1_000_000, _json(part))
    store.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", row)
    store.execute("UPDATE session SET time_updated = ? WHERE id = ?", (now // 1_000_000, session))
    for (last,) in store.execute(
        "SELECT seq FROM event_sequence WHERE aggregate_id = ?", (session,)
    ).fetchall():
        data = _json({"part": {**part, "id": row[0], "messageID": message, "sessionID": session}})
        event = (f"evt_zz{now}", session, last + 1, "message.part.updated.1", data)
        store.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?)", event)
        store.execute("UPDATE event_sequence SET seq = ? WHERE aggregate_id = ?", (last + 1, session))


def _talk(log: Path, agent: str) -> Talk:
    """Its steps, under an id that no other agent has; the usage of a response stands after its last line, which has the final counts."""
    steps: list[Said] = []
    open_one, cwd = Said("", ""), ""
    for raw in log.read_bytes().splitlines():
        try:
            line = json.loads(raw)
        except ValueError:
            continue
        message, at = line.get("message"), line.get("timestamp")
        if not isinstance(message, dict) or line.get("type") not in ("user", "assistant") or not at:
            continue
        if message.get("model") == "<synthetic>":
            continue
        if open_one.call and message.get("id") != open_one.call:
            steps.append(open_one)
            open_one = Said("", "")
        cwd = cwd or line.get("cwd") or ""
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        steps += (step for block in blocks for step in _steps(block, line["type"], at))
        if line["type"] == "assistant":
            open_one = Said("usage", at, call=message["id"], given=message["usage"])
    return Talk(_made(agent, log.stem), cwd, [*steps, open_one] if open_one.call else steps)


def _steps(block: Fields, role: str, at: str) -> Iterator[Said]:
    kind = block.get("type")
    if kind == "text":
        yield Said("prompt" if role == "user" else "text", at, block["text"])
    elif kind == "thinking" and block.get("thinking"):
        yield Said("thought", at, block["thinking"])
    elif kind == "tool_use":
        yield Said("call", at, call=block["id"], name=block["name"], given=block.get("input") or {})
    elif kind == "tool_result":
        told = block.get("content")
        texts = [told] if isinstance(told, str) else [one.get("text") or "" for one in told or []]
        yield Said("result", at, "\n".join(texts), call=block["tool_use_id"])


def _used(step: Said) -> tuple[int, int, int]:
    """All of the input, what was cached of it, and the output."""
    cached = step.given.get("cache_read_input_tokens", 0)
    return step.given.get("input_tokens", 0) + cached, cached, step.given.get("output_tokens", 0)


def _made(*parts: object) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, "\0".join(map(str, parts))))


def _jsonl(path: Path, lines: Iterator[Fields]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")


# ---- Codex -----------------------------------------------------------------------------------------------


def _codex(home: Path, talks: Iterator[Talk]) -> None:
    for talk in talks:
        at = talk.steps[0].at if talk.steps else "2026-01-01T00:00:00.000Z"
        name = f"rollout-{at[:19].replace(':', '-')}-{talk.session}.jsonl"
        lines = ({**line, "ordinal": number} for number, line in enumerate(_rollout(talk, at)))
        _jsonl(home / "sessions" / at[:4] / at[5:7] / at[8:10] / name, lines)


def _rollout(talk: Talk, began: str) -> Iterator[Fields]:
    meta = {
        "id": talk.session,
        "cwd": talk.cwd,
        "cli_version": "0.166.0",
        "source": "cli",
        "timestamp": began,
    }
    yield {"timestamp": began, "type": "session_meta", "payload": meta}
    place = f"<environment_context>\n  <cwd>{talk.cwd}</cwd>\n</environment_context>"
    context = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": place}]}
    yield {"timestamp": began, "type": "response_item", "payload": context}
    turn = ""
    total = [0, 0, 0]
    for number, step in enumerate(talk.steps):
        if step.kind == "prompt":
            turn = _made(talk.session, number)
            about = {
                "turn_id": turn,
                "cwd": talk.cwd,
                "model": _MODEL["codex"],
                "approval_policy": "on-request",
            }
            yield {"timestamp": step.at, "type": "turn_context", "payload": about}
        if step.kind == "usage":
            used = _used(step)
            total = [before + more for before, more in zip(total, used, strict=True)]
            names = ("input_tokens", "cached_input_tokens", "output_tokens")
            last, whole = dict(zip(names, used, strict=True)), dict(zip(names, total, strict=True))
            record = {"turn_id": turn, "thread_id": talk.session, "response_id": step.call, "usage": last}
            yield {"timestamp": step.at, "type": "token_usage_record", "payload": record}
            info = {"total_token_usage": whole, "last_token_usage": last}
            yield {
                "timestamp": step.at,
                "type": "event_msg",
                "payload": {"type": "token_count", "info": info},
            }
            continue
        item, event = _codex_item(step)
        yield {"timestamp": step.at, "type": "response_item", "payload": item}
        if event:
            done = {"type": "item_completed", "thread_id": talk.session, "turn_id": turn, "item": event}
            yield {"timestamp": step.at, "type": "event_msg", "payload": done}


def _codex_item(step: Said) -> tuple[Fields, Fields | None]:
    """What is sent to the model, and the event that says it again for an interface."""
    if step.kind == "call":
        asked = json.dumps(step.given, ensure_ascii=False)
        return {"type": "function_call", "call_id": step.call, "name": step.name, "arguments": asked}, None
    if step.kind == "result":
        return {"type": "function_call_output", "call_id": step.call, "output": step.text}, None
    if step.kind == "thought":
        return {"type": "reasoning", "summary": [{"type": "summary_text", "text": step.text}]}, None
    role, kind, event = (
        ("user", "input_text", "UserMessage")
        if step.kind == "prompt"
        else ("assistant", "output_text", "AgentMessage")
    )
    content = [{"type": kind, "text": step.text}]
    return {"type": "message", "role": role, "content": content}, {"type": event, "content": content}


# ---- Gemini and Qwen ---------------------------------------------------------------------------------------


def _gemini(home: Path, talks: Iterator[Talk]) -> None:
    for talk in talks:
        at = talk.steps[0].at if talk.steps else "2026-01-01T00:00:00.000Z"
        project = home / "tmp" / (Path(talk.cwd).name.lower() or "none")
        project.mkdir(parents=True, exist_ok=True)
        (project / ".project_root").write_text(talk.cwd, encoding="utf-8")
        name = f"session-{at[:16].replace(':', '-')}-{talk.session}.jsonl"
        _jsonl(project / "chats" / name, _gemini_records(talk, at))


def _gemini_records(talk: Talk, began: str) -> Iterator[Fields]:
    """An answer is written when it is there, and again with the results of its calls."""
    yield {
        "sessionId": talk.session,
        "projectHash": "0" * 64,
        "startTime": began,
        "lastUpdated": began,
        "kind": "main",
    }
    results = {step.call: step.text for step in talk.steps if step.kind == "result"}
    answer: Fields = {}
    for number, step in enumerate(talk.steps):
        name = _made(talk.session, number)
        if answer and step.kind in ("prompt", "usage"):
            yield from _gemini_answer(answer, step, results)
            answer = {}
        if step.kind == "prompt":
            yield {"id": name, "timestamp": step.at, "type": "user", "content": [{"text": step.text}]}
            yield {"$set": {"lastUpdated": step.at}}
        elif step.kind not in ("usage", "result"):
            answer = answer or {
                "id": name,
                "timestamp": step.at,
                "type": "gemini",
                "content": "",
                "thoughts": [],
            }
            _say(answer, step)


def _say(answer: Fields, step: Said) -> None:
    if step.kind == "text":
        answer["content"] += step.text
    elif step.kind == "thought":
        answer["thoughts"].append({"subject": "", "description": step.text, "timestamp": step.at})
    else:
        call = {"id": step.call, "name": step.name, "args": step.given}
        answer.setdefault("toolCalls", []).append(call)


def _gemini_answer(answer: Fields, end: Said, results: dict[str, str]) -> Iterator[Fields]:
    calls = answer.pop("toolCalls", [])
    answer["model"] = _MODEL["gemini"]
    if end.kind == "usage":
        whole, cached, output = _used(end)
        answer["tokens"] = {"input": whole, "cached": cached, "output": output, "thoughts": 0, "tool": 0}
    yield answer
    yield {"$set": {"lastUpdated": answer["timestamp"]}}
    for call in calls:
        told = {"id": call["id"], "name": call["name"], "response": {"output": results.get(call["id"], "")}}
        call |= {
            "status": "success",
            "timestamp": answer["timestamp"],
            "result": [{"functionResponse": told}],
        }
    if calls:
        yield {**answer, "toolCalls": calls}
        content = [part for call in calls for part in call["result"]]
        yield {
            "id": _made(answer["id"]),
            "timestamp": answer["timestamp"],
            "type": "user",
            "content": content,
        }


def _qwen(home: Path, talks: Iterator[Talk]) -> None:
    for talk in talks:
        project = "".join(one if one.isalnum() else "-" for one in talk.cwd) or "none"
        _jsonl(home / "projects" / project / "chats" / f"{talk.session}.jsonl", _qwen_lines(talk))


def _qwen_lines(talk: Talk) -> Iterator[Fields]:
    parent: str | None = None
    names = {step.call: step.name for step in talk.steps if step.kind == "call"}
    for number, step in enumerate(talk.steps):
        name = _made(talk.session, number)
        line: Fields = {"uuid": name, "parentUuid": parent, "sessionId": talk.session, "timestamp": step.at}
        parent = name
        yield {**line, "cwd": talk.cwd, "version": "0.24.4", **_qwen_body(step, names)}


def _qwen_body(step: Said, names: dict[str, str]) -> Fields:
    if step.kind == "usage":
        whole, cached, output = _used(step)
        event: Fields = {
            "event.name": "qwen-code.api_response",
            "response_id": step.call,
            "model": _MODEL["qwen"],
        }
        event |= {
            "input_token_count": whole,
            "cached_content_token_count": cached,
            "output_token_count": output,
        }
        payload = {"uiEvent": event}
        return {"type": "system", "provenance": "system", "subtype": "ui_telemetry", "systemPayload": payload}
    if step.kind == "prompt":
        message = {"role": "user", "parts": [{"text": step.text}]}
        return {"type": "user", "provenance": "real_user", "message": message}
    if step.kind == "result":
        told = {"id": step.call, "name": names.get(step.call, ""), "response": {"output": step.text}}
        message = {"role": "user", "parts": [{"functionResponse": told}]}
        done = {"callId": step.call, "status": "success", "resultDisplay": step.text[:200]}
        return {"type": "tool_result", "message": message, "toolCallResult": done}
    call = {"functionCall": {"id": step.call, "name": step.name, "args": step.given}}
    said = (
        call
        if step.kind == "call"
        else {"text": step.text, **({"thought": True} if step.kind == "thought" else {})}
    )
    return {"type": "assistant", "model": _MODEL["qwen"], "message": {"role": "model", "parts": [said]}}


# ---- OpenCode ------------------------------------------------------------------------------------------------


def _opencode(home: Path, talks: Iterator[Talk], *, has_events: bool = False) -> None:
    with closing(sqlite3.connect(home / "opencode.db")) as store, store:
        store.executescript(_TABLES)
        for talk in talks:
            _Store(store, talk, has_events=has_events).write()


def _with_events(home: Path, talks: Iterator[Talk]) -> None:
    _opencode(home, talks, has_events=True)


class _Store:
    """One conversation as rows, and as the events that made them."""

    def __init__(self, store: sqlite3.Connection, talk: Talk, *, has_events: bool) -> None:
        self._store, self._talk, self._has_events = store, talk, has_events
        self._session = f"ses_{talk.session.replace('-', '')[:26]}"
        self._events = self._count = 0

    def write(self) -> None:
        talk, session = self._talk, self._session
        times = [_ms(step.at) for step in talk.steps] or [0]
        row = (session, "p", None, "slug", talk.cwd, talk.session, "1.18.33", None, times[0], times[-1])
        self._store.execute(f"INSERT INTO session VALUES ({','.join('?' * 10)})", row)
        results = {step.call: step.text for step in talk.steps if step.kind == "result"}
        answer: str | None = None
        for step in talk.steps:
            if step.kind == "prompt":
                message = self._message(step, {"role": "user"})
                self._part(step, message, {"type": "text", "text": step.text})
                answer = None
            elif step.kind != "result":
                about = {
                    "role": "assistant",
                    "modelID": _MODEL["opencode"],
                    "providerID": "openai",
                    "finish": "stop",
                }
                answer = answer or self._message(step, about | {"path": {"cwd": talk.cwd}})
                self._part(step, answer, _opencode_part(step, results))
                answer = None if step.kind == "usage" else answer
        if self._has_events:
            last = (session, self._events - 1)
            self._store.execute("INSERT INTO event_sequence VALUES (?, ?, NULL)", last)

    def _name(self, kind: str, at: int) -> str:
        self._count += 1
        return f"{kind}_{(at * 4096 + self._count % 4096) % (1 << 48):012x}{self._session[4:12]}{self._count:06d}"

    def _message(self, step: Said, data: Fields) -> str:
        at = _ms(step.at)
        name, data = self._name("msg", at), {**data, "time": {"created": at, "completed": at}}
        row = (name, self._session, at, at, _json(data))
        self._store.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", row)
        info = {**data, "id": name, "sessionID": self._session}
        self._event("message.updated.1", name, {"sessionID": self._session, "info": info})
        return name

    def _part(self, step: Said, message: str, data: Fields) -> None:
        at = _ms(step.at)
        name = self._name("prt", at)
        row = (name, message, self._session, at, at, _json(data))
        self._store.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", row)
        part = {**data, "id": name, "messageID": message, "sessionID": self._session}
        self._event("message.part.updated.1", name, {"sessionID": self._session, "part": part})

    def _event(self, kind: str, name: str, data: Fields) -> None:
        """Twice, as a record is written when it begins and when it is whole."""
        for _ in range(2 if self._has_events else 0):
            row = (f"evt_{self._events}_{name}", self._session, self._events, kind, _json(data))
            self._store.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?)", row)
            self._events += 1


def _opencode_part(step: Said, results: dict[str, str]) -> Fields:
    if step.kind == "usage":
        whole, cached, output = _used(step)
        tokens = {"total": whole + output, "input": whole - cached, "output": output, "reasoning": 0}
        return {
            "type": "step-finish",
            "reason": "stop",
            "tokens": {**tokens, "cache": {"read": cached, "write": 0}},
        }
    if step.kind == "call":
        state = {
            "status": "completed",
            "input": step.given,
            "output": results.get(step.call, ""),
            "title": "",
        }
        return {"type": "tool", "callID": step.call, "tool": step.name.lower(), "state": state}
    return {"type": "reasoning" if step.kind == "thought" else "text", "text": step.text}


def _ms(at: str) -> int:
    return int(dt.datetime.fromisoformat(at).timestamp() * 1000)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


WRITERS: dict[str, Callable[[Path, Iterator[Talk]], None]] = {
    "codex": _codex,
    "gemini": _gemini,
    "qwen": _qwen,
    "opencode": _opencode,
    "opencode, with its event log": _with_events,
}
