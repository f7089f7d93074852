"""Our conversation is the client's, on random graphs: what it sends is what ``to_api()`` says."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from recollect.errors import NotFound
from recollect.services.homes import Home
from tests.oracle.client_runner import Client, running_stub
from tests.oracle.conftest import command_of
from tests.oracle.graphs import TROUBLE, conversations
from tests.oracle.what_is_sent import NEW_PROMPT, as_blocks, before_the_prompt
from tests.talk import encoded

pytestmark = pytest.mark.slow
SESSION = "5f0e4f0c-7a58-4f0e-9d43-2f6d1f1b7c22"
# Of each kind of trouble; each log is a start of the client.
GRAPHS = 8 if os.environ.get("RECOLLECT_TORTURE") else 2


@pytest.mark.parametrize("trouble", TROUBLE)
@settings(
    max_examples=GRAPHS,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_random_conversations_are_loaded_as_the_client_loads_them(trouble: str, data: st.DataObject) -> None:
    """Leaf, order, parallel calls and repairs agree on random logs."""
    command = command_of("2.1.325")
    lines = data.draw(conversations(trouble))
    with tempfile.TemporaryDirectory() as root, running_stub() as stub:
        client = Client("2.1.325", command, Path(root), stub)
        log = client.put(SESSION, encoded(lines).split(b"\n")[:-1])
        ours = _ours(log)
        client.ask(NEW_PROMPT, "--resume", SESSION)
        talks = stub.conversations()

    theirs = before_the_prompt(talks[0]) if talks else None
    assert theirs == ours, "\n".join(json.dumps(line) for line in lines)


def _ours(log: Path) -> list[dict[str, object]] | None:
    try:
        return as_blocks(Home(log.parents[2]).session(str(log)).conversation().to_api())
    except NotFound:
        return None
