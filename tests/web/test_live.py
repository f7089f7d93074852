"""A real server on a real port: streams, growing logs, a clean end; and memory while somebody scrolls."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from recollect.ask.conversation.content import PageSession
from recollect.ask.conversation.conversation import ConversationView, ViewMessages, talk_of
from recollect.ask.conversation.window import MessageWindow, signature
from recollect.ask.library import Home
from recollect.web import events
from recollect.web.events import first_change, session_events
from tests.small_home import (
    ONE,
    TALK,
    call,
    lines,
    open_in_this_process,
    outcome,
    prompt,
    put,
    reply,
    said,
)
from tests.web.pages import served


@contextlib.contextmanager
def _running(home: Path, data: Path, *more: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """`recollect web` in a process of its own, and what it printed."""
    command = [sys.executable, "-m", "recollect.cli.main", "--home", str(home), "--data", str(data)]
    process = subprocess.Popen(
        [*command, "web", "--no-open", "--json", *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        text = ""
        while not text.rstrip().endswith("}"):
            piece = process.stdout.readline()
            assert piece, process.communicate()[1]
            text += piece
        yield process, json.loads(text)
    finally:
        process.kill()
        process.communicate()


def _client(address: str) -> httpx.Client:
    """A browser that was let in by the printed address."""
    base, _, key = address.partition("/#key=")
    client = httpx.Client(
        base_url=base, headers={"origin": base, "sec-fetch-site": "same-origin"}, timeout=120
    )
    for _ in range(300):
        try:
            token = client.post("/api/login", json={"key": key}).json()["token"]
            break
        except httpx.ConnectError:
            time.sleep(0.05)
    client.headers["x-recollect-token"] = token
    return client


class _Stream:
    """Reads events in a thread, with a connection of its own, and waits for the one that is expected."""

    def __init__(self, like: httpx.Client, path: str) -> None:
        self._found: list[tuple[str, Any]] = []
        self._news = threading.Condition()
        cookies = dict(like.cookies.items())
        self._client = httpx.Client(base_url=like.base_url, headers=like.headers, cookies=cookies, timeout=60)
        self._thread = threading.Thread(target=self._read, args=(path,), daemon=True)
        self._thread.start()

    def _read(self, path: str) -> None:
        with self._client, contextlib.suppress(httpx.HTTPError), self._client.stream("GET", path) as answer:
            name = ""
            for line in answer.iter_lines():
                if line.startswith("event: "):
                    name = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    with self._news:
                        self._found.append((name, json.loads(line.removeprefix("data: "))))
                        self._news.notify_all()

    def ended(self) -> bool:
        """Whether the server has closed it by now."""
        self._thread.join(30)
        return not self._thread.is_alive()

    def next(self, name: str) -> Any:
        """The next event of a kind."""
        with self._news:
            assert self._news.wait_for(lambda: any(one == name for one, _ in self._found), timeout=120)
            place = next(at for at, (one, _) in enumerate(self._found) if one == name)
            return self._found.pop(place)[1]


def test_a_page_is_served_followed_and_ended(home: Path, data: Path) -> None:
    """Printed address, let in, a live append is told, the list notices, Ctrl-C ends it with open streams."""
    with _running(home, data) as (process, printed):
        assert printed["url"].startswith(f"http://127.0.0.1:{printed['port']}/#key=")
        with contextlib.closing(_client(printed["url"])) as client:
            log = next(home.rglob(f"{ONE}.jsonl"))
            talk = _Stream(client, f"/api/sessions/{ONE}/events?after=4")
            listed = _Stream(client, "/api/events")
            assert talk.next("live") == {"live": False}
            assert listed.next("sessions")["changed"] == []
            with log.open("ab") as out:
                out.write(lines([prompt(5, 4, "Q3"), reply(6, 5, said("A3"))]))
            grown = talk.next("grown")
            assert (grown["from"], grown["total"], grown["bytes"]) == (4, 6, log.stat().st_size)
            assert client.get(f"/api/sessions/{ONE}/messages?from=4").json()["total"] == 6
            assert listed.next("sessions")["changed"] == [ONE]
            open_in_this_process(home, ONE)
            assert talk.next("live") == {"live": True}
            log.write_bytes(lines(TALK[:1]))
            assert talk.next("reset") == {"reason": "truncated"}
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
            assert talk.ended()
            assert listed.ended()
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def test_a_port_that_is_taken_is_said(home: Path, data: Path) -> None:
    """Exit 5 with what to do; the first page goes on."""
    with _running(home, data) as (_, printed):
        port = str(printed["port"])
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "recollect.cli.main",
                "--home",
                str(home),
                "web",
                "--no-open",
                "--port",
                port,
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 5
        assert "leave out --port" in done.stderr


def test_a_line_that_comes_while_a_log_is_looked_at_is_told(
    home: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written between the reading and the look at the file: it is in the next event, though nothing follows it."""
    log, page = next(home.rglob(f"{ONE}.jsonl")), served(home, data).page
    late = [lines([prompt(7, 6, "late")]), lines([prompt(5, 4, "Q3"), reply(6, 5, said("A3"))])]

    def looked(talk: ViewMessages) -> str:
        if late and len(talk) >= 4 + 2 * (len(late) == 1):
            with log.open("ab") as out:
                out.write(late.pop())
        return signature(talk)

    async def told() -> bytes:
        with anyio.fail_after(60):
            return await anext(
                one async for one in session_events(page, ONE, ConversationView(), 4) if b'"total":7' in one
            )

    monkeypatch.setattr(events, "signature", looked)
    assert b"event: grown" in anyio.run(told)


def test_a_result_changes_the_answer_that_called(home: Path) -> None:
    """When a call is answered later, what is new begins at the message that made the call."""
    talk = [prompt(1, None, "Q"), reply(2, 1, call("t"))]
    log = put(home, ONE, talk)
    before = talk_of(PageSession(Home(home).session(ONE)), ConversationView())
    with log.open("ab") as out:
        out.write(lines([{**outcome(3, 2, "t", "x"), "sessionId": ONE}]))
    after = talk_of(PageSession(Home(home).session(ONE)), ConversationView())
    assert (len(before), len(after)) == (2, 3)
    assert first_change(before, after) == 1
    assert first_change(after, after) == 3


def test_memory_stays_flat_while_somebody_scrolls(home: Path) -> None:
    """Paging twice through 3,000 messages holds no more than one window after the first few."""
    talk: list[dict[str, Any]] = [prompt(1, None, "Q")]
    for number in range(2, 3001):
        text = f"{number} " + "word " * 200
        talk.append(
            reply(number, number - 1, said(text)) if number % 2 == 0 else prompt(number, number - 1, text)
        )
    put(home, ONE, talk)
    session = PageSession(Home(home).session(ONE))

    def scrolled(start: int, stop: int) -> None:
        for place in range(start, stop, 100):
            MessageWindow(session, ConversationView()).document(place, 100)

    scrolled(0, 500)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        scrolled(500, 3000)
        scrolled(0, 3000)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    # The texts of all messages are three megabytes; places of messages were there before.
    assert grown < 400_000
