"""Runs a real client in a world of its own: a private HOME, a dummy key, and a Messages API made of loopback.

``RECOLLECT_CLIENTS`` names a directory with one sub-directory per version, each
holding what the vendor's package of that version holds::

    <dir>/2.0.76/cli.js        run with node
    <dir>/2.1.197/claude       a program of its own
    <dir>/2.1.325/claude

Nothing of this process's environment reaches the client but PATH, and nothing
of the client reaches the network: its API is the stub below, and every other
address is sent to a proxy port of the loopback where nobody listens.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from recollect.model.project_key import project_key

ANSWER = "The stub has heard you."
RUN_SECONDS = 300


class ApiStub(ThreadingHTTPServer):
    """Answers every model call with one short text and remembers what was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[dict[str, Any]] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def conversations(self) -> list[list[dict[str, Any]]]:
        """What was sent with tools on offer: the talk itself, not titles and other side questions."""
        return [body["messages"] for body in self.asked if body.get("tools")]

    def reply_to(self, body: dict[str, Any]) -> dict[str, Any]:
        """The message that answers the newest request."""
        return _message(body.get("model", "claude-stub"), len(self.asked))

    def events(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        """The stream that leads to a message."""
        return _events(message)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up early is no fault of ours."""


@contextlib.contextmanager
def running_stub(stub: ApiStub | None = None) -> Iterator[ApiStub]:
    stub = stub or ApiStub()
    thread = threading.Thread(target=stub.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield stub
    finally:
        stub.shutdown()
        thread.join()
        stub.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: ApiStub

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        pass

    def do_HEAD(self) -> None:
        self._reply({})

    def do_GET(self) -> None:
        self._reply({"type": "error", "error": {"type": "not_found_error", "message": "stub"}}, status=404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", "0"))) or b"{}")
        path = self.path.split("?")[0]
        if path == "/v1/messages/count_tokens":
            self._reply({"input_tokens": 1})
        elif path != "/v1/messages":
            self.do_GET()
        else:
            self.server.asked.append(body)
            message = self.server.reply_to(body)
            self._stream(message) if body.get("stream") else self._reply(message)

    def _reply(self, value: object, status: int = 200) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _stream(self, message: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for event in self.server.events(message):
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())


def _message(model: str, number: int) -> dict[str, Any]:
    return {
        "id": f"msg_heard{number:04d}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "text", "text": ANSWER}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 5,
            "output_tokens": 6,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
        },
    }


def _events(message: dict[str, Any]) -> list[dict[str, Any]]:
    """A finished message as the stream that would have led to it."""
    begun = {**message, "content": [], "stop_reason": None}
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    return [
        {"type": "message_start", "message": begun},
        *(event for index, block in enumerate(message["content"]) for event in _block_events(index, block)),
        {"type": "message_delta", "delta": end, "usage": message["usage"]},
        {"type": "message_stop"},
    ]


def _block_events(index: int, block: dict[str, Any]) -> list[dict[str, Any]]:
    if block["type"] == "text":
        empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
    elif block["type"] == "thinking":
        empty = {**block, "thinking": ""}
        delta = {"type": "thinking_delta", "thinking": block["thinking"]}
    else:
        empty, delta = (
            {**block, "input": {}},
            {"type": "input_json_delta", "partial_json": json.dumps(block["input"])},
        )
    return [
        {"type": "content_block_start", "index": index, "content_block": empty},
        {"type": "content_block_delta", "index": index, "delta": delta},
        {"type": "content_block_stop", "index": index},
    ]


class Client:
    """One version of the client, one HOME, one working directory."""

    def __init__(self, version: str, command: list[str], root: Path, stub: ApiStub) -> None:
        self.version = version
        self.stub = stub
        self.cwd = root / "work"
        self._command = command
        self._home = root / "home"
        for directory in (self.cwd, self._home / "tmp"):
            directory.mkdir(parents=True)
        self.cwd = self.cwd.resolve()

    @property
    def config(self) -> Path:
        """Its configuration root."""
        return self._home / ".claude"

    def put(self, session_id: str, lines: list[bytes]) -> Path:
        """Store a session where the client looks for those of its working directory."""
        directory = self.config / "projects" / project_key(str(self.cwd))
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{session_id}.jsonl"
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        path.chmod(0o600)
        return path

    def ask(self, prompt: str, *options: str) -> subprocess.CompletedProcess[str]:
        """One run in print mode."""
        return self.started("-p", prompt, *options)

    def started(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Any run; ends by itself, or is ended after some minutes with all its children."""
        process = subprocess.Popen(
            [*self._command, *words],
            cwd=self.cwd,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=RUN_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            err += f"\nended after {RUN_SECONDS} s"
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def _environment(self) -> dict[str, str]:
        return environment(self._home, self.stub.address)


def environment(home: Path, address: str) -> dict[str, str]:
    """Everything a client knows of this machine: its own HOME, and the stub's address as its API."""
    nowhere = "http://127.0.0.1:9"
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "ANTHROPIC_API_KEY": "dummy-key",
        "ANTHROPIC_BASE_URL": address,
        "HTTP_PROXY": nowhere,
        "HTTPS_PROXY": nowhere,
        "NO_PROXY": "127.0.0.1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_TMPDIR": str(home / "tmp"),
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_AUTOUPDATER": "1",
        # A run is over before collecting its garbage pays: a seventh of its time.
        "BUN_JSC_useGC": "0",
    }
