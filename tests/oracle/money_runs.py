"""Runs of client 2.1.325 whose usage is scripted, and what it said they cost.

A run is some prompts to one client; the stub answers each request with the next scripted usage. What matters of
the logs and the client's ``total_cost_usd`` is kept in ``tests/data/money_runs.jsonl``, so that the daily run
compares without a client. After a run was added or changed, write the record again::

    RECOLLECT_CLIENTS=DIR python -m tests.oracle.money_runs
"""

from __future__ import annotations

import json
import os
import random
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.oracle.client_runner import ANSWER, ApiStub, Client, running_stub

VERSION = "2.1.325"
RECORDS = Path(__file__).resolve().parents[1] / "data" / "money_runs.jsonl"

Usage = dict[str, Any]
Step = dict[str, Any]  # usage; tool: a call's name and input; cut: the stream ends early
Logs = dict[str, list[dict[str, Any]]]

OPUS, SONNET_4_5, HAIKU = "claude-opus-5-5", "claude-sonnet-4-5-20250929", "claude-haiku-5-5"
BASE: Usage = {
    "input_tokens": 1000,
    "output_tokens": 700,
    "cache_creation_input_tokens": 500,
    "cache_read_input_tokens": 2000,
    "cache_creation": {"ephemeral_5m_input_tokens": 300, "ephemeral_1h_input_tokens": 200},
    "service_tier": "standard",
}
NO_SPLIT = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0}
ADVISOR = {
    "type": "advisor_message",
    "model": "claude-fable-5",
    "input_tokens": 100,
    "output_tokens": 50,
    "cache_read_input_tokens": 40,
    "cache_creation_input_tokens": 30,
    "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 10},
}


@dataclass(frozen=True)
class Ask:
    """One start of the client."""

    steps: tuple[Step, ...] = ({},)
    options: tuple[str, ...] = ()
    prompt: str = "Hello"


@dataclass(frozen=True)
class Run:
    """Some starts of one client in one home; every step without usage of its own has ``usage``."""

    name: str
    model: str = OPUS
    usage: Usage = field(default_factory=dict)
    asks: tuple[Ask, ...] = (Ask(),)


@dataclass(frozen=True)
class MoneyRecord:
    """What the client said and wrote."""

    name: str
    total_usd: float
    models: dict[str, float]
    logs: Logs


SESSION = "5e551000-0000-4000-8000-000000000001"
FIRST = ("--session-id", SESSION)
AGAIN = ("--resume", SESSION)
FORK = (*AGAIN, "--fork-session")
BASH = {"tool": ("Bash", {"command": "ls", "description": "List"})}
COMPACT = Ask(options=AGAIN, prompt="/compact")


def runs() -> Iterator[Run]:
    """All of them."""
    yield from _models()
    yield from _caches()
    yield from _served()
    yield from _advisors()
    yield from _flows()
    yield from _mixed()


def _models() -> Iterator[Run]:
    names = """
        claude-3-5-haiku-20241022 claude-3-5-sonnet-20241022 claude-3-7-sonnet-20250219 claude-sonnet-4-20250514
        claude-opus-4-5-20251101 claude-sonnet-4-5-20250929 claude-haiku-4-5-20251001 claude-opus-4-6
        claude-sonnet-4-6 claude-opus-4-7 claude-opus-4-8 claude-opus-5 claude-opus-5-5 claude-opus-5-5[1m]
        claude-sonnet-5 claude-sonnet-5-5 claude-haiku-5-5 claude-fable-5 claude-fable-5-1 claude-mythos-5
        claude-mythos-5-1 claude-mythos-5-2 claude-sonnet-4-5@20250929 anthropic.claude-opus-5-5
        global.anthropic.claude-sonnet-4-5-20250929-v1:0 claude-nightly-20261101
    """
    for name in names.split():
        yield Run(f"model {name}", name)


def _caches() -> Iterator[Run]:
    writes = "cache_creation_input_tokens"
    yield Run("cache split 0/0", usage={"cache_creation": NO_SPLIT})
    yield Run("cache split null", usage={"cache_creation": None})
    yield Run("cache split without a sum", usage={writes: 0})
    yield Run("cache split below the sum", usage={writes: 900})
    yield Run("cache split above the sum", usage={writes: 100})
    yield Run(
        "cache split of five minutes only", usage={"cache_creation": {"ephemeral_5m_input_tokens": 100}}
    )
    yield Run("cache split of an hour only", usage={"cache_creation": {"ephemeral_1h_input_tokens": 100}})


