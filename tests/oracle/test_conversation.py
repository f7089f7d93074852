"""Our conversation is the client's, on random graphs: what it sends is what ``to_api()`` says."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from recollect.ask.library import Home
from recollect.errors import NotFound
from tests.oracle.client_runner import Client, running_stub
from tests.oracle.conftest import command_of
from tests.oracle.graphs import TROUBLE, conversation
from tests.oracle.recorded import recorded
from tests.oracle.what_is_sent import NEW_PROMPT, as_blocks, before_the_prompt, digests
from tests.talk import Fields, encoded

SESSION = "5f0e4f0c-7a58-4f0e-9d43-2f6d1f1b7c22"


@pytest.mark.parametrize("number", range(8))
@pytest.mark.parametrize("trouble", TROUBLE)
def test_random_conversations_are_loaded_as_the_client_loads_them(
    trouble: str, number: int, tmp_path: Path
) -> None:
    """Leaf, order, parallel calls and repairs agree on 64 random logs."""
    name = f"conversation: {trouble} {number}"
    compare(name, conversation(random.Random(name), trouble), tmp_path)


def compare(name: str, lines: list[Fields], place: Path) -> None:
    """What we say the client would send of this log is what it sends."""
    log = place / "claude" / "projects" / "-srv-app" / f"{SESSION}.jsonl"
    log.parent.mkdir(parents=True)
    log.write_bytes(encoded(lines))
    ours = _ours(log)
    theirs = recorded(name, log.read_text(), lambda: _sent(log.read_bytes(), place / "client"))

    assert theirs == ours, "\n".join(json.dumps(line) for line in lines)


def _ours(log: Path) -> list[str] | None:
    try:
        return digests(as_blocks(Home(log.parents[2]).session(str(log)).conversation().to_api()))
    except NotFound:
        return None


def _sent(log: bytes, place: Path) -> list[str] | None:
    with running_stub() as stub:
        client = Client("2.1.325", command_of("2.1.325"), place, stub)
        client.put(SESSION, []).write_bytes(log)
        client.ask(NEW_PROMPT, "--resume", SESSION)
        talks = stub.conversations()
    return digests(before_the_prompt(talks[0])) if talks else None
