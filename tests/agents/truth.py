"""What an independent parser counted in homes of other agents, and the same counted in our mirror of them."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from recollect.agents.mirror import AgentMirror

TOKENS = {
    "input": "input_tokens",
    "cache_read": "cache_read_input_tokens",
    "cache_write": "cache_creation_input_tokens",
    "output": "output_tokens",
}


def known(transcripts: Path, agent: str) -> dict[str, dict[str, Any]]:
    """The facts of each sample by its path below the samples; those of a store also by session."""
    truth = json.loads((transcripts / "dialects" / "truth" / f"{agent}.json").read_text("utf-8"))
    stored = {
        f"{agent}/{sample['sample']}#{facts['id']}": facts
        | {"lines": facts["answers"], "answers": None, "tokens": _totals(facts["tokens"])}
        for sample in truth.get("samples", ())
        for facts in sample["sessions"]
    }
    return stored | {name.removeprefix("dev/"): facts for name, facts in truth.get("files", {}).items()}


def _totals(tokens: dict[str, Any] | None) -> dict[str, Any] | None:
    """Zed has those of all requests beside those of the last ones, in names of its own."""
    if tokens is None or "cumulative" not in tokens:
        return tokens
    named = {theirs: ours for ours, theirs in TOKENS.items()}
    return {named[name]: count for name, count in (tokens["cumulative"] or {}).items()}


def counts(mirror: AgentMirror) -> defaultdict[str, dict[str, Any]]:
    """The same facts by source, from the lines of a mirror. Every line counts, whatever branch it stands on."""
    found: defaultdict[str, dict[str, Any]] = defaultdict(_nothing)
    for log in sorted(mirror.root.rglob("*.jsonl")):
        source = store = ""
        for line in map(json.loads, log.read_bytes().splitlines()):
            kind, message = line["type"], line.get("message") or {}
            if kind == "foreign-source":
                source = store = line["source"]
            elif "mark" in line:  # a row: of one of the sessions in a store
                source = (
                    f"{store}#{line['source'].rpartition('/')[0]}" if "#" not in line["source"] else store
                )
            facts, content = found[source], message.get("content")
            blocks = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
            is_meant = "#" not in source and line.get(
                "isSidechain"
            )  # a store's truth has those of sub-agents
            is_typed = not (line.get("isMeta") or line.get("isCompactSummary") or is_meant)
            if kind == "user" and is_typed:
                facts["prompts"] += any(block["type"] != "tool_result" for block in blocks)
            elif kind == "assistant":
                facts["lines"] += 1
                facts["answers"] += any(block["type"] == "text" and block["text"].strip() for block in blocks)
                facts["tool_calls"] += sum(block["type"] == "tool_use" for block in blocks)
            elif kind == "foreign-usage":
                facts["models"].add(message["model"])
                for name, ours in TOKENS.items():
                    facts["tokens"][name] += message["usage"][ours]
            facts["unknown"] += ":" in kind
    return found


def _nothing() -> dict[str, Any]:
    return {
        "prompts": 0,
        "answers": 0,
        "lines": 0,
        "tool_calls": 0,
        "unknown": 0,
        "models": set(),
        "tokens": dict.fromkeys(TOKENS, 0),
    }
