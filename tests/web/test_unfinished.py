"""Requests that are not finished, ids that are not there, and errors inside: none holds the page up or fills its log."""

from __future__ import annotations

import io
import logging
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recollect.share.typed_http import TypedRoute
from recollect.web import app
from recollect.web import app as web_app
from recollect.web.answers import OneLineFormatter
from recollect.web.app import ROUTES, PageServer, bound
from recollect.web.sessions import PageSessions
from tests.small_home import ONE
from tests.web.pages import PORT, Browser, served, two_sessions

SOON = 0.4
WAIT = 20.0


@contextmanager
def _listening(home: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    """The page on a real socket, with a short patience; yields its Host and port."""
    monkeypatch.setattr(app, "HEADER_SECONDS", SOON)
    monkeypatch.setattr(web_app, "_BODY_SECONDS", SOON)
    page, listening = served(home, data), bound()
    server = PageServer(page)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{PORT}", listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(WAIT)
        listening.close()


# A whole request that needs no cookie, of which any part may be sent.
BODY = b'{"key": "' + b"x" * 40 + b'"}'


def _login(host: str) -> bytes:
    head = f"POST /api/login HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(BODY)}\r\n\r\n"
    return head.encode() + BODY


def test_a_half_sent_request_is_closed(home: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut at any byte of head and body, and after an answer that did not wait for the body: closed, each of them."""
    with _listening(home, data, monkeypatch) as (host, port):
        whole = _login(host)
        unread = f"GET /api/nothing HTTP/1.1\r\nHost: {host}\r\nContent-Length: 50\r\n\r\n".encode()
        parts = [whole[:length] for length in range(0, len(whole), 7)] + [unread, unread + b"some"]
        opened = []
        for part in parts:
            one = socket.create_connection(("127.0.0.1", port), timeout=WAIT)
            one.sendall(part)
            opened.append(one)
        # A byte after the answer, and then nothing: that ends the pause that uvicorn grants between requests.
        dripping = socket.create_connection(("127.0.0.1", port), timeout=WAIT)
        dripping.sendall(unread)
        assert dripping.recv(4096).startswith(b"HTTP/1.1 4")
        dripping.sendall(b"x")
        for one in (*opened, dripping):
            received = b""
            while piece := one.recv(4096):  # ends with the connection, or with a timeout that fails the test
                received += piece
            assert received == b"" or re.match(rb"HTTP/1.1 4\d\d ", received) or one is dripping
            one.close()
        assert len(opened) > 20


WEIRD_IDS = st.one_of(
    # A client asks for the page above where the path has "..", and one of those is a stream.
    st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="/?#\x00"), min_size=1, max_size=60
    ).filter(lambda name: name not in (".", "..")),
    st.sampled_from([ONE[:-1] + "0", "%2e%2e", "a" * 300, "%00", "@last2", "-", "*", ONE.upper() + "x", "0"]),
)


@pytest.fixture(scope="module")
def open_page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    place = tmp_path_factory.mktemp("page")
    two_sessions(place / "claude")
    with Browser(served(place / "claude", place / "data")) as one:
        yield one


PLACES = [one for one in ROUTES if "{session}" in one.path]


# What each route needs beside its path, of the right type, so that only the id is wrong.
NEEDED: dict[str, dict[str, object]] = {
    "files/version": {"path": "x", "number": 1},
    "files/bytes": {"path": "x", "number": 1},
    "files/diff": {"path": "x", "number": 1},
    "files/restore": {"path": "x", "number": 1, "to": "/x"},
    "position": {"offset": 1},
    "hits": {"q": "x"},
    "pin": {"uuid": "x"},
    "rename": {"title": "x"},
    "tag": {"tag": "x"},
    "export": {"format": "md"},
}


def _asked(browser: Browser, one: TypedRoute, path: str) -> int:
    needed: dict[str, object] = NEEDED.get(one.path.partition("{session}/")[2], {})
    if one.method == "POST":
        return browser.ask("POST", path, body=needed).status_code
    return browser.ask("GET", f"{path}?{urlencode(needed)}").status_code


@given(name=WEIRD_IDS, which=st.integers(0, len(PLACES) - 1), index=st.integers(0, 9))
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_unknown_id_is_not_found(open_page: Browser, name: str, which: int, index: int) -> None:
    """On every route with a session in its path: 404, or 400 and 409 where the words are wrong or ambiguous."""
    one = PLACES[which]
    path = re.sub(r"\{\w+\}", str(index), one.path.replace("{session}", quote(name, safe="%")))
    assert _asked(open_page, one, path) in (400, 404, 405, 409), path


@pytest.mark.parametrize("route", PLACES, ids=lambda one: f"{one.method} {one.path}")
def test_a_well_formed_id_that_is_not_there_is_404(open_page: Browser, route: TypedRoute) -> None:
    """Streams too: one that nothing can ever come from does not begin."""
    path = re.sub(r"\{\w+\}", "1", route.path.replace("{session}", ONE[:-4] + "0000"))
    assert _asked(open_page, route, path) == 404


@pytest.mark.parametrize(
    "problem", [OSError(28, "full"), ValueError("text\x1b]0;of a transcript\nforged: line")]
)
def test_an_error_inside_is_one_line_in_the_log(
    home: Path, data: Path, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    """Type and place; no traceback, no text of the error, no second line."""

    def broken(*_: object) -> None:
        raise problem

    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(OneLineFormatter())
    logger = logging.getLogger("uvicorn.error")
    monkeypatch.setattr(logger, "handlers", [handler])
    monkeypatch.setattr(logger, "propagate", False)
    monkeypatch.setattr(PageSessions, "document", broken)
    page, listening = served(home, data), bound()
    server = PageServer(page)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        with Browser(page) as browser, socket.create_connection(listening.getsockname(), WAIT) as one:
            lines = [f"{name}: {value}" for name, value in browser.headers.items()]
            head = "\r\n".join(
                (f"GET /api/sessions HTTP/1.1\r\nHost: 127.0.0.1:{PORT}", *lines, "Connection: close")
            )
            one.sendall(head.encode() + b"\r\n\r\n")
            answer = b""
            while piece := one.recv(4096):
                answer += piece
        deadline = time.monotonic() + WAIT
        while not written.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
    finally:
        server.should_exit = True
        thread.join(WAIT)
        listening.close()
    assert re.match(rb"HTTP/1.1 50[07]", answer)
    text = written.getvalue()
    assert text.count("\n") == 1
    assert type(problem).__name__ in text
    assert "test_unfinished.py:" in text
    assert "Traceback" not in text
    assert "transcript" not in text
