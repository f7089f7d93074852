"""What is sent to readers: the same bytes whatever the pieces, within the budget, and nothing stays held."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode

import pytest

from recollect.server.bodies import PIECE, event_pieces
from tests.server.world import World, after, in_a_world, prompt

PLACE = "3:" + "0" * 64


@pytest.mark.parametrize(
    "data",
    [
        b"one\n",
        b'quotes " and \\ and \x00 and \x7f\r\n',
        "é😀".encode() + b"\n",
        b"x" * (PIECE - 1) + "é😀".encode() * PIECE + b"\n",
        b"x" * (PIECE - 2) + "😀".encode() + b'"\n',
        b"x" * PIECE + b"\xff\n",
        "😀".encode()[:3] + b"\n",
        b"x" * (3 * PIECE),
        b"x" * PIECE + "😀".encode()[:2],
    ],
    ids=range(9),
)
def test_an_event_says_the_same_in_any_number_of_pieces(data: bytes) -> None:
    """Text where it is text, base64 where it is not; characters that lie across two pieces stay whole."""
    pieces = list(event_pieces(PLACE, data))
    name, event, told, *rest = b"".join(pieces).split(b"\n")
    document = json.loads(told.removeprefix(b"data: "))
    found = document["text"].encode() if "text" in document else b64decode(document["base64"])
    assert [name, event, rest] == [b"id: " + PLACE.encode(), b"event: lines", [b"", b""]]
    assert (document["position"], found, "text" in document) == (PLACE, data, _is_text(data))
    assert max(map(len, pieces)) < 8 * PIECE


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@in_a_world()
async def test_large_segments_are_read_from_any_line(made: World) -> None:
    """From the start, from within a large segment, and across small and large ones; afterwards nothing is held."""
    parts = [prompt("small"), prompt("a" * 1_500_000) + prompt("b"), prompt("c"), prompt("d" * 2_000_000)]
    lines = b"".join(parts).splitlines(keepends=True)
    written = b""
    for part in parts:
        assert (await made.put("s1", part, after(written))).status_code == 200
        written += part
    found = [(await made.read("s1", after=str(number))).content for number in range(len(lines) + 1)]
    assert found == [b"".join(lines[number:]) for number in range(len(lines) + 1)]
    assert made.service.budget.used == 0


@pytest.mark.parametrize("path", ["/v1/sessions/s1/log", "/v1/sessions/s1/file", "/v1/sessions/s1/events"])
@in_a_world(databases=("sqlite",))
async def test_a_reader_who_is_gone_before_the_answer_leaves_nothing_held(made: World, path: str) -> None:
    """The connection ended while the answer was looked for: no share of the budget stays behind."""
    await made.put("s1", prompt("x" * 100_000))
    await made.ask("PUT", "/v1/sessions/s1/file", params={"key": "f"}, content=b"x" * 100_000)

    async def receive() -> dict[str, object]:
        return {"type": "http.disconnect"}

    async def send(_: object) -> None:
        await asyncio.sleep(0)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "method": "GET",
        "path": path,
        "query_string": b"key=f" if path.endswith("file") else b"",
        "headers": [(b"authorization", f"Bearer {made.token}".encode())],
        "client": ("127.0.0.1", 1),
        "root_path": "",
    }
    await made.app(scope, receive, send)
    assert [made.service.budget.used, made.service.metrics.value("followers")] == [0, 0]
