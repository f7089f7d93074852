"""The lines of one log, as five versions of Claude Code write them; what they share with real ones is in docs/design/format.md."""

from __future__ import annotations

import base64
import datetime as dt
from random import Random
from typing import Any, NamedTuple

import msgspec

from bench.recollect_corpus.tools import Call, Fields, Material, Project
from bench.recollect_corpus.truth import UNPRICED, Line, Response

Block = tuple[Fields, tuple[str, ...]]  # a block of content, and what is planted in it
encode = msgspec.json.Encoder().encode
_MODELS = {
    "claude-opus-4-5-20251101": 40,
    "claude-sonnet-4-5-20250929": 40,
    "claude-opus-4-1-20250805": 12,
    UNPRICED: 8,
}
_AGENT_MODELS = {"claude-haiku-4-5-20251001": 70, "claude-sonnet-4-5-20250929": 30}
_FULL_CONTEXT = 150_000
_LONGEST_AGENT = 400_000


class Era(NamedTuple):
    """What a version of the client writes."""

    version: str
    agents: str  # "": none here; "flat": beside the sessions; "nested": in the session's directory
    usage: str  # of early lines: "final", "growing"; "start": no line ever has the final count
    has_split: bool  # cache writes by how long they last
    has_news: bool  # the parent's log repeats lines of its agents
    is_late: bool  # titles by the model, entrypoints, searches, files beside agents


ERAS = (
    Era("1.0.24", "", "growing", has_split=False, has_news=False, is_late=False),
    Era("2.0.76", "flat", "final", has_split=True, has_news=False, is_late=False),
    Era("2.1.30", "nested", "start", has_split=True, has_news=True, is_late=False),
    Era("2.1.197", "nested", "final", has_split=True, has_news=False, is_late=True),
    Era("2.1.325", "nested", "final", has_split=True, has_news=False, is_late=True),
)


class Agent(NamedTuple):
    """A sub-agent, its log and what stands beside it."""

    id: str
    log: Log
    meta: Fields


