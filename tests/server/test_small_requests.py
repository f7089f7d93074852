"""A request that is read without the parser is one that the parser reads the same way; all others are left to it."""

from __future__ import annotations

import random

import httptools
import pytest

from recollect.server.small_requests import may_begin, small_request

_BODY = b'{"type":"x"}\n'
_HEADS = (
    b"Host: team",
    b"Authorization: Bearer rcl_secret",
    b"Content-Type: application/x-ndjson",
    b"X-Recollect-Position: 3:" + b"0a" * 32,
    b"X-Recollect-Project: /home/ada/a project",
    b"Connection: keep-alive",
)


def _request(
    *more: bytes, first: bytes = b"PUT /v1/sessions/s1/log HTTP/1.1", length: bytes = b"%d" % len(_BODY)
) -> bytes:
    return b"\r\n".join((first, *_HEADS, b"Content-Length: " + length, *more, b"", b"")) + _BODY


class _Seen:
    """What the parser makes of one request."""

    def __init__(self, data: bytes) -> None:
        self.url, self.body, self.headers, self.ends = b"", b"", list[tuple[bytes, bytes]](), 0
        self.parser = httptools.HttpRequestParser(self)
        self.parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.ends += 1


def _agrees(data: bytes) -> bool:
    """Whether it is read here at all; and if so, as the parser reads it."""
    found = small_request(data)
    if found is None:
        return False
    seen = _Seen(data[: found.end])
    assert seen.parser.get_method() == b"PUT"
    assert seen.parser.get_http_version() == "1.1"
    assert seen.parser.should_keep_alive()
    assert not seen.parser.should_upgrade()
    assert seen.url == b"/v1/sessions/%b/log" % found.session.encode()
    assert dict(seen.headers) == found.headers
    assert len(seen.headers) == len(found.headers)
    if found.end <= len(data):
        assert (seen.ends, seen.body) == (1, data[found.begin : found.end])
    return True


def test_a_request_as_clients_write_it_is_read() -> None:
    data = _request()
    assert _agrees(data)
    found = small_request(data)
    assert found is not None
    assert (found.session, data[found.begin : found.end]) == ("s1", _BODY)
    assert found.headers[b"x-recollect-project"] == b"/home/ada/a project"


@pytest.mark.parametrize(
    "data",
    [
        _request(b"Transfer-Encoding: chunked"),
        _request(b"Transfer-Encoding:chunked"),
        _request(b"Transfer-Encoding : chunked"),
        _request(b"Transfer-Encoding:chunked, x: y"),
        _request(b"X: y\nTransfer-Encoding: chunked"),
        _request(b"X: y\rTransfer-Encoding: chunked"),
        _request(b"X: y", b" folded: z"),
        _request(b"Content-Length: 5"),
        _request(b"content-length: 5"),
        _request(b"Expect: 100-continue"),
        _request(b"Upgrade: websocket"),
        _request(b"Connection: close"),
        _request(b"Proxy-Connection: close"),
        _request(b"X:  y"),
        _request(b"X: y "),
        _request(b"X: y", b"Y: z "),
        _request(b"X: "),
        _request(b"X"),
        _request(b": y"),
        _request(b"X: \x00"),
        _request(b"X: \xff"),
        _request(b"X_y: z"),
        _request(length=b"+5"),
        _request(length=b"-5"),
        _request(length=b"5 5"),
        _request(length=b"99999"),
        _request(length=b"9" * 40),
        _request(first=b"PUT /v1/sessions/s1/log HTTP/1.0"),
        _request(first=b"PUT /v1/sessions/s1 /log HTTP/1.1"),
        _request(first=b"PUT  /v1/sessions/s1/log HTTP/1.1"),
        _request(first=b"POST /v1/sessions/s1/log HTTP/1.1"),
        _request(first=b"PUT /v1/sessions/s1/log?key=a HTTP/1.1"),
        _request(b"X: " + b"y" * 5_000),
        _request().replace(b"\r\n", b"\n"),
        b"\r\n" + _request(),
        _BODY,
    ],
)
def test_what_could_mean_something_else_is_left_to_the_parser(data: bytes) -> None:
    assert small_request(data) is None


def test_changed_bytes_are_read_as_the_parser_reads_them() -> None:
    """Or not at all, which is the parser's then."""
    chance = random.Random(7)
    pieces = (
        b"\r",
        b"\n",
        b"\r\n",
        b" ",
        b"\t",
        b":",
        b": ",
        b"\0",
        b"0",
        b"a",
        b"\xe9",
        b",",
        b"Content-Length: 3\r\n",
        b"",
    )
    whole, read = _request(), 0
    for _ in range(20_000):
        changed = bytearray(whole)
        for _ in range(chance.randrange(1, 3)):
            at = chance.randrange(len(whole) - len(_BODY))
            changed[at : at + chance.randrange(2)] = chance.choice(pieces)
        read += _agrees(bytes(changed))
    assert read > 500


def test_a_head_is_waited_for_while_it_is_short() -> None:
    whole = _request()
    assert all(may_begin(whole[:size]) for size in range(30, len(whole) - len(_BODY)))
    assert not may_begin(whole)
    assert not may_begin(b"GET /v1/sessions/s1/log HTTP/1.1\r\n")
    assert not may_begin(whole[:40] + b"x" * 5_000)
