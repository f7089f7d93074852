"""Runs a client of another agent for a few turns; a program of its own, so that it can be closed in.

    python -m tests.oracle.clients.room  < what to do, as JSON  > what happened, as JSON

It runs in a network namespace that has nothing but its loopback (``tests.oracle.clients.runner`` puts it there). The client
gets an empty environment, a home of its own below ``root``, a dummy key, and the stub of ``oracle`` as its model service.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import re
import socket
import struct
import sys
import uuid
from pathlib import Path
from typing import Any

_SET_FLAGS, _UP_AND_RUNNING = 0x8914, 0x41
_ID = re.compile(r'"session_?id":\s*"([^"]+)"', re.IGNORECASE)

Turn = dict[str, Any]


def main() -> None:
    """Read the wish, run it, tell."""
    wish = json.load(sys.stdin)
    if wish["alone"]:
        _loopback_up()
    sys.path.insert(0, wish["oracle"])
    with contextlib.redirect_stdout(sys.stderr):
        told = _ROOMS[wish["agent"].partition("-")[0]](wish)
    json.dump(told, sys.stdout)


def _loopback_up() -> None:
    with socket.socket() as plug:
        fcntl.ioctl(plug, _SET_FLAGS, struct.pack("16sh", b"lo", _UP_AND_RUNNING))


def _codex(wish: Turn) -> Turn:
    from client import Client, script  # type: ignore[import-not-found]

    client = Client(wish["program"], wish["root"], cache_write=True)
    client.work = Path(wish["cwd"])
    turns = []
    for turn in wish["turns"]:
        asked = len(client.stub.requests)
        words = turn["prompt"] + (script(*turn["steps"]) if turn.get("steps") else "")
        session = turn.get("session") or (client.last_id() if turn.get("resume") else None)
        # Before there was a command for it, a setting named the file to go on from.
        setting = ("-c", f'experimental_resume="{turn["rollout"]}"') if "rollout" in turn else ()
        code, out, err = client.exec(words, *setting, sub=("resume", session) if session else ())
        sent = [one["body"] for one in client.stub.requests[asked:] if one["path"].endswith("/responses")]
        turns.append(_told(code, out + err, client.last_id(), sent))
    bill = [_codex_bill(one) for one in client.stub.bills]
    return {"home": str(client.codex_home), "turns": turns, "billed": bill}


def _codex_bill(row: Turn) -> Turn:
    used = row["usage"]
    details = used.get("input_tokens_details") or {}
    cached, written = details.get("cached_tokens", 0), details.get("cache_write_tokens", 0)
    return {
        "kind": "main",
        "model": row["model"],
        "input": used["input_tokens"] - cached - written,
        "cache_read": cached,
        "cache_write": written,
        "output": used["output_tokens"],
    }


def _opencode(wish: Turn) -> Turn:
    from oc_client import OpenCode, step_prompt  # type: ignore[import-not-found]
    from stub import Stub  # type: ignore[import-not-found]

    stub = Stub().start()
    client = OpenCode(wish["program"], Path(wish["root"], "home"), wish["cwd"], stub.port)
    turns, session = [], None
    for turn in wish["turns"]:
        asked = len(stub.requests)
        words = step_prompt(turn["prompt"], *turn["steps"]) if turn.get("steps") else turn["prompt"]
        known = turn.get("session") or (session if turn.get("resume") else None)
        code, session, events, err = client.ask(words, *(("--session", known) if known else ()))
        turns.append(_told(code, f"{events[-1:]} {err}", session or known, _main_calls(stub, asked)))
    return {"home": str(client.data), "turns": turns, "billed": _billed(stub)}


def _node_client(wish: Turn) -> Turn:
    from gem_client import Gemini, step_prompt  # type: ignore[import-not-found]
    from stub import Stub

    stub = Stub().start()
    model = "gemini-2.5-pro" if wish["agent"] == "gemini" else "qwen3-coder-plus"
    client = Gemini(
        wish["program"], Path(wish["root"], "home"), wish["cwd"], stub.port, kind=wish["agent"], model=model
    )
    turns, session = [], str(uuid.uuid4())
    for turn in wish["turns"]:
        asked = len(stub.requests)
        words = step_prompt(turn["prompt"], *turn["steps"]) if turn.get("steps") else turn["prompt"]
        named = "--resume" if turn.get("resume") or turn.get("session") else "--session-id"
        session = turn.get("session") or session
        args = ("-p", words, "-o", "json", "-m", model, "--yolo", named, session)
        code, out, err = client.run(*args)
        turns.append(_told(code, out + err, session, _main_calls(stub, asked)))
    return {"home": str(client.dot), "turns": turns, "billed": _billed(stub)}


def _told(code: object, said: str, session: str | None, sent: list[Turn]) -> Turn:
    return {"exit": code, "said": said[-2000:], "session": session, "sent": sent}


def _main_calls(stub: Any, start: int) -> list[Turn]:
    """What was asked in the conversation itself: no titles, summaries and other side calls."""
    return [one["body"] for one in stub.requests[start:] if one["kind"] == "main"]


def _billed(stub: Any) -> list[Turn]:
    return [
        {
            "kind": one["kind"],
            "model": one["model"],
            "input": one["usage"]["input"],
            "cache_read": one["usage"]["cache_read"],
            "cache_write": one["usage"]["cache_write"],
            "output": one["usage"]["output"] + one["usage"]["reasoning"],
        }
        for one in stub.billed
    ]


_ROOMS = {"codex": _codex, "opencode": _opencode, "gemini": _node_client, "qwen": _node_client}

if __name__ == "__main__":
    main()
