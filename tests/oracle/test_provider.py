"""Real clients go on with what the storage provider has logged."""

from __future__ import annotations

import asyncio

from recollect.provider import ChatMessage, ClaudeStorageProvider
from tests.oracle.client_runner import Client
from tests.oracle.what_is_sent import NEW_PROMPT, before_the_prompt
from tests.talk import SONNET, call, result

SESSION = "6a0e4f0c-7a58-4f0e-9d43-2f6d1f1b7c44"
TALK = [
    ChatMessage(role="user", content="Q1"),
    ChatMessage(role="assistant", content=[{"type": "text", "text": "Looking"}, call("t1")], model=SONNET),
    ChatMessage(role="user", content=[result("t1", "found")]),
    ChatMessage(role="system", content="A note that is not sent"),
    ChatMessage(role="assistant", content="A1", model=SONNET),
]


async def logged(client: Client) -> None:
    """Write the talk into the client's own home, and a sub-agent's talk beside it."""
    provider = ClaudeStorageProvider(client.config)
    for message in TALK:
        await provider.log_message(client.cwd, message, SESSION)
    aside = ChatMessage(role="user", content="Only for the agent")
    await provider.log_message(client.cwd, aside, SESSION, agent_id="a753668")
    await provider.close()


def test_a_client_resumes_what_the_provider_logged(client: Client) -> None:
    """Prompts, a call with its result and an answer arrive; the note and the sub-agent's words do not."""
    asyncio.run(logged(client))
    client.ask(NEW_PROMPT, "--resume", SESSION)
    sent = before_the_prompt(client.stub.conversations()[0])

    assert ["user", "assistant", "user", "assistant"] == [message["role"] for message in sent]
    assert ["Looking", "A1"] == [
        block["text"] for message in sent[1::2] for block in message["content"] if block["type"] == "text"
    ]
    assert "Only for the agent" not in str(sent)
