"""What some logs cost together, worked out the slow way: every line as the client splits them, json and plain rules.

Knows nothing of recollect. The rules are those of docs/design/format.md: one response counts once
over all logs. It belongs with the conversation's own copy before a side chain's before an agent's progress; then the
largest output; one with a stop reason; the latest; of two lines of one log the later; of two logs one that no
fork copied, then the smallest path. Its amounts are those of the largest output of the request, whoever speaks.
Cache writes are the sum a line gives, of the longer life as far as its split says so. An advisor that a response
asked is a response of its own.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from tests.client_parser import client_lines

Totals = dict[str | None, tuple[int, ...]]


def totals(logs: Mapping[str, bytes]) -> Totals:
    """Messages and the six counts, by model."""
    spoken: dict[str, list[dict[str, Any]]] = defaultdict(list)
    counted: list[dict[str, Any]] = []
    for path, data in logs.items():
        for record in _records(data):
            record["path"] = path
            if record["message"] is None:
                counted.append(record)
            else:
                spoken[record["message"]].append(record)
    for lines in spoken.values():
        copies = _by_log(lines)
        main = [copy for copy in copies if copy["speaker"] == 2]
        for request in {copy["request"] for copy in main} if main else {""}:
            among = [copy for copy in copies if not main or copy["request"] == request]
            counted.append(_largest(among))
    sums: dict[str | None, list[int]] = defaultdict(lambda: [0] * 7)
    for record in counted:
        for place, amount in enumerate((1, *record["counts"])):
            sums[record["model"]][place] += amount
    return {model: tuple(values) for model, values in sums.items()}


def _by_log(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What each speaker of each log says of each request: its best line, the later of two equal ones."""
    best: dict[tuple[str, str, int], dict[str, Any]] = {}
    for line in lines:
        key = (line["path"], line["request"], line["speaker"])
        if key not in best or _merit(line) >= _merit(best[key]):
            best[key] = line
    return list(best.values())


def _merit(copy: dict[str, Any]) -> tuple[Any, ...]:
    return copy["speaker"], copy["output"], copy["stop"], copy["at"]


def _largest(copies: list[dict[str, Any]]) -> dict[str, Any]:
    """The copy whose amounts count."""

    def rank(copy: dict[str, Any]) -> tuple[Any, ...]:
        return copy["output"], copy["stop"], copy["speaker"], copy["at"], not copy["forked"]

    most = max(map(rank, copies))
    best = [copy for copy in copies if rank(copy) == most]
    return min(best, key=lambda copy: (copy["path"], copy["request"]))


def _records(data: bytes) -> Iterator[dict[str, Any]]:
    for place in client_lines(data)[0]:
        try:
            line = json.loads(data[place.start : place.value_end] if place.value_end else b"")
        except ValueError:
            continue
        if isinstance(line, dict):
            yield from _spoken(line)


def _spoken(line: dict[str, Any]) -> Iterator[dict[str, Any]]:
    inner = line
    if line.get("type") == "progress":
        inner = line["data"]["message"]
    if inner.get("type") != "assistant":
        return
    message = inner.get("message", inner)  # the flat dialect has it all on the line itself
    if message["model"] == "<synthetic>":
        return  # made by the client itself, billed by nobody
    usage = message["usage"]
    if message is inner:
        usage["cache_creation_input_tokens"] = usage["cache_creation_tokens"]
        usage["cache_read_input_tokens"] = usage["cache_read_tokens"]
    known = {
        "request": inner.get("requestId") or "",
        "speaker": 0 if inner is not line else 1 if inner.get("isSidechain") else 2,
        "stop": message.get("stop_reason") is not None,
        "at": _milliseconds(line.get("timestamp")),
        "forked": "forkedFrom" in line,
    }
    name = message.get("id")
    searches = (usage.get("server_tool_use") or {}).get("web_search_requests", 0)
    yield {**known, "message": name, "model": message["model"], **_counts(usage, searches)}
    asked = [one for one in usage.get("iterations", []) if one["type"] == "advisor_message" and one["model"]]
    for number, one in enumerate(asked, start=1):
        yield {
            **known,
            "message": name and f"{name}#advisor-{number}",
            "model": one["model"],
            **_counts(one, 0),
        }


def _counts(usage: dict[str, Any], searches: int) -> dict[str, Any]:
    split = usage.get("cache_creation") or {}
    hour, short = split.get("ephemeral_1h_input_tokens", 0), split.get("ephemeral_5m_input_tokens", 0)
    whole = usage.get("cache_creation_input_tokens", 0) or hour + short
    hour = min(hour, whole)
    reads = usage.get("cache_read_input_tokens", 0)
    counts = (usage["input_tokens"], usage["output_tokens"], whole - hour, hour, reads, searches)
    return {"output": usage["output_tokens"], "counts": counts}


def _milliseconds(text: str | None) -> int:
    try:
        return int(dt.datetime.fromisoformat(text or "").timestamp() * 1000)
    except ValueError:
        return 0
