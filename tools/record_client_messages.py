"""Record what client 2.1.325 sends when it resumes: for our cases in full, for the samples as digests.

    RECOLLECT_CLIENTS=DIR RECOLLECT_TRANSCRIPTS=DIR python tools/record_client_messages.py [cases|samples]

The results under tests/data are the expected values of tests/model/conversation/test_api.py.
They come from the real client, never from our own code.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.needs import TRANSCRIPTS
from tests.oracle.client_runner import Client, running_stub
from tests.oracle.what_is_sent import NEW_PROMPT, digests, possible
from tests.talk import completed

ROOT = Path(__file__).resolve().parents[1]
CASES = ROOT / "tests" / "data" / "api_cases.json"
SAMPLES = ROOT / "tests" / "data" / "sample_messages.json"
REAL_HOMES = TRANSCRIPTS / "samples" / "claude-home"
VERSION = "2.1.325"
SESSION = "5f0e4f0c-7a58-4f0e-9d43-2f6d1f1b7c22"


def sent_for(lines: list[bytes]) -> list[list[dict[str, Any]] | None]:
    """Every list that the client's request for these lines allows; None where it finds no conversation."""
    program = Path(os.environ["RECOLLECT_CLIENTS"], VERSION, "claude")
    with tempfile.TemporaryDirectory() as root, running_stub() as stub:
        client = Client(VERSION, [str(program)], Path(root), stub)
        client.put(SESSION, lines)
        ran = client.ask(NEW_PROMPT, "--resume", SESSION)
        talks = stub.conversations()
        if not talks:
            assert "No conversation found" in ran.stdout + ran.stderr, ran.stderr
            return [None]
        return list(possible(talks[0]))


def encoded(lines: list[dict[str, Any]]) -> list[bytes]:
    """Lines as bytes."""
    return [json.dumps(completed(line), ensure_ascii=False, separators=(",", ":")).encode() for line in lines]


def record_cases() -> None:
    """Fill in the ``sent`` of every case."""
    cases: dict[str, Any] = json.loads(CASES.read_text(encoding="utf-8"))
    for name, case in cases.items():
        allowed = sent_for(encoded(case["lines"]))
        case["sent"] = case["sent"] if case.get("sent") in allowed else allowed[0]
        print(name, flush=True)
    rows = [
        f"{json.dumps(name)}: {json.dumps(case, ensure_ascii=False, separators=(',', ':'))}"
        for name, case in cases.items()
    ]
    CASES.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


def record_samples() -> None:
    """Digests for every session of every sample home."""
    found: dict[str, list[str] | None] = {}
    for log in sorted(REAL_HOMES.glob("*/.claude/projects/*/*.jsonl")):
        if log.name.startswith("agent-"):
            continue
        lines = log.read_bytes().split(b"\n")[:-1]
        sent = sent_for(lines)[0]
        found[log.relative_to(REAL_HOMES).as_posix()] = None if sent is None else digests(sent)
        print(log.name, flush=True)
    rows = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in found.items()]
    SAMPLES.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    chosen = sys.argv[1:] or ["cases", "samples"]
    if "cases" in chosen:
        record_cases()
    if "samples" in chosen:
        record_samples()
