"""A message that the codec has read is the same node as one read from its line."""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from recollect.model import codec
from recollect.model.conversation.node import Node, message_node, node_of
from recollect.model.damage import Line
from recollect.model.entry import Assistant, Entry, User
from tests.small_home import TALK, call, lines, outcome, reply

# What means nothing on a message.
LEFT_OUT = {"subtype": None, "compact_metadata": None}


def pairs(data: bytes) -> list[tuple[Node, Node]]:
    """Every message of a log, made both ways."""
    found, offset = [], 0
    for text in data.split(b"\n"):
        line = Line(text, offset)
        offset += len(text) + 1
        entry = codec.decode(line)
        if isinstance(entry, Entry) and not entry.notices and isinstance(entry.body, User | Assistant):
            node = node_of(line)
            if isinstance(node, Node) and entry.body.uuid:
                found.append(
                    (
                        message_node(entry.body, line, entry.body.parent_uuid),
                        structs.replace(node, **LEFT_OUT),
                    )
                )
    return found


def test_made_messages() -> None:
    """Prompts, answers, calls and results, with the marks that a node has."""
    marked = [{**one, "isMeta": True, "isSidechain": True, "isCompactSummary": True} for one in TALK]
    found = pairs(lines([*TALK, *marked, reply(7, 4, call("toolu_1")), outcome(8, 7, "toolu_1", "done")]))

    assert len(TALK) * 2 + 2 == len(found)
    assert any(node.result_ids for node, _ in found)
    assert any(node.has_call for node, _ in found)
    # The summary mark of an answer means nothing.
    assert [
        one if one.type == "user" else structs.replace(one, is_compact_summary=False) for _, one in found
    ] == [node for node, _ in found]


def test_messages_of_real_logs(shared: Path) -> None:
    """Every message of the samples."""
    found = [
        pair for log in sorted((shared / "samples").rglob("*.jsonl")) for pair in pairs(log.read_bytes())
    ]

    assert len(found) > 100
    assert [one for _, one in found] == [node for node, _ in found]