def _served() -> Iterator[Run]:
    for model in (SONNET_4_5, "claude-sonnet-4-20250514", "claude-sonnet-4-6", "claude-opus-4-6[1m]", HAIKU):
        yield Run(f"250,000 tokens of {model}", model, {"input_tokens": 250_000})
    yield Run("250,000 cached tokens", SONNET_4_5, {"cache_read_input_tokens": 250_000})
    yield Run("100,000 tokens of Haiku", HAIKU, {"input_tokens": 97_500})
    yield Run("100,001 tokens of Haiku", HAIKU, {"input_tokens": 97_501})
    for model in (
        "claude-opus-4-6",
        "claude-opus-4-7",
        "claude-opus-4-8",
        "claude-opus-5",
        OPUS,
        "claude-sonnet-5-5",
    ):
        yield Run(f"fast {model}", model, {"speed": "fast"})
    yield Run("US only", usage={"inference_geo": "us"})
    yield Run("US only and fast", usage={"inference_geo": "us", "speed": "fast"})
    yield Run("US only of Sonnet 4.5", SONNET_4_5, {"inference_geo": "us"})
    yield Run("priority tier", usage={"service_tier": "priority"})
    yield Run("searches", usage={"server_tool_use": {"web_search_requests": 3, "web_fetch_requests": 2}})


def _advisors() -> Iterator[Run]:
    yield Run("advisor", usage={"iterations": [{**BASE, "type": "message"}, ADVISOR]})
    yield Run("two advisors", usage={"iterations": [ADVISOR, {**ADVISOR, "model": "claude-opus-4-8"}]})
    yield Run("advisor of the same model", usage={"iterations": [{**ADVISOR, "model": OPUS}]})
    yield Run("advisor without a model", usage={"iterations": [{**ADVISOR, "model": None}]})
    yield Run("advisor, US only", usage={"iterations": [ADVISOR], "inference_geo": "us"})
    yield Run("advisor, fast", usage={"iterations": [ADVISOR], "speed": "fast"})
    yield Run("advisor, cache split 0/0", usage={"iterations": [{**ADVISOR, "cache_creation": NO_SPLIT}]})
    yield Run("compaction on the server", usage={"iterations": [{**ADVISOR, "type": "compaction"}]})


def _flows() -> Iterator[Run]:
    yield Run("tool calls", asks=(Ask((BASH, BASH, {})),))
    yield Run("resumed", asks=(Ask(options=FIRST), Ask(options=AGAIN)))
    yield Run("forked", asks=(Ask(options=FIRST), Ask(options=FORK)))
    yield Run("compacted", asks=(Ask(options=FIRST), COMPACT))
    yield Run("compacted and resumed", asks=(Ask(options=FIRST), COMPACT, Ask(options=AGAIN)))
    yield Run(
        "compacted and forked", asks=(Ask(options=FIRST), COMPACT, Ask(options=AGAIN), Ask(options=FORK))
    )
    yield Run("cut stream", asks=(Ask(({"cut": True}, {"cut": True}, {})),))
    yield Run(
        "web search by a side question",
        asks=(Ask(({"tool": ("WebSearch", {"query": "weather"})}, {}, {}), ("--allowedTools", "WebSearch")),),
    )
    agent = {"description": "look", "prompt": "Look around", "subagent_type": "general-purpose"}
    yield Run("sub-agent", asks=(Ask(({"tool": ("Agent", agent)}, {}, {}, {})),))
    yield Run("advisor, then compacted", usage={"iterations": [ADVISOR]}, asks=(Ask(options=FIRST), COMPACT))


def _mixed() -> Iterator[Run]:
    """Everything at once: three requests of one model, each with usage of its own."""
    dice = random.Random(7)
    models = (
        OPUS,
        "claude-opus-4-8",
        "claude-opus-5",
        HAIKU,
        SONNET_4_5,
        "claude-sonnet-5-5",
        "claude-mythos-5-1",
    )
    for number in range(20):
        model = dice.choice(models)
        steps = [{**step, "usage": _any_usage(dice, model)} for step in (BASH, BASH, {})]
        more = (COMPACT,) if dice.random() < 0.3 else ()
        yield Run(f"mixed {number}", model, _any_usage(dice, model), (Ask(tuple(steps), FIRST), *more))


