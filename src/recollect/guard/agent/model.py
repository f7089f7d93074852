"""The model: what it is given (tools, system prompt, MCP servers), and one request to the Messages API.

Key and address come only from the environment: settings of a repository cannot send the conversation to another host
(E02). The SDK takes two seconds to import, so it is imported with the first request, which can be cancelled meanwhile.
Its own retries are off, because each failure is logged.

An MCP server starts when its tools are first requested, and only if it is trusted. The host decides every call again; a
person's approval is passed on for that call only.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import importlib.util
import json
import os
import platform
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from recollect.errors import MissingExtra, RecollectError, UsageError
from recollect.guard.agent.calls import ApprovedCall, PermissionGate, ToolFailed, ToolOutcome, words
from recollect.guard.mcp import Host
from recollect.model.lines.blocks import Usage
from recollect.model.settings.decision import Decision
from recollect.system.locations import HomeRoot

if TYPE_CHECKING:
    import anthropic
    from anyio.from_thread import BlockingPortal

    from recollect.guard.mcp import CallResult, McpLimits, Tool, ToolListing


_SECONDS = 600.0
_HALF = re.compile("[\ud800-\udfff]")
_AGAIN = frozenset([408, 409, 429])


@dataclass(frozen=True, slots=True)
class ModelResponse:
    """One response of the model, as plain data."""

    id: str
    model: str
    content: list[dict[str, Any]]
    stop_reason: str | None
    usage: Usage
    request_id: str | None

    @property
    def text(self) -> str:
        return "\n".join(block["text"] for block in self.content if block.get("type") == "text")


class ApiFailed(Exception):
    """The API did not answer. ``again``: a retry may help."""

    def __init__(
        self,
        message: str,
        *,
        again: bool,
        status: int | None = None,
        kind: str | None = None,
        request_id: str | None = None,
        wait: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message, self.again, self.status = message, again, status
        self.kind, self.request_id, self.wait = kind, request_id, wait


class Cancelled(Exception):
    """The request was cancelled while waiting for the response."""


class ApiClient:
    """Sends requests to the model. Not thread-safe. Without a ``client``, one is made from the
    environment."""

    def __init__(self, client: anthropic.Anthropic | None = None, *, is_shared: bool = False) -> None:
        self._client, self._is_shared = client, is_shared
        self._closed = False

    def another(self) -> ApiClient:
        """One for another thread, over the same connections; closing it does not close them."""
        return ApiClient(self._client, is_shared=self._client is not None)

    def ask(self, request: Mapping[str, Any], cancelled: threading.Event) -> ModelResponse:
        """One attempt. Another thread waits for the response, so that Ctrl-C works at once."""
        answer: Future[ModelResponse] = Future()

        def attempt() -> None:
            try:
                answer.set_result(self._asked(request))
            except Exception as problem:  # noqa: BLE001 - passed to the waiting thread
                answer.set_exception(problem)

        threading.Thread(target=attempt, name="recollect-api", daemon=True).start()
        while not concurrent.futures.wait([answer], timeout=0.05).done:
            if cancelled.is_set():
                self.close()
                raise Cancelled
        return answer.result()

    def close(self) -> None:
        self._closed = True
        if self._client is not None and not self._is_shared:
            self._client.close()

    def _asked(self, request: Mapping[str, Any]) -> ModelResponse:
        try:
            import anthropic
        except ImportError as cause:
            raise MissingExtra("the agent", "anthropic", "agent") from cause
        if self._client is None:
            self._client = anthropic.Anthropic(max_retries=0, timeout=_SECONDS)
        if self._closed:
            raise Cancelled  # while the SDK was imported
        try:
            with self._client.messages.stream(**request) as stream:
                message = stream.get_final_message()
                request_id = stream.response.headers.get("request-id")
        except anthropic.APIStatusError as problem:
            raise _refused(problem) from None
        except anthropic.APIConnectionError as problem:
            raise ApiFailed(f"Connection error: {problem.message}", again=True) from None
        except Exception as problem:
            if not isinstance(
                problem, anthropic.APIError | AssertionError | ValueError | OSError | _transport()
            ):
                raise
            raise ApiFailed(f"The answer was not complete: {type(problem).__name__}", again=True) from None
        if message.stop_reason is None:
            raise ApiFailed("Stream ended before the response was complete", again=True)
        plain = message.to_dict(mode="json", warnings=False)
        return _answer(plain, request_id)


def connected() -> ApiClient:
    if importlib.util.find_spec("anthropic") is None:
        raise MissingExtra("the agent", "anthropic", "agent")
    if not os.environ.get("ANTHROPIC_API_KEY") and not os.environ.get("ANTHROPIC_AUTH_TOKEN"):
        raise UsageError(
            "no key for the Messages API",
            hint="set ANTHROPIC_API_KEY (and ANTHROPIC_BASE_URL for another address)",
        )
    return ApiClient()


def _transport() -> type[Exception]:
    """The exception that the HTTP library below the SDK raises while reading; its name changed once."""
    for name in ("httpx2", "httpx"):
        with contextlib.suppress(ImportError):
            found: type[Exception] = importlib.import_module(name).HTTPError
            return found
    return OSError


def _answer(message: Mapping[str, Any], request_id: str | None) -> ModelResponse:
    try:
        usage = msgspec.convert(message.get("usage") or {}, Usage, strict=False)
    except msgspec.ValidationError:
        usage = Usage()
    content = []
    for block in message["content"]:
        if block.get("type") == "text" and not block.get("text"):
            continue
        # The SDK adds these, and the API refuses them.
        added = ("parsed_output", "__json_buf") if block.get("type") in ("text", "tool_use") else ()
        kept = ((name, value) for name, value in block.items() if name not in added and value is not None)
        content.append({name: _sound(value) for name, value in kept})
    return ModelResponse(
        str(message["id"]), str(message["model"]), content, message["stop_reason"], usage, request_id
    )


def _sound(value: Any) -> Any:
    """Replace lone surrogates, which JSON can express and no log can hold, as the API does."""
    if isinstance(value, str):
        return _HALF.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_sound(name): _sound(one) for name, one in value.items()}
    return [_sound(one) for one in value] if isinstance(value, list) else value


def _refused(problem: anthropic.APIStatusError) -> ApiFailed:
    told = problem.body.get("error") if isinstance(problem.body, dict) else None
    error = told if isinstance(told, dict) else {}
    wait = None
    with contextlib.suppress(ValueError):
        wait = max(float(problem.response.headers.get("retry-after") or "none"), 0.0)
    text = str(error.get("message") or problem.message)
    status = problem.status_code
    return ApiFailed(
        f"{status} {text}",
        again=status in _AGAIN or status >= 500,
        status=status,
        kind=str(error.get("type")) if error.get("type") else None,
        request_id=problem.request_id,
        wait=wait,
    )


_API_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")


BUILT_IN: dict[str, dict[str, Any]] = {
    one["name"]: one for one in json.loads(Path(__file__).with_name("tools.json").read_text("utf-8"))
}


def tool_list(names: Iterable[str], foreign: Iterable[Tool] = ()) -> list[dict[str, Any]]:
    listed = [BUILT_IN[name] for name in names]
    return listed + [
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": {"type": "object", **tool.schema},
        }
        for tool in foreign
        if _API_NAME.fullmatch(tool.name)  # the API refuses a whole request for one invalid name
    ]


def system_prompt(cwd: str, today: str, role: str = "") -> str:
    prompt = words("system_prompt", cwd=cwd, platform=platform.system().lower(), today=today)
    return f"{role}\n\n{prompt}" if role else prompt


class McpTools:
    """MCP servers behind synchronous calls. A context manager: leaving ends every server."""

    def __init__(
        self,
        project: Path,
        gate: PermissionGate,
        *,
        homes: Sequence[HomeRoot],
        data: Path | None = None,
        limits: McpLimits | None = None,
    ) -> None:

        self._gate = gate
        self._approved: set[str] = set()
        self._host: Host = Host(
            project, homes=homes, data=data, engine=self, approve=self._was_approved, limits=limits
        )
        self._open = ExitStack()
        self._portal: BlockingPortal | None = None

    def decide(self, tool: str, arguments: Mapping[str, object]) -> Decision:
        """For the host: the same decision the runner made."""
        return self._gate.decide(tool, arguments, self._gate.root)

    async def _was_approved(self, name: str, arguments: Mapping[str, object], decision: Decision) -> bool:
        return decision.bound_to in self._approved

    def __enter__(self) -> Self:
        from anyio.from_thread import start_blocking_portal

        with ExitStack() as opening:
            self._portal = opening.enter_context(start_blocking_portal())
            opening.enter_context(self._portal.wrap_async_context_manager(self._host))
            self._open = opening.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._portal = None
        self._open.close()

    def listing(self) -> ToolListing:
        """The tools of every trusted server, and why others are missing."""
        return self._loop().call(self._host.tools)

    def offered(self) -> list[Tool]:
        return [tool for tool in self.listing().tools if self._gate.offers(tool.name)]

    def call(self, call: ApprovedCall, cancelled: threading.Event) -> ToolOutcome:
        """Make an allowed call and wait for it; cancelled calls are also cancelled at the server."""
        call.require_still_allowed()
        self._approved.add(call.decision.bound_to)
        future: Future[CallResult] = self._loop().start_task_soon(
            self._host.call, call.tool, dict(call.arguments)
        )
        try:
            while not concurrent.futures.wait([future], timeout=0.05).done:
                if cancelled.is_set():
                    future.cancel()
                    raise Stopped
            return _outcome(future.result())
        except RecollectError as problem:
            raise ToolFailed(problem.message) from problem
        finally:
            self._approved.discard(call.decision.bound_to)

    def _loop(self) -> BlockingPortal:
        if self._portal is None:
            raise ToolFailed("The MCP servers of this project are not open.")
        return self._portal


class Stopped(Exception):
    """The run was cancelled during a call."""


def _outcome(result: CallResult) -> ToolOutcome:
    """As the client stores it: structured content instead of the text, a single text as itself."""
    if result.is_error:
        text = result.text or "The server reported an error."
        return ToolOutcome(text, f"Error: {text}", True)
    if result.structured is not None:
        text = json.dumps(result.structured, separators=(",", ":"), ensure_ascii=False)
        return ToolOutcome(text, text, marks={"mcpMeta": {"structuredContent": result.structured}})
    blocks = [_block(one) for one in result.content]
    return ToolOutcome(blocks or "", blocks or "")


def _block(block: Mapping[str, object]) -> dict[str, Any]:
    """A block the Messages API accepts; other kinds become text."""
    if block.get("type") == "text" and isinstance(block.get("text"), str):
        return {"type": "text", "text": block["text"]}
    data, kind = block.get("data"), block.get("mimeType")
    if block.get("type") == "image" and isinstance(data, str) and isinstance(kind, str):
        return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}
    return {"type": "text", "text": json.dumps(block, ensure_ascii=False)}
