"""The loader's three jobs: titles only, a page of messages, all messages as a stream."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.model.lines.entry import Entry
from recollect.model.lines.ids import SessionId
from recollect.store.logs.reader import LogReader
from recollect.store.logs.summary import ConversationLoader

SESSION = SessionId("11111111-2222-3333-4444-555555555555")


def entry(kind: str, **fields: object) -> bytes:
    return json.dumps({"type": kind, **fields}, separators=(",", ":")).encode() + b"\n"


def message(number: int, size: int = 10) -> bytes:
    return entry("user", uuid=f"u{number}", message={"content": "x" * size})


TITLE = entry("custom-title", customTitle="T")
BETWEEN = [b"", b"\n", b"bad\n", TITLE, entry("mode", mode="normal"), entry("brand-new", field=1)]


def loader_for(directory: Path) -> ConversationLoader:
    return ConversationLoader(lambda session: directory / f"{session}.jsonl")


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    return tmp_path / f"{SESSION}.jsonl"


def ids(entries: list[Entry]) -> list[str | None]:
    return [entry.uuid for entry in entries]


def test_titles_and_summaries_come_in_the_order_of_the_log(tmp_path: Path, log_file: Path) -> None:
    """All of them, from the first line to the last, and nothing else."""
    wanted = [
        entry("summary", summary="Old", leafUuid="l"),
        entry("custom-title", customTitle="Mine"),
        entry("summary", content={"summary": "Another writer's", "messageCount": 3}),
        entry("ai-title", aiTitle="Generated"),
        entry("custom-title", customTitle=""),
    ]
    nested = entry("progress", uuid="p", data={"type": "custom-title", "customTitle": "Nested"})
    log_file.write_bytes(message(1, 200_000).join(wanted) + entry("tag", tag="t") + nested + message(2))

    found = loader_for(tmp_path).load_summary(SESSION)

    assert wanted == [entry.raw + b"\n" for entry in found]


@given(
    between=st.lists(st.sampled_from(BETWEEN), min_size=0, max_size=12),
    offset=st.integers(-15, 15),
    limit=st.integers(0, 15),
)
def test_a_page_of_messages_is_a_slice(between: list[bytes], offset: int, limit: int, tmp_path: Path) -> None:
    """Offset and limit count messages only, from either end, as ``messages[offset:][:limit]`` would."""
    parts = [message(number) + other for number, other in enumerate(between)]
    (tmp_path / f"{SESSION}.jsonl").write_bytes(b"".join(parts) + b'{"type":"user","uuid":"torn"')

    found = loader_for(tmp_path).load_messages(SESSION, offset, limit)

    assert [f"u{number}" for number in range(len(between))][offset:][:limit] == ids(found)


def test_every_kind_of_link_is_a_message(tmp_path: Path, log_file: Path) -> None:
    """All chain entries count, also of unknown type if they have an id; metadata does not."""
    links = [
        message(1),
        entry("assistant", uuid="a", message={"content": []}),
        entry("system", uuid="s", subtype="informational"),
        entry("attachment", uuid="t", attachment={"type": "date"}),
        entry("progress", uuid="p", data={}),
        entry("brand-new", uuid="n"),
        entry("user", uuid="odd", message=5),
        entry("tool_call", tool="Bash", arguments={}),
    ]
    log_file.write_bytes(TITLE.join(links))

    found = list(loader_for(tmp_path).stream_messages(SESSION))

    assert links == [entry.raw + b"\n" for entry in found]


def test_streaming_real_sessions_gives_their_chain(log_homes: Path) -> None:
    """Of real logs, exactly the lines with an id are messages, in the order of the file."""
    logs = sorted(log_homes.glob("corpus/*/projects/**/*.jsonl"))
    assert logs
    where = {SessionId(f"s{number}"): log for number, log in enumerate(logs)}
    loader = ConversationLoader(where.__getitem__)
    for session, log in where.items():
        read = (item for item in LogReader(log) if isinstance(item, Entry))
        expected = [entry.raw for entry in read if entry.fields().get("uuid")]

        assert expected == [entry.raw for entry in loader.stream_messages(session)], log