def _any_usage(dice: random.Random, model: str) -> Usage:
    five, hour = dice.choice((0, 0, 17, 4_000)), dice.choice((0, 0, 23, 60_000))
    usage: Usage = {
        "input_tokens": dice.choice((0, 3, 1_000, 98_000, 230_000)),
        "output_tokens": dice.choice((1, 700, 31_000)),
        "cache_read_input_tokens": dice.choice((0, 5, 90_000, 180_000)),
        "cache_creation_input_tokens": dice.choice((five + hour, five + hour, 0, 9_000)),
        "cache_creation": {"ephemeral_5m_input_tokens": five, "ephemeral_1h_input_tokens": hour},
        "inference_geo": dice.choice(("", "", "us", "not_available")),
        "server_tool_use": {"web_search_requests": dice.choice((0, 0, 1, 4)), "web_fetch_requests": 1},
        "iterations": dice.choice(([], [], [ADVISOR], [ADVISOR, {**ADVISOR, "model": HAIKU}])),
        "service_tier": dice.choice(("standard", "priority")),
    }
    if model.startswith("claude-opus"):
        usage["speed"] = dice.choice(("standard", "fast"))
    return {**BASE, **usage}


# --- asking the client ----------------------------------------------------------------------------


class ScriptedStub(ApiStub):
    """Answers each request with the next step of a script; when it is over, with its last."""

    def __init__(self) -> None:
        super().__init__()
        self.script: list[Step] = []
        self._guard = threading.Lock()

    def reply_to(self, body: dict[str, Any]) -> dict[str, Any]:
        with self._guard:
            step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        message = super().reply_to(body)
        content: list[dict[str, Any]] = [{"type": "text", "text": ANSWER}]
        if "tool" in step:
            name, given = step["tool"]
            content.append({"type": "tool_use", "id": f"toolu_{message['id']}", "name": name, "input": given})
        return {
            **message,
            "id": f"msg_{os.urandom(6).hex()}",
            "content": content,
            "stop_reason": "tool_use" if "tool" in step else "end_turn",
            "usage": step["usage"],
            "is_cut": bool(step.get("cut")),
        }

    def events(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        found = super().events({key: value for key, value in message.items() if key != "is_cut"})
        return found[:3] if message["is_cut"] else found


def asked(run: Run, command: list[str]) -> MoneyRecord:
    """Ask the client."""
    stub = ScriptedStub()
    with tempfile.TemporaryDirectory() as place, running_stub(stub):
        client = Client(VERSION, command, Path(place), stub)
        for ask in run.asks:
            stub.script = [{"usage": {**BASE, **run.usage}, **step} for step in ask.steps]
            done = client.ask(ask.prompt, "--model", run.model, "--output-format", "json", *ask.options)
            said = json.loads(done.stdout)
        models = {name: used["costUSD"] for name, used in said["modelUsage"].items()}
        projects = client.config / "projects"
        logs = {
            f"-work/{path.relative_to(projects).as_posix().partition('/')[2]}": list(_kept(path))
            for path in sorted(projects.rglob("*.jsonl"))
        }
    return MoneyRecord(run.name, said["total_cost_usd"], models, logs)


def _kept(path: Path) -> Iterator[dict[str, Any]]:
    """What bears on money in a log; no text and no path."""
    for text in path.read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        kept = {
            key: line[key]
            for key in ("type", "uuid", "isSidechain", "requestId", "sessionId", "timestamp", "version")
            if key in line
        }
        if line["type"] == "assistant":
            message = line["message"]
            names = ("id", "model", "stop_reason", "usage")
            yield {
                **kept,
                "message": {"role": "assistant", "content": [], **{name: message[name] for name in names}},
            }
        elif line["type"] == "cost-state":
            names = ("startTime", "totalCostUSD", "modelUsage", "hasUnknownModelCost")
            yield {**kept, **{name: line[name] for name in names}}


# --- the record -----------------------------------------------------------------------------------


def recorded() -> list[MoneyRecord]:
    """What was asked before."""
    return [MoneyRecord(**json.loads(line)) for line in RECORDS.read_text(encoding="utf-8").splitlines()]


def laid_out(logs: Mapping[str, list[dict[str, Any]]], home: Path) -> Path:
    """The logs of a run as a home."""
    for name, lines in logs.items():
        path = home / "projects" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return home


def main() -> None:
    """Ask the client everything and write it down."""
    command = [str(Path(os.environ["RECOLLECT_CLIENTS"], VERSION, "claude"))]
    lines = []
    for run in runs():
        found = asked(run, command)
        print(f"{found.name:<44} {found.total_usd}", flush=True)
        lines.append(json.dumps(found.__dict__, separators=(",", ":")) + "\n")
    RECORDS.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
