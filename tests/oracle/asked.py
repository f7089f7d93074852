"""A log given to client 2.1.325: the lists of messages that its request allows, and our own list."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from recollect.ask.library import Home
from recollect.errors import NotFound
from tests.oracle.client_runner import Client, running_stub
from tests.oracle.conftest import command_of
from tests.oracle.what_is_sent import NEW_PROMPT, Messages, as_blocks, possible

SESSION = "5f0e4f0c-7a58-4f0e-9d43-2f6d1f1b7c22"
VERSION = "2.1.325"


def ours(log: bytes) -> Messages | None:
    """What we say the client would send; None where it would find no conversation."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "claude" / "projects" / "-srv-app" / f"{SESSION}.jsonl"
        path.parent.mkdir(parents=True)
        path.write_bytes(log)
        try:
            return as_blocks(Home(path.parents[2]).session(str(path)).conversation().to_api())
        except NotFound:
            return None


def theirs(log: bytes) -> list[Messages | None]:
    """Every list that the client's request allows; None where it finds no conversation."""
    with tempfile.TemporaryDirectory() as place, running_stub() as stub:
        client = Client(VERSION, command_of(VERSION), Path(place) / "client", stub)
        client.put(SESSION, []).write_bytes(log)
        client.ask(NEW_PROMPT, "--resume", SESSION)
        talks: list[list[dict[str, Any]]] = stub.conversations()
    return list(possible(talks[0])) if talks else [None]
