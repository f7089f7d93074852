"""The protocol: what clients send first, what they send wrong, and the official SDK as a client."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, TextIO

import pytest

from recollect.share.mcp.protocol import McpService
from recollect.share.mcp.tools import ABOUT, LISTING
from tests.share.mcp.past import CART, SHOP, past, tools

RECOLLECT = [sys.executable, "-P", "-m", "recollect"]


def service() -> McpService:
    return McpService("recollect", LISTING, {"recall": lambda given: (json.dumps(given), False)}, ABOUT)


def answered(message: Any) -> dict[str, Any] | None:
    data = service().answer(message if isinstance(message, bytes) else json.dumps(message).encode())
    return None if data is None else json.loads(data)


def request(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}


def test_a_client_that_discovers_first_is_sent_on_to_initialize() -> None:
    answer = answered(request("server/discover"))
    assert answer is not None
    assert answer["error"]["code"] == -32601
    assert answer["id"] == 7


@pytest.mark.parametrize(
    ("asked", "given"), [("2025-06-18", "2025-06-18"), ("2099-01-01", "2025-11-25"), (None, "2025-11-25")]
)
def test_a_known_version_of_the_protocol_is_taken(asked: str | None, given: str) -> None:
    answer = answered(request("initialize", protocolVersion=asked))
    assert answer is not None
    assert answer["result"]["protocolVersion"] == given
    assert answer["result"]["capabilities"] == {"tools": {}}


def test_both_tools_ask_to_be_loaded_always_and_say_that_they_only_read() -> None:
    answer = answered(request("tools/list"))
    assert answer is not None
    for tool in answer["result"]["tools"]:
        assert tool["_meta"] == {"anthropic/alwaysLoad": True}
        assert tool["annotations"]["readOnlyHint"] is True
    assert [tool["name"] for tool in answer["result"]["tools"]] == ["recall", "read"]


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b"{", -32700),
        (b"\xff\xfe", -32700),
        ([request("ping")], -32600),
        ({"id": 1}, -32600),
        (request("resources/list"), -32601),
        (request("tools/call", name="write"), -32602),
        (request("tools/call", name="recall", arguments=[1]), -32602),
    ],
)
def test_what_is_wrong_is_an_error_and_not_an_end(message: Any, code: int) -> None:
    answer = answered(message)
    assert answer is not None
    assert answer["error"]["code"] == code


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}},
        {"jsonrpc": "2.0", "id": 3, "result": {}},
        {"jsonrpc": "2.0", "id": None, "method": "ping"},
    ],
)
def test_notifications_and_answers_are_not_answered(message: dict[str, Any]) -> None:
    assert answered(message) is None


def test_the_sdk_understands_every_answer(tmp_path: Path) -> None:
    """The official client starts the program, lists the tools and calls both."""
    anyio = pytest.importorskip("anyio")
    mcp = pytest.importorskip("mcp")
    from mcp.client.stdio import stdio_client

    past(tmp_path / "home")
    tools(tmp_path / "home")  # builds the index
    options = [
        "mcp",
        "serve",
        "--home",
        str(tmp_path / "home"),
        "--data",
        str(tmp_path / "data"),
        "--project",
        SHOP,
    ]
    program = mcp.StdioServerParameters(command=RECOLLECT[0], args=[*RECOLLECT[1:], *options], env={})

    async def talked() -> tuple[list[str], str, str, bool]:
        # Its default is the stderr of the moment it was imported, which may be that of another test.
        with (tmp_path / "stderr").open("w") as errors:
            return await asked(errors)

    async def asked(errors: TextIO) -> tuple[list[str], str, str, bool]:
        async with stdio_client(program, errors) as streams, mcp.ClientSession(*streams) as session:
            await session.initialize()
            listed = await session.list_tools()
            found = await session.call_tool("recall", {"question": "rounding of prices"})
            text = found.content[0].text
            handle = text.split("handle ")[1].split()[0]
            around = await session.call_tool("read", {"handle": handle})
            wrong = await session.call_tool("read", {"handle": "nothing"})
            return [tool.name for tool in listed.tools], text, around.content[0].text, bool(wrong.is_error)

    names, text, around, is_wrong = anyio.run(talked)
    assert names == ["recall", "read"]
    assert CART in text
    assert "rounding is exact" in around
    assert is_wrong
