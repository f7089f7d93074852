"""Who is let in: the whole matrix of Host, Origin and Sec-Fetch-Site over all routes, the key, the cookie, the token."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path

import anyio
import pytest

from recollect.web.app import ROUTES
from recollect.web.gate import LOGIN, AsgiMessage, AsgiScope, LaunchKeys, PageGate, Receive, Send
from tests.small_home import ONE, state
from tests.web.pages import BASE, PORT, Browser, served

GOOD_HOSTS = (f"127.0.0.1:{PORT}", f"localhost:{PORT}")
HOSTS = (
    *GOOD_HOSTS,
    "127.0.0.1",
    "localhost",
    f"127.0.0.1:{PORT + 1}",
    f"[::1]:{PORT}",
    f"evil.example:{PORT}",
    f"127.0.0.1.evil.example:{PORT}",
    f"127.0.0.1:{PORT}.evil.example",
    f"localhost.:{PORT}",
    f"0.0.0.0:{PORT}",
    "",
)
SITES = (None, "same-origin", "none", "same-site", "cross-site", "weird")
OPEN = ("/", "/openapi.json", "/s/anything")


def _origins(host: str) -> tuple[str | None, ...]:
    other = next(one for one in GOOD_HOSTS if one != host)
    return (
        None,
        f"http://{host}",
        f"https://{host}",
        f"http://{other}",
        "null",
        "http://evil.example",
        f"http://{host}.evil.example",
        f"http://127.0.0.1:{PORT + 1}",
        "",
    )


def _routes() -> list[tuple[str, str]]:
    names = {"session": ONE, "index": "0", "uuid": "u", "number": "0"}
    found = [(one.method, one.path.format(**names)) for one in ROUTES if not one.path.endswith("/events")]
    return [*found, *(("GET", path) for path in OPEN), ("POST", LOGIN)]


def _expected(method: str, host: str, origin: str | None, site: str | None) -> int | None:
    """The refusal that the design demands; None where the request may pass."""
    if host not in GOOD_HOSTS:
        return 421
    if origin is not None and origin != f"http://{host}":
        return 403
    allowed = (None, "same-origin", "none") if method == "GET" else (None, "same-origin")
    return None if site in allowed else 403


def _scope(method: str, path: str, headers: dict[str, str]) -> dict[str, object]:
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http", "method": method, "path": path, "headers": pairs}


class _Behind:
    """Stands behind the gate and counts what comes through."""

    def __init__(self) -> None:
        self.passed = 0

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        self.passed += 1
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})


def _status(gate: PageGate, scope: dict[str, object]) -> int:
    """What the gate answers, without a network and without a loop: nothing here ever waits."""
    sent: list[AsgiMessage] = []

    async def receive() -> AsgiMessage:
        return {"type": "http.request", "body": b""}

    async def send(message: AsgiMessage) -> None:
        sent.append(message)

    with contextlib.suppress(StopIteration):
        gate(scope, receive, send).send(None)
    return int(sent[0]["status"])


def test_the_whole_matrix_of_host_origin_and_site_is_as_specified() -> None:
    """12 hosts x 9 origins x 6 sites on every route: each is refused, or passes, as the design says."""
    keys, behind = LaunchKeys(), _Behind()
    gate = PageGate(behind, keys, PORT)
    cookie = keys.exchanged(keys.key)
    own = {
        "cookie": f"recollect_{PORT}={cookie}",
        "x-recollect-token": keys.token,
        "content-type": "application/json",
    }
    wrong, tried, through = [], 0, 0
    for (method, path), host, site in itertools.product(_routes(), HOSTS, SITES):
        for origin in _origins(host):
            headers = own | {"host": host}
            headers |= {} if origin is None else {"origin": origin}
            headers |= {} if site is None else {"sec-fetch-site": site}
            expected = _expected(method, host, origin, site) or 200
            found = _status(gate, _scope(method, path, headers))
            tried, through = tried + 1, through + (expected == 200)
            if found != expected:
                wrong.append((method, path, host, origin, site, found))
    assert [] == wrong
    assert tried == len(_routes()) * 12 * 9 * 6
    assert through == behind.passed
    gets = sum(method == "GET" for method, _ in _routes())
    # Two hosts x two origins; three sites may read, two may change.
    assert through == 2 * 2 * (3 * gets + 2 * (len(_routes()) - gets))


def test_no_route_stands_outside_the_gate(browser: Browser) -> None:
    """A foreign host is refused on every route of the real application."""
    answers = {
        browser.ask(
            method, path, headers={"host": "evil.example"}, body={} if method == "POST" else None
        ).status_code
        for method, path in _routes()
    }
    assert {421} == answers


def test_two_host_headers_are_refused() -> None:
    """A request that names two hosts, one of them ours, is refused."""
    gate = PageGate(_Behind(), LaunchKeys(), PORT)
    scope = _scope("GET", "/", {})
    scope["headers"] = [(b"host", f"127.0.0.1:{PORT}".encode()), (b"host", b"evil.example")]
    assert _status(gate, scope) == 421


@pytest.mark.parametrize("token", [None, "", "x" * 43])
def test_nothing_is_changed_without_the_token(
    browser: Browser, home: Path, data: Path, token: str | None
) -> None:
    """Every POST with the cookie but without the right token is refused, and not one byte of the home changes."""
    before = state(home)
    posts = [path for method, path in _routes() if method == "POST" and path != LOGIN]
    headers = {} if token is None else {"x-recollect-token": token}
    without = ("x-recollect-token",) if token is None else ()
    body = {"apply": True, "title": "new", "tag": "new"}
    found = {
        browser.ask("POST", path, headers=headers, without=without, body=body).status_code for path in posts
    }
    assert {403} == found
    assert before == state(home)
    assert len(posts) >= 14


def test_a_get_changes_nothing(browser: Browser, home: Path, data: Path) -> None:
    """All reading routes together leave the home byte for byte as it was, and our directory but for the index."""
    before = state(home)
    for method, path in _routes():
        if method == "GET":
            browser.ask("GET", path)
    assert before == state(home)
    assert {"cache"} == {path.name for path in data.iterdir()}


def test_everything_but_the_built_page_needs_the_cookie(browser: Browser) -> None:
    """Without the cookie every route under /api answers 401; the page itself and its description are open."""
    paths = [(method, path) for method, path in _routes() if path != LOGIN]
    found = {
        (
            path in OPEN,
            browser.ask(method, path, without=("cookie",), body={} if method == "POST" else None).status_code,
        )
        for method, path in paths
    }
    assert {(True, 200), (False, 401)} == found


@pytest.mark.parametrize(
    "cookie", ["", f"recollect_{PORT}=", f"recollect_{PORT}=wrong", "recollect_1=x", "=", ";;"]
)
def test_another_cookie_is_none(browser: Browser, cookie: str) -> None:
    """A cookie of another launch, another port or of nobody does not open anything."""
    assert browser.ask("GET", "/api/me", headers={"cookie": cookie}).status_code == 401


def test_the_key_works_once(home: Path, data: Path) -> None:
    """The second exchange of the same key is refused; the cookie of the first goes on working."""
    page = served(home, data)
    key = page.keys.key
    with Browser(page) as browser:
        again = browser.ask("POST", LOGIN, body={"key": key})
        assert again.status_code == 403
        assert "set-cookie" not in again.headers
        assert browser.get("/api/me")["token"] == page.keys.token


def test_a_wrong_key_leaves_the_right_one_good(home: Path, data: Path) -> None:
    """Guessing does not use up the key."""
    page = served(home, data)
    stranger = Browser(page)
    assert stranger.ask("POST", LOGIN, body={"key": "guess"}).status_code == 403
    with Browser(page) as browser:
        assert browser.get("/api/me")["is_sample"] is False


def test_the_cookie_is_for_this_page_only(home: Path, data: Path) -> None:
    """HttpOnly, SameSite=Strict, for all of this host, under the name of the port."""
    page = served(home, data)
    answer = Browser(page).ask("POST", LOGIN, body={"key": page.keys.key})
    name, *flags = answer.headers["set-cookie"].split("; ")
    assert name.partition("=")[0] == f"recollect_{PORT}"
    assert {"HttpOnly", "Path=/", "SameSite=strict"} == set(flags)
    page.stop()


def test_the_address_holds_the_key_in_its_fragment(home: Path, data: Path) -> None:
    """A fragment is never sent, so the key reaches no log and no referrer."""
    page = served(home, data)
    assert page.address == f"{BASE}/#key={page.keys.key}"


HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
}


def test_every_answer_carries_the_headers(browser: Browser) -> None:
    """Also refusals and what is not found: a strict policy without inline script, and no way to frame or sniff."""
    for method, path in [*_routes(), ("GET", "/api/none"), ("GET", "/x.php"), ("PUT", "/api/me")]:
        answer = browser.ask(method, path, body={} if method == "POST" else None)
        assert HEADERS == {name: answer.headers[name] for name in HEADERS}
        policy = dict(
            one.strip().split(" ", 1) for one in answer.headers["content-security-policy"].split(";")
        )
        assert policy["default-src"] == "'none'"
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert policy.get("script-src", "'self'") == "'self'"
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND"])
def test_only_get_head_and_post_are_answered(browser: Browser, method: str) -> None:
    """Every other method is 405, a preflight too."""
    assert browser.ask(method, "/api/sessions").status_code == 405


def test_a_form_of_another_page_is_no_request(browser: Browser) -> None:
    """What a form can send without asking first is refused by its content type."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        answer = browser.ask("POST", "/api/undo", raw=b"{}", headers={"content-type": kind})
        assert answer.status_code == 415


