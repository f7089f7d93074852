"""The JSON documents that several commands print.

Messages are written one a line as they are read, so that a session of any size
costs the memory of one message. Blocks come out as they stand in the log, with
the fields recollect knows nothing of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from recollect.cli.terminal.output import json_bytes
from recollect.model.conversation.conversation import Message
from recollect.model.conversation.node import Node, node_of
from recollect.model.conversation.written_blocks import as_json, content_of, is_said, made_of, text_block
from recollect.model.convert.loss import Loss
from recollect.model.cost.money import exact
from recollect.model.damage import Damage, Line
from recollect.model.entry import Entry
from recollect.services import directory_name
from recollect.services.session import Session
from recollect.storage.logs.reader import read_lines


def conversation_pieces(
    session: str, messages: Iterable[dict[str, object]], total: int, findings: Iterable[Damage]
) -> Iterator[bytes]:
    """The document of ``show --json``, one message a line; ``findings`` are looked for last."""
    yield b'{"session": ' + json_bytes(session) + b',\n"messages": ['
    separator = b"\n"
    for message in messages:
        yield separator + json_bytes(message)
        separator = b",\n"
    yield b'\n],\n"total": ' + json_bytes(total) + b",\n"
    yield b'"findings": ' + json_bytes([finding(damage) for damage in findings]) + b"}\n"


def message(spoken: Message) -> dict[str, object]:
    """One message."""
    return {
        "uuid": spoken.uuid,
        "parent_uuid": spoken.parent_uuid,
        "role": spoken.role,
        "at": spoken.at,
        "blocks": _blocks(spoken),
        "model": spoken.model,
        "usage": spoken.usage,
    }


def _blocks(spoken: Message) -> list[object]:
    if not is_said(spoken):
        return [as_json(block) for block in spoken.blocks]
    return [block for entry in spoken.entries for block in _written(entry)]


def _written(entry: Entry) -> list[object]:
    content = content_of(entry)
    if content is None:
        return [as_json(block) for block in made_of(entry)]
    return [text_block(content)] if isinstance(content, str) else list(content)


def finding(damage: Damage) -> dict[str, object]:
    """One line that cannot be read."""
    return {"code": damage.code, "offset": damage.offset, "what": damage.detail}


def loss(one: Loss) -> dict[str, object]:
    """What a conversion left behind."""
    return {"code": one.code, "what": one.what, "offset": one.offset, "count": one.count}


def session(one: Session, *, agents: int, live: bool, spent: Mapping[str, int | None]) -> dict[str, Any]:
    """One session of ``list --json``. Reads its log for the count; ``spent`` is by model, None without a price."""
    unpriced = sorted(model for model, amount in spent.items() if amount is None)
    seen = one.glance
    document: dict[str, Any] = {
        "id": one.id,
        "project": project_name(one),
        "cwd": seen.cwd,
        "title": one.title,
        "first_at": seen.first_at,
        "last_at": seen.last_at,
        "messages": message_count(one),
        "bytes": one.file.size,
        "agents": agents,
        # Dollars to the last digit; nothing where a model has no known price (law 6).
        "cost_usd": None if unpriced else exact(sum(amount or 0 for amount in spent.values())),
        "live": live,
    }
    if unpriced:
        document["unpriced"] = unpriced
    return document


def project_name(one: Session) -> str:
    """The name of the directory the session worked in; of its log's where it names none."""
    return directory_name.project_name(one.cwd, one.path.parent.name)


def message_count(one: Session) -> int:
    """How many entries of the main conversation somebody says something in; a repeated one counts once."""
    points = (node_of(line) for line in read_lines(one.path) if isinstance(line, Line))
    spoken = (point for point in points if isinstance(point, Node) and point.is_message)
    return len({node.uuid for node in spoken if not node.is_sidechain})
