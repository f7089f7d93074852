"""JSON-RPC over standard input and output, one message a line, one at a time; ends with its client.

A client that is killed closes the pipe, which ends the loop at once, also in the middle of a message. Where another
process still holds the pipe open, the parent's process number tells: it changes when the parent is gone.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import msgspec

from recollect.version import __version__

ToolFunction = Callable[[dict[str, Any]], tuple[str, bool]]
"""Takes arguments; gives a text, and whether it is an error."""

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS = -32700, -32600, -32601, -32602
_LONGEST_MESSAGE = 1 << 20
_PIECE = 1 << 16
# server/discover, initialize, initialized, tools/list
_MESSAGES_OF_START = 3
# Milliseconds between two looks at the parent.
_LOOK = 2_000


class McpService:
    """Answers the messages of one client."""

    def __init__(
        self, name: str, listing: list[dict[str, Any]], tools: dict[str, ToolFunction], about: str
    ) -> None:
        self._name, self._listing, self._tools, self._about = name, listing, tools, about

    def answer(self, line: bytes) -> bytes | None:
        """The answer to one message; None where none is due."""
        try:
            message = msgspec.json.decode(line)
        except RecursionError:
            return _error(None, PARSE_ERROR, "nested too deep")
        except (msgspec.DecodeError, UnicodeDecodeError):
            return _error(None, PARSE_ERROR, "not JSON")
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            is_answer = isinstance(message, dict) and ("result" in message or "error" in message)
            return None if is_answer else _error(None, INVALID_REQUEST, "not a request")
        number = message.get("id")
        if "id" not in message or not isinstance(number, (str, int)):
            return None  # a notification
        params = message.get("params")
        return self._reply(number, message["method"], params if isinstance(params, dict) else {})

    def _reply(self, number: str | int, method: str, params: dict[str, Any]) -> bytes:
        if method == "initialize":
            return _result(number, self._initialized(params))
        if method == "ping":
            return _result(number, {})
        if method == "tools/list":
            return _result(number, {"tools": self._listing})
        if method == "tools/call":
            tool = self._tools.get(str(params.get("name")))
            arguments = params.get("arguments")
            if tool is None or not isinstance(arguments, dict | None):
                return _error(
                    number, INVALID_PARAMS, "no such tool" if tool is None else "arguments: not an object"
                )
            text, is_error = tool(arguments or {})
            return _result(number, {"content": [{"type": "text", "text": text}], "isError": is_error})
        # A client that asks ``server/discover`` first takes this as: begin with ``initialize``.
        return _error(number, NO_METHOD, "no such method")

    def _initialized(self, params: dict[str, Any]) -> dict[str, Any]:
        asked = params.get("protocolVersion")
        return {
            "protocolVersion": asked if asked in VERSIONS else VERSIONS[0],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": self._name, "version": __version__},
            "instructions": self._about,
        }


def serve(service: McpService, ready: Callable[[], None], source: int, target: BinaryIO) -> None:
    """Answer until the client is gone. ``ready`` is called once, when the client is no longer waiting for the start."""
    try:
        for number, line in enumerate(_lines(source)):
            answer = service.answer(line) if line.strip() else None
            if answer is not None:
                target.write(answer + b"\n")
                target.flush()
            if number == _MESSAGES_OF_START:
                ready()
    except (BrokenPipeError, ConnectionError):
        return


def _lines(source: int) -> Iterator[bytes]:
    parent, rest = os.getppid(), b""
    waiting = select.poll()
    waiting.register(source, select.POLLIN | select.POLLHUP)
    while True:
        if not waiting.poll(_LOOK):
            if os.getppid() != parent:
                return
            continue
        piece = os.read(source, _PIECE)
        if not piece:
            return
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
        if len(rest) > _LONGEST_MESSAGE:
            return  # no client sends that


def _result(number: str | int, result: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "id": number, "result": result})


def _error(number: str | int | None, code: int, message: str) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}})
