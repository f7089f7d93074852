"""The Messages API through the official SDK: one request, one response, or a failure that says whether to
retry.

Key and address come only from the environment: settings of a repository cannot send the conversation to
another host (E02). The SDK takes two seconds to import, so it is imported with the first request, which
can be cancelled meanwhile. Its own retries are off, because each failure is logged.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import queue
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from recollect.errors import MissingExtra, UsageError
from recollect.model.cost.usage import Usage

if TYPE_CHECKING:
    import anthropic

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
        answers: queue.SimpleQueue[ModelResponse | Exception] = queue.SimpleQueue()
        thread = threading.Thread(
            target=self._attempt, args=(request, answers), name="recollect-api", daemon=True
        )
        thread.start()
        while True:
            with contextlib.suppress(queue.Empty):
                found = answers.get(timeout=0.05)
                if isinstance(found, Exception):
                    raise found
                return found
            if cancelled.is_set():
                self.close()
                raise Cancelled

    def close(self) -> None:
        self._closed = True
        if self._client is not None and not self._is_shared:
            self._client.close()

    def _attempt(
        self, request: Mapping[str, Any], answers: queue.SimpleQueue[ModelResponse | Exception]
    ) -> None:
        try:
            answers.put(self._asked(request))
        except Exception as problem:  # noqa: BLE001 - passed to the waiting thread
            answers.put(problem)

    def _asked(self, request: Mapping[str, Any]) -> ModelResponse:
        try:
            import anthropic
        except ImportError as cause:
            raise _no_sdk() from cause
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
    if not _installed():
        raise _no_sdk()
    if not os.environ.get("ANTHROPIC_API_KEY") and not os.environ.get("ANTHROPIC_AUTH_TOKEN"):
        raise UsageError(
            "no key for the Messages API",
            hint="set ANTHROPIC_API_KEY (and ANTHROPIC_BASE_URL for another address)",
        )
    return ApiClient()


def _no_sdk() -> MissingExtra:
    return MissingExtra("the agent", "anthropic", "agent")


def _installed() -> bool:
    """Whether the SDK is installed, without importing it."""
    try:
        return importlib.util.find_spec("anthropic") is not None
    except (ImportError, ValueError):
        return False


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
    return ModelResponse(
        id=str(message["id"]),
        model=str(message["model"]),
        content=[_sent_back(block) for block in message["content"] if not _says_nothing(block)],
        stop_reason=message["stop_reason"],
        usage=usage,
        request_id=request_id,
    )


def _says_nothing(block: Mapping[str, Any]) -> bool:
    """The API sends empty texts but does not accept them back."""
    return block.get("type") == "text" and not block.get("text")


def _sent_back(block: Mapping[str, Any]) -> dict[str, Any]:
    """A block without the fields that the SDK adds and the API refuses."""
    dropped = ("parsed_output", "__json_buf") if block.get("type") in ("text", "tool_use") else ()
    return {name: _sound(value) for name, value in block.items() if name not in dropped and value is not None}


def _sound(value: Any) -> Any:
    """Replace lone surrogates, which JSON can express and no log can hold, as the API does."""
    if isinstance(value, str):
        return _HALF.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_sound(name): _sound(one) for name, one in value.items()}
    return [_sound(one) for one in value] if isinstance(value, list) else value


def _refused(problem: anthropic.APIStatusError) -> ApiFailed:
    body = problem.body if isinstance(problem.body, dict) else {}
    told = body.get("error")
    error = told if isinstance(told, dict) else {}
    text = str(error.get("message") or problem.message)
    status = problem.status_code
    return ApiFailed(
        f"{status} {text}",
        again=status in _AGAIN or status >= 500,
        status=status,
        kind=str(error.get("type")) if error.get("type") else None,
        request_id=problem.request_id,
        wait=_wait(problem.response.headers.get("retry-after")),
    )


def _wait(told: str | None) -> float | None:
    try:
        return max(float(told), 0.0) if told else None
    except ValueError:
        return None
