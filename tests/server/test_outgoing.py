"""What is sent to readers: the same bytes whatever the pieces, within the budget, and nothing stays held."""

from __future__ import annotations

import asyncio

import pytest

from tests.server.world import World, after, in_a_world, prompt


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


@pytest.mark.parametrize("path", ["/v1/sessions/s1/log", "/v1/sessions/s1/file"])
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
    assert made.service.budget.used == 0
