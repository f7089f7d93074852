"""One directory for a framework's conversations and for the Claude Agent SDK's transcripts.

    python provider_with_sdk_store.py DIRECTORY

A framework that speaks in messages writes through ``ClaudeStorageProvider``; the Agent SDK, given a
``SessionStore`` over the same directory, writes its own lines. Both are ordinary logs in the client's format, so
each reads what the other wrote, and ``recollect --home DIRECTORY`` lists, searches and prices both.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import sys
import uuid
from pathlib import Path
from typing import Any

import recollect
from recollect.provider import ChatMessage, ClaudeStorageProvider
from recollect.sdk import SessionKey, SessionStore

PROJECT = "/srv/shop"


async def from_a_framework(provider: ClaudeStorageProvider, session: str) -> str:
    """What an agent framework does: one call a message, durable when it returns. Gives the id of the last one."""
    await provider.log_message(PROJECT, ChatMessage(role="user", content="How many orders today?"), session)
    answer = ChatMessage(role="assistant", content="Forty-two.", model="claude-sonnet-4-5-20250929")
    return await provider.log_message(PROJECT, answer, session)


async def from_the_sdk(store: SessionStore, key: SessionKey, after: str) -> None:
    """What the Agent SDK does with the store in its options: ``ClaudeAgentOptions(session_store=store)``."""
    # The SDK's entries are opaque to the store: whatever the client wrote.
    entry: Any = {
        "type": "user",
        "uuid": str(uuid.uuid4()),
        "parentUuid": after,
        "sessionId": key["session_id"],
        "timestamp": dt.datetime.now(dt.UTC).isoformat(),
        "message": {"role": "user", "content": "Thanks."},
    }
    await store.append(key, [entry])


async def shown(directory: Path) -> int:
    """Write from both sides, and read it back from both."""
    session = str(uuid.uuid4())
    # The SDK names a project as the client names its directory.
    key: SessionKey = {"project_key": recollect.project_key(PROJECT), "session_id": session}
    store = SessionStore(directory)
    async with ClaudeStorageProvider(base_dir=directory) as provider:
        last = await from_a_framework(provider, session)
        await from_the_sdk(store, key, last)
        for message in await provider.get_session_messages(PROJECT, session):
            print(f"{message.role}: {message.content}")
    entries = await store.load(key)
    await store.close()
    print(f"{len(entries or [])} entries in the SDK's view")
    (found,) = recollect.Home(directory).sessions()
    print(f"{len(found.conversation().messages)} messages for recollect")
    return 0


def main() -> int:
    """Take the directory from the command line."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    return asyncio.run(shown(Path(sys.argv[1])))


if __name__ == "__main__":
    sys.exit(main())
