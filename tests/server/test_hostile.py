"""Bodies that are too large, too slow, bombs or lies: refused, within bounds of memory, while others are served."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import zlib
from collections.abc import Callable
from typing import Any

import pytest
import zstandard
from msgspec.structs import replace

from recollect.server import bodies
from recollect.server.refusals import RequestRefused
from recollect.server.service import ServerLimits
from recollect.share.sync.wire import POSITION, START
from tests.server.conftest import Kind
from tests.server.world import PLENTY, World, after, in_a_world, in_world, prompt

MIB = 1 << 20
SMALL = ServerLimits(
    body_bytes=MIB, line_bytes=MIB // 2, lines=1_000, requests_per_second=1_000_000, slow_grace_seconds=60
)


def gzip_bomb(size: int) -> bytes:
    machine = zlib.compressobj(9, wbits=31)
    return b"".join(machine.compress(bytes(MIB)) for _ in range(size // MIB)) + machine.flush()


def zstd_bomb(size: int) -> bytes:
    machine = zstandard.ZstdCompressor(level=19).compressobj()
    return b"".join(machine.compress(bytes(MIB)) for _ in range(size // MIB)) + machine.flush()


def sent(limits: ServerLimits, data: bytes, **headers: str) -> int:
    async def scene(made: World) -> int:
        return (await made.put("s1", data, headers=headers)).status_code

    return in_world(Kind("sqlite"), scene, limits)


@pytest.mark.parametrize(
    ("data", "encoding", "status"),
    [
        (b"x" * MIB + b"\n", "identity", 413),
        (b"x" * (MIB // 2) + b"\n", "identity", 413),
        (b"x\n" * 1_001, "identity", 413),
        (gzip_bomb, "gzip", 413),
        (zstd_bomb, "zstd", 413),
        (gzip.compress(b"x\n")[:-4], "gzip", 415),
        (gzip.compress(b"x\n") + b"more", "gzip", 415),
        (b"not gzip\n", "gzip", 415),
        (zstandard.compress(b"x\n" * 100)[:-3], "zstd", 415),
        (zstandard.compress(b"x\n") + b"more", "zstd", 415),
        (b"not zstd\n", "zstd", 415),
        (b"x\n", "br", 415),
        (b"x\n", "gzip, gzip", 415),
        (b"x" * (MIB // 2 - 1) + b"\n", "identity", 200),
        (b"x\n" * 1_000, "identity", 200),
    ],
    ids=[
        "large",
        "long line",
        "many lines",
        "gzip bomb",
        "zstd bomb",
        "cut gzip",
        "more after gzip",
        "no gzip",
        "cut zstd",
        "more after zstd",
        "no zstd",
        "brotli",
        "twice gzip",
        "longest line",
        "most lines",
    ],
)
def test_a_body_is_measured_and_believed_by_what_it_is(
    data: bytes | Callable[[int], bytes], encoding: str, status: int
) -> None:
    """Over the limit before or after decompression: 413. Not what it says: 415. At the limit: stored."""
    body = data if isinstance(data, bytes) else data(64 * MIB)
    assert sent(SMALL, body, **{"Content-Encoding": encoding}) == status


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
@pytest.mark.parametrize("size", [1, 63, 64, 65, 65_535, 65_536, 65_537, 131_072, 1_000_000])
@pytest.mark.parametrize("is_random", [True, False])
def test_every_size_comes_out_whole_and_no_byte_may_follow(encoding: str, size: int, is_random: bool) -> None:
    """At and around the steps in which bodies are taken; one byte after the end of the stream is a lie."""
    data = random.Random(size).randbytes(size) if is_random else b"x" * size
    raw = gzip.compress(data) if encoding == "gzip" else zstandard.compress(data)
    unpack = bodies._gunzipped if encoding == "gzip" else bodies._unzstd
    assert unpack(raw, size) == data
    with pytest.raises(RequestRefused) as refused:
        unpack(raw + b"x", size)
    assert refused.value.status == 415
    with pytest.raises(bodies._BodyTooLarge):
        unpack(raw, size - 1)


def test_a_body_without_a_length_is_measured_too() -> None:
    """Chunked, it is cut off where the limit is passed."""

    async def endless() -> object:
        while True:
            yield b"x" * 65_536

    async def scene(made: World) -> int:
        headers = {POSITION: str(START), "Authorization": f"Bearer {made.token}"}
        answer = await made.client.put("/v1/sessions/s1/log", content=endless(), headers=headers)  # type: ignore[arg-type]
        return answer.status_code

    assert in_world(Kind("sqlite"), scene, SMALL) == 413


def test_a_slow_body_is_given_up() -> None:
    """A byte every tenth of a second earns no time: 408 when the grace is over."""

    async def dripping() -> object:
        for _ in range(100):
            yield b"x"
            await asyncio.sleep(0.1)

    async def scene(made: World) -> int:
        headers = {POSITION: str(START), "Authorization": f"Bearer {made.token}"}
        answer = await made.client.put("/v1/sessions/s1/log", content=dripping(), headers=headers)  # type: ignore[arg-type]
        return answer.status_code

    assert in_world(Kind("sqlite"), scene, replace(SMALL, slow_grace_seconds=1)) == 408


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/v1/sessions/s1/log"),
        ("PUT", "/v1/sessions/s1/file?key=f"),
        ("PATCH", "/v1/sessions/s1"),
        ("POST", "/v1/users"),
    ],
)
@in_a_world(databases=("sqlite",))
async def test_a_body_that_is_cut_off_is_nobodys_fault_but_the_senders(
    made: World, method: str, path: str
) -> None:
    """The connection ends in the middle: 400 in the log and the metrics, not a 500."""
    statuses: list[int] = []
    parts = iter(({"type": "http.request", "body": b'{"', "more_body": True}, {"type": "http.disconnect"}))

    async def receive() -> Any:
        return next(parts)

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    name, _, query = path.partition("?")
    headers = [
        (b"authorization", f"Bearer {made.token}".encode()),
        (POSITION.lower().encode(), str(START).encode()),
    ]
    scope = {
        "type": "http",
        "method": method,
        "path": name,
        "query_string": query.encode(),
        "headers": headers,
    }
    await made.app({**scope, "client": ("127.0.0.1", 1), "root_path": ""}, receive, send)
    assert (statuses[0]) == 400


def nested(depth: int, text: str = "") -> bytes:
    """A line that goes ``depth`` levels deep."""
    inside = json.dumps(text).encode()
    return b'{"a":' * (depth - 1) + b"[" + inside + b"]" + b"}" * (depth - 1) + b"\n"


@pytest.mark.parametrize("padding", ["", "x" * 100_000], ids=["small", "large"])
@in_a_world()
async def test_a_line_goes_so_deep_and_no_deeper(made: World, padding: str) -> None:
    """512 levels are kept as they came; one more is refused by name, with every line beside it; sealed lines are not looked at."""
    deep, deeper = prompt("after") + nested(512, padding), nested(513, padding)
    sealed = {"X-Recollect-Encrypted": "1"}
    stored = await made.put("s1", deep)
    refused = await made.put("s1", prompt("beside") + deeper, after(deep))
    hits = (await made.ask("GET", "/v1/search", params={"q": "after"})).json()["hits"]
    assert [
        stored.status_code,
        refused.status_code,
        refused.json()["error"]["code"],
        (await made.read("s1")).content == deep,
        len(hits),
        (await made.put("s2", deeper, headers=sealed)).status_code,
    ] == [200, 413, "too_deep", True, 1, 200]


@pytest.mark.parametrize(
    "document",
    [b"[" * 60_000, b'{"title":' * 5_000, b'{"title":"' + b"x" * 70_000, b"\xff", b"", b"null", b"[]"],
)
@in_a_world(PLENTY, databases=("sqlite",))
async def test_a_document_of_any_shape_is_answered(made: World, document: bytes) -> None:
    """Too deep, too large, no JSON: refused by name, never a 500."""
    await made.put("s1", prompt("x"))
    assert ((await made.ask("PATCH", "/v1/sessions/s1", content=document)).status_code) in (400, 413)


@pytest.mark.parametrize("session", ["..", "%2e%2e", "a%00b", "CON", "x" * 129, "a%ff", "ｅvil", "a b", "-"])
@in_a_world(databases=("sqlite",))
async def test_an_id_that_is_no_name_is_refused(made: World, session: str) -> None:
    """Before anything is built from it."""

    assert ((await made.put(session, prompt("x"))).status_code) in (400, 404, 405)


@pytest.mark.parametrize(
    "key", ["../x", "a//b", "a/..", "/a", "a/", "a\0b", "x" * 241, "a/b/c/d/e/f/g/h/i", "a b"]
)
@in_a_world(databases=("sqlite",))
async def test_a_key_that_is_no_path_is_refused(made: World, key: str) -> None:
    """Whoever pulls it will write a file of that name."""

    assert ((await made.put("s1", prompt("x"), key=key)).status_code) == 400


@in_a_world()
async def test_texts_no_database_takes_are_kept_in_the_line(made: World) -> None:
    """NUL and half surrogate pairs in names, titles, models and words: stored, counted, found by the rest."""
    data = (
        b'{"type":"user","uuid":"u\\u0000\\ud800","timestamp":"2026-01-31T12:00:00Z","gitBranch":"b\\u0000",'
        b'"cwd":"/\\udfff","message":{"role":"user","content":"needle \\u0000 \\ud83d"}}\n'
        b'{"type":"assistant","uuid":"a","timestamp":"9999-12-31T23:59:59Z","requestId":"r\\u0000","message":'
        b'{"id":"m\\u0000","model":"x\\u0000","usage":{"input_tokens":99999999999999,"output_tokens":-5},"content":[]}}\n'
    )
    stored = await made.put("s1", data)
    hits = (await made.ask("GET", "/v1/search", params={"q": "needle"})).json()["hits"]
    total = (await made.ask("GET", "/v1/cost")).json()["total"]
    assert [stored.status_code, (await made.read("s1")).content == data, len(hits), total["responses"]] == [
        200,
        True,
        1,
        1,
    ]