class Log:
    """One session, or one sub-agent of it."""

    def __init__(
        self, material: Material, project: Project, rng: Random, start: dt.datetime, era: Era
    ) -> None:
        self._words, self._planter, self._rng = material.words, material.planter, rng
        self._material, self.project, self.era, self.now = material, project, era, start
        self.session = _uuid(rng)
        self.agent_id = ""
        self.lines: list[Line] = []
        self.agents: list[Agent] = []
        self.prompts: list[tuple[int, str]] = []  # when and what
        self.size = 0
        self.model = _draw(rng, _MODELS)
        self._parent: str | None = None
        self._rewinds: list[str | None] = []  # what prompts followed
        self._cached, self._fresh = 0, rng.randrange(12_000, 22_000)
        self._branch = rng.choice(("main", "main", "dev", f"feature/{rng.randrange(90)}"))

    def talk(self, size: int) -> None:
        """Prompts and answers until the log is so long."""
        if self.era.is_late and not self.agent_id:
            self._note(type="permission-mode", permissionMode="default", sessionId=self.session)
        elif not self.era.is_late and self._rng.random() < 0.3:
            self._note(type="summary", summary=self._words.short(self._rng), leafUuid=_uuid(self._rng))
        while self.size < size or self._parent is None:
            self._turn(size)
            self._wait(3, 600 if self._rng.random() < 0.95 else 40_000)
        if self.era.is_late and not self.agent_id:
            self._note(type="ai-title", aiTitle=self._words.short(self._rng), sessionId=self.session)
            self._note(
                type="last-prompt",
                lastPrompt=self.prompts[-1][1],
                leafUuid=self._parent,
                sessionId=self.session,
            )

    def copy(self, origin: Log) -> None:
        """The beginning of another session up to one of its prompts, with its ids and times."""
        prompts = [number for number, line in enumerate(origin.lines) if line.is_prompt]
        end = self._rng.choice(prompts[len(prompts) // 3 :])
        old, new = origin.session.encode(), self.session.encode()
        is_told = self.era.is_late and self._rng.random() < 0.5
        for line in origin.lines[:end]:
            if not line.uuid:
                continue
            data = line.data.replace(old, new)
            if is_told:
                source = encode({"sessionId": origin.session, "messageUuid": line.uuid})
                data = data[:-1] + b',"forkedFrom":' + source + b"}"
            self._add(line._replace(data=data))
            self._parent = line.uuid
        self.model, self._branch = origin.model, origin._branch

    def replay(self, line: Line) -> None:
        """A line of the session, as an agent that knows its conversation repeats it: asked again, paid once."""
        if line.response is not None and not line.words:
            copy = msgspec.json.decode(line.data) | {"isSidechain": True, "agentId": self.agent_id}
            self._add(line._replace(data=encode({**copy, "requestId": f"req_011{_letters(self._rng)}"})))

    # ---- lines -------------------------------------------------------------------------------------------

    def _add(self, line: Line) -> None:
        self.lines.append(line)
        self.size += len(line.data) + 1

    def _note(self, **fields: Any) -> None:
        self._add(Line(encode(fields)))

    def _link(self, *, is_root: bool = False, facts: Fields | None = None, **fields: Any) -> Fields:
        """A line of the conversation, after the last one; ``facts`` are those of Line."""
        uuid = _uuid(self._rng)
        line: Fields = {"parentUuid": None if is_root else self._parent, "isSidechain": bool(self.agent_id)}
        if self.agent_id:
            line["agentId"] = self.agent_id
        line |= fields
        line |= {"uuid": uuid, "timestamp": self._stamp(), "userType": "external", "cwd": self.project.cwd}
        line |= {"sessionId": self.session, "version": self.era.version, "gitBranch": self._branch}
        if self.era.is_late:
            line["entrypoint"] = "cli"
        self._add(Line(encode(line), uuid, **(facts or {})))
        self._parent = uuid
        return line

    def _stamp(self) -> str:
        return f"{self.now:%Y-%m-%dT%H:%M:%S}.{self.now.microsecond // 1000:03d}Z"

    def _wait(self, least: float, most: float) -> None:
        self.now += dt.timedelta(milliseconds=int(1000 * self._rng.uniform(least, most)))

    # ---- a turn ------------------------------------------------------------------------------------------

    def _turn(self, size: int) -> None:
        rng = self._rng
        self._prompt()
        for _ in range(int(1 + 3 / (rng.random() + 0.15))):
            self._wait(1, 10)
            may_delegate = bool(self.era.agents) and not self.agent_id
            calls = [
                Call(self._material, self.project, rng, may_delegate=may_delegate)
                for _ in range(rng.choice((1, 1, 1, 1, 2, 3)))
            ]
            ids = [f"toolu_01{_letters(rng)}" for _ in calls]
            blocks = self._said(0.55)
            for name, call in zip(ids, calls, strict=True):
                tool = "Task" if call.name == "Agent" and not self.era.is_late else call.name
                block = {"type": "tool_use", "id": name, "name": tool, "input": call.given}
                blocks.append((block, call.planted))
            asking = self._response(blocks, "tool_use")[-len(calls) :]
            for name, call, line in zip(ids, calls, asking, strict=True):
                self._result(name, call, line)
            if self._cached + self._fresh > _FULL_CONTEXT:
                self._compact()
            if self.size >= size:
                break
        self._wait(1, 8)
        if rng.random() < 0.01:
            self._api_error()
        else:
            self._response(self._said(1.0), "end_turn")
        if self.era.is_late and not self.agent_id:
            self._link(
                type="system", subtype="turn_duration", durationMs=rng.randrange(900_000), isMeta=False
            )

    def _prompt(self) -> None:
        rng = self._rng
        if len(self._rewinds) > 2 and rng.random() < 0.03:
            self._parent = rng.choice(self._rewinds[-3:])
        self._rewinds.append(self._parent)
        text, planted = self._planted_prose(int(1 + 2 / (rng.random() + 0.1)))
        content: Any = text
        if not self.agent_id:
            self.prompts.append((int(self.now.timestamp() * 1000), text[:200]))
            if rng.random() < 0.004:
                image = base64.b64encode(rng.randbytes(30_000)).decode()
                source = {"type": "base64", "media_type": "image/png", "data": image}
                content = [{"type": "text", "text": text}, {"type": "image", "source": source}]
        more: Fields = {"promptId": _uuid(rng)} if self.era.is_late else {}
        facts = {"words": planted, "is_prompt": not self.agent_id}
        self._link(type="user", message={"role": "user", "content": content}, **more, facts=facts)
        self._fresh += len(text) // 4

    def _planted_prose(self, sentences: int) -> tuple[str, tuple[str, ...]]:
        return self._planter.plant(
            "agent" if self.agent_id else "prose", self._words.prose(self._rng, sentences)
        )

    def _said(self, often: float) -> list[Block]:
        """Thought and text of an answer, each with what is planted in it."""
        rng, blocks = self._rng, list[Block]()
        if rng.random() < 0.4:
            thought, planted = "", tuple[str, ...]()
            if not self.era.is_late or rng.random() < 0.4:
                thought, planted = self._planter.plant(
                    "thinking", self._words.prose(rng, rng.randrange(2, 12))
                )
            signature = base64.b64encode(rng.randbytes(rng.randrange(150, 900))).decode()
            blocks.append(({"type": "thinking", "thinking": thought, "signature": signature}, planted))
        if rng.random() < often:
            text, planted = self._planted_prose(int(1 + 1.5 / (rng.random() + 0.1)))
            if rng.random() < 0.1:
                code = "\n".join(self._words.code(rng, self.project.language, rng.randrange(4, 25)))
                text += f"\n\n```{self.project.language}\n{code}\n```"
            blocks.append(({"type": "text", "text": text}, planted))
        return blocks

    def _response(self, blocks: list[Block], stop: str) -> list[Fields]:
        """One call of the model: a line for each block, with the usage on every one."""
        rng, era = self._rng, self.era
        name, request = f"msg_01{_letters(rng)}", f"req_011{_letters(rng)}"
        output = 20 + sum(
            len(block.get("text") or block.get("thinking") or "") // 4 + 30 for block, _ in blocks
        )
        counted = min(output, rng.randrange(1, 9)) if era.usage == "start" else output
        cached, fresh = self._cached, self._fresh
        hour = fresh // 3 if era.has_split else 0
        if era.is_late and not self.agent_id and rng.random() < 0.8:
            hour = fresh
        tokens = (rng.randrange(1, 12), counted, fresh - hour, hour, cached)
        searches = rng.randrange(1, 4) if era.is_late and rng.random() < 0.01 else 0
        waits = [rng.randrange(200, 5_000) for _ in blocks]
        end = self.now + dt.timedelta(milliseconds=sum(waits))
        response = Response(
            name, self.model, f"{end:%Y-%m-%d}", tokens, searches, bool(self.agent_id), era.usage != "start"
        )
        lines = []
        for number, (block, planted) in enumerate(blocks, 1):
            self.now += dt.timedelta(milliseconds=waits[number - 1])
            is_last = number == len(blocks)
            usage = _usage(tokens, searches, era)
            if era.usage == "growing" and not is_last:
                usage["output_tokens"] = min(output, 3)
            has_stop = (is_last or era.is_late) and era.usage != "start"
            message: Fields = {"id": name, "type": "message", "role": "assistant", "model": self.model}
            message |= {"content": [block], "stop_reason": stop if has_stop else None, "stop_sequence": None}
            message["usage"] = usage
            facts = {"response": response, "words": planted}
            lines.append(self._link(type="assistant", message=message, requestId=request, facts=facts))
        self._cached, self._fresh = cached + fresh, output
        return lines

    def _result(self, name: str, call: Call, asking: Fields) -> None:
        self._wait(0.05, 15)
        told, rich = call.told, call.rich
        if call.name == "Agent":
            told, rich = self._delegate(name, call)
        block: Fields = {"tool_use_id": name, "type": "tool_result", "content": told}
        if call.is_error:
            block["is_error"] = True
        more: Fields = {}
        if self.era.agents == "nested":  # from 2.1 on each result follows its own call
            self._parent = more["sourceToolAssistantUUID"] = asking["uuid"]
        message = {"role": "user", "content": [block]}
        facts = {"words": call.planted_in_result}
        self._link(type="user", message=message, toolUseResult=rich, **more, facts=facts)
        self._fresh += len(told) // 4

    def _api_error(self) -> None:
        message: Fields = {"id": _uuid(self._rng), "type": "message", "role": "assistant"}
        message |= {"model": "<synthetic>"}
        message |= {"content": [{"type": "text", "text": "API Error: 529"}], "stop_reason": "stop_sequence"}
        message["usage"] = _usage((0, 0, 0, 0, 0), 0, self.era)
        self._link(type="assistant", message=message, isApiErrorMessage=True)

    def _compact(self) -> None:
        if self.era.version != ERAS[0].version:  # the first wrote nothing about it
            about = {"trigger": "auto", "preTokens": self._cached + self._fresh}
            self._link(is_root=True, logicalParentUuid=self._parent, type="system", subtype="compact_boundary",
                       content="Conversation compacted", isMeta=False, level="info", compactMetadata=about)  # fmt: skip
            summary = f"This session goes on from one before. {self._words.prose(self._rng, 30)}"
            message = {"role": "user", "content": summary}
            self._link(type="user", message=message, isCompactSummary=True, isVisibleInTranscriptOnly=True)
            self._rewinds = []
        self._cached, self._fresh = 0, self._rng.randrange(15_000, 28_000)

    def _delegate(self, name: str, call: Call) -> tuple[str, Fields]:
        """Let a sub-agent work; what it tells, and what the client keeps of it."""
        rng, era = self._rng, self.era
        log = Log(self._material, self.project, rng, self.now, era)
        log.session, log._branch, log.model = self.session, self._branch, _draw(rng, _AGENT_MODELS)
        log.agent_id = f"a{rng.getrandbits(64):016x}" if era.is_late else f"{rng.getrandbits(28):07x}"
        if era.is_late and rng.random() < 0.6:
            log.replay(self.lines[-1])
        log.talk(int(min(15_000 / (rng.random() + 0.03), _LONGEST_AGENT)))
        self.now = log.now
        meta = {"agentType": call.given["subagent_type"], "description": call.given["description"]}
        self.agents.append(Agent(log.agent_id, log, {**meta, "toolUseId": name, "spawnDepth": 1}))
        if era.has_news:
            for line in [line for line in log.lines if line.response][:3]:
                news = msgspec.json.decode(line.data)
                news["message"]["usage"]["output_tokens"] = 1  # what the stream began with
                data = {"type": "agent_progress", "agentId": log.agent_id, "message": news}
                self._link(type="progress", data=data, toolUseID=f"agent_{name}", parentToolUseID=name)
        told = self._words.prose(rng, rng.randrange(4, 20))
        rich = {"status": "completed", "prompt": call.given["prompt"], "agentId": log.agent_id}
        return told, {**rich, "content": [{"type": "text", "text": told}], "totalDurationMs": 1_000}


def _usage(tokens: tuple[int, int, int, int, int], searches: int, era: Era) -> Fields:
    fresh, output, short, hour, cached = tokens
    usage: Fields = {"input_tokens": fresh, "cache_creation_input_tokens": short + hour}
    usage |= {"cache_read_input_tokens": cached, "output_tokens": output, "service_tier": "standard"}
    if era.has_split:
        usage["cache_creation"] = {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": hour}
    if era.is_late:
        usage["server_tool_use"] = {"web_search_requests": searches, "web_fetch_requests": 0}
        usage["speed"] = "standard"
    return usage


def _uuid(rng: Random) -> str:
    text = f"{rng.getrandbits(128):032x}"
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"


def _letters(rng: Random) -> str:
    return f"{rng.getrandbits(96):024x}"


def _draw(rng: Random, weights: dict[str, int]) -> str:
    return rng.choices(list(weights), list(weights.values()))[0]