def test_a_websocket_is_closed() -> None:
    """There are none here, so the way in stays shut whatever its headers say."""
    sent: list[AsgiMessage] = []

    async def talk() -> None:
        async def receive() -> AsgiMessage:
            return {"type": "websocket.connect"}

        async def send(message: AsgiMessage) -> None:
            sent.append(message)

        await PageGate(_Behind(), LaunchKeys(), PORT)(
            {"type": "websocket", "path": "/", "headers": []}, receive, send
        )

    anyio.run(talk)
    assert [{"type": "websocket.close", "code": 1008}] == sent


@pytest.mark.parametrize(
    "path",
    [
        "//api/me",
        "/api//me",
        "/API/me",
        "/%61pi/me",
        "/x/../api/me",
        "/./api/me",
        "/api/me/",
        "/api",
        "/api%2fme",
        "/api/me%00",
    ],
)
def test_no_spelling_of_a_path_leads_past_the_cookie(browser: Browser, path: str) -> None:
    """Without the cookie another spelling is refused, or is the page itself: never a document."""
    answer = browser.ask("GET", path, without=("cookie",))
    assert (
        answer.status_code == 401
        or answer.headers["content-type"].startswith("text/html")
        or (answer.status_code == 404)
    )
    assert browser.page.keys.token not in answer.text
