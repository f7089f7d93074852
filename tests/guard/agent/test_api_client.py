"""The Messages API through the official SDK, against a server of the loopback that fails on command."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from recollect.errors import UsageError, install_hint
from recollect.guard.agent.model import ApiClient, ApiFailed, Cancelled, ModelResponse, connected
from recollect.model.lines.blocks import CacheCreation, Usage
from tests.guard.agent.workshop import scripted_api


@pytest.fixture
def stub() -> Iterator[Any]:
    with scripted_api() as server:
        yield server


@pytest.fixture
def api(stub: Any) -> Iterator[ApiClient]:
    client = client_of(f"http://127.0.0.1:{stub.port}")
    yield client
    client.close()


def client_of(address: str) -> ApiClient:
    import anthropic  # takes a second, in every process that only collects this file

    return ApiClient(anthropic.Anthropic(api_key="dummy-key", base_url=address, max_retries=0))


def ask(api: ApiClient, *steps: dict[str, Any], cancelled: threading.Event | None = None) -> ModelResponse:
    request = {
        "model": "claude-sonnet-5-5",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": f"STUB:{json.dumps(list(steps))}"}],
    }
    return api.ask(request, cancelled or threading.Event())


def test_an_answer_comes_back_as_plain_data(api: ApiClient) -> None:
    """Thinking with its signature, text, call; ids; every count of tokens."""
    tools = [{"name": "Bash", "input": {"command": "ls", "deep": {"a": [1, None]}}, "id": "toolu_1"}]

    answer = ask(api, {"thinking": "hm", "text": "I look.", "tools": tools})

    assert (
        ModelResponse(
            id="msg_stub000001",
            model="claude-sonnet-5-5",
            content=[
                {"type": "thinking", "thinking": "hm", "signature": "c3R1Yi1zaWduYXR1cmU="},
                {"type": "text", "text": "I look."},
                {
                    "type": "tool_use",
                    "id": "toolu_1",
                    "name": "Bash",
                    "input": {"command": "ls", "deep": {"a": [1, None]}},
                },
            ],
            stop_reason="tool_use",
            usage=Usage(
                input_tokens=11,
                output_tokens=7,
                cache_creation_input_tokens=300,
                cache_read_input_tokens=2000,
                cache_creation=CacheCreation(100, 200),
                service_tier="standard",
            ),
            request_id="req_stub000001",
        )
        == answer
    )


@pytest.mark.parametrize(
    ("status", "again"),
    [(400, False), (401, False), (404, False), (408, True), (429, True), (500, True), (529, True)],
)
def test_a_failure_says_whether_asking_again_helps(api: ApiClient, status: int, again: bool) -> None:
    """Overload and faults of the server pass; a wrong request stays wrong."""
    with pytest.raises(ApiFailed) as caught:
        ask(api, {"error": {"status": status, "type": "some_error", "message": "stub says no"}})

    failure = caught.value
    assert (f"{status} stub says no", again, status, "some_error", "req_stub000001") == (
        failure.message,
        failure.again,
        failure.status,
        failure.kind,
        failure.request_id,
    )


def test_a_stream_that_breaks_off_is_no_answer(api: ApiClient) -> None:
    """Half an answer is not taken for a whole one."""
    with pytest.raises(ApiFailed) as caught:
        ask(api, {"text": "only the first half", "cut": True})

    assert caught.value.again


def test_half_a_character_does_not_reach_the_log(api: ApiClient) -> None:
    """JSON can spell it, no file can hold it."""
    answer = ask(api, {"text": "a\ud800b"})

    assert [{"type": "text", "text": "a\ufffdb"}] == answer.content


def test_nobody_at_the_address_is_a_failure_to_repeat() -> None:
    """A refused connection may be a server that is starting."""
    api = client_of("http://127.0.0.1:9")
    try:
        with pytest.raises(ApiFailed) as caught:
            ask(api, {"text": "x"})
    finally:
        api.close()

    assert (True, None) == (caught.value.again, caught.value.status)


def test_a_stop_does_not_wait_for_the_answer(api: ApiClient) -> None:
    """The server takes its time; we do not."""
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    began = time.monotonic()

    with pytest.raises(Cancelled):
        ask(api, {"text": "late", "delay": 600}, cancelled=stop)

    assert time.monotonic() - began < 300


@pytest.mark.parametrize("name", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"])
def test_without_a_key_nothing_is_asked(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The message says what to set; either of the two will do."""
    for one in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(one, raising=False)

    with pytest.raises(UsageError, match="no key") as caught:
        connected()

    assert "ANTHROPIC_API_KEY" in caught.value.hint
    monkeypatch.setenv(name, "dummy-key")
    connected().close()


def test_a_client_made_of_the_environment_asks_there(stub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Key and address as the environment has them."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "dummy-key")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", f"http://127.0.0.1:{stub.port}")
    api = connected()
    answer = ask(api, {"text": "here"})
    api.close()

    assert [{"type": "text", "text": "here"}] == answer.content


def test_who_was_stopped_while_the_sdk_was_imported_asks_nothing(
    stub: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The question must not go out after the person said no."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "dummy-key")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", f"http://127.0.0.1:{stub.port}")
    api = connected()
    api.close()
    with pytest.raises(Cancelled):
        ask(api, {"text": "too late"})

    assert [] == stub.requests


def test_an_sdk_that_cannot_be_imported_is_told_like_a_missing_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half an installation: it is found, and breaks when it is used."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "dummy-key")
    api = connected()
    monkeypatch.setitem(sys.modules, "anthropic", None)

    with pytest.raises(UsageError, match="anthropic"):
        ask(api, {"text": "nobody hears"})


def test_without_the_sdk_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clear sentence instead of a traceback."""
    monkeypatch.setitem(sys.modules, "anthropic", None)

    with pytest.raises(UsageError, match="anthropic") as caught:
        connected()

    assert caught.value.hint == install_hint("agent")
