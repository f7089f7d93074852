"""What every database must do with logs: exactly the bytes, exactly once, exactly where they were meant to go."""

from __future__ import annotations

import asyncio
import gzip

import pytest
import zstandard

from recollect.share.sync.wire import LAST_UUID, POSITION, START, Position
from tests.server.conftest import Kind
from tests.server.world import World, after, in_a_world, in_world, line, prompt

ONE, TWO = line(type="mode", mode="plan"), prompt("hello", "u-2")


@in_a_world()
async def test_bytes_come_back_exactly_as_sent(made: World) -> None:
    """Lines that are no JSON, no UTF-8, empty or with carriage returns are kept as they are."""
    odd = b'{"a": 1 }\n\n\xff\xfe not json\r\n{"deep":' + b"[" * 300 + b"]" * 300 + b"}\n\x00\n"
    stored = await made.put("s1", odd)
    got = await made.read("s1")
    assert (stored.status_code, got.content, got.headers[POSITION], got.headers["content-length"]) == (
        200,
        odd,
        str(after(odd)),
        str(len(odd)),
    )


@in_a_world()
async def test_an_append_answers_where_the_log_is(made: World) -> None:
    """Lines, bytes, hash and the last uuid, counted by hand."""

    position = after(ONE + TWO)
    assert (await made.put("s1", ONE + TWO)).json() == {
        "position": {
            "lines": 2,
            "bytes": len(ONE + TWO),
            "hash": position.hash.hex(),
            "last_uuid": "u-2",
        },
        "stored": 2,
        "repeated": False,
    }


@in_a_world()
async def test_a_repeated_append_is_answered_again_and_stored_once(made: World) -> None:
    """The same lines at the same position: 200 with the same position, also when the log has gone on since."""
    first = (await made.put("s1", ONE)).json()
    again = (await made.put("s1", ONE)).json()
    await made.put("s1", TWO, after(ONE))
    later = (await made.put("s1", ONE)).json()
    # Lines that were stored in two appends, sent as one: the same lines at the same place.
    joined = (await made.put("s1", ONE + TWO)).json()
    answers = [first["stored"], again["stored"], again["repeated"], later["repeated"], joined["repeated"]]
    assert first["position"]["hash"] == again["position"]["hash"] == later["position"]["hash"]
    assert (answers, (await made.read("s1")).content) == ([1, 0, True, True, True], ONE + TWO)


@in_a_world()
async def test_another_position_is_a_conflict_that_tells_the_servers(made: World) -> None:
    """Other lines at a place that is taken, a place beyond the end, a wrong hash: 409, and nothing changes."""
    wrong = Position(1, bytes(31) + b"\1")
    await made.put("s1", ONE)
    asks = [START, wrong, Position(7, after(ONE).hash), Position(0, wrong.hash)]
    answers = [await made.put("s1", TWO, at) for at in asks]
    told = [(answer.status_code, answer.json()["position"]["lines"]) for answer in answers]
    assert {answer.headers[POSITION] for answer in answers} == {str(after(ONE))}
    assert (told, (await made.read("s1")).content) == ([(409, 1)] * 4, ONE)


@in_a_world()
async def test_a_log_that_is_not_there_is_at_its_start(made: World) -> None:
    """An append in the middle of an unknown log is told to begin at the beginning, and makes no session."""
    answer = await made.put("s1", TWO, after(ONE))
    listed = (await made.ask("GET", "/v1/sessions")).json()
    assert (answer.status_code, answer.json()["position"]["lines"], listed["sessions"]) == (409, 0, [])


def test_last_uuid_alone_is_the_lock_of_the_seed(kind: Kind) -> None:
    """The last uuid must be the one that was named; a repeat of the last append is recognised."""

    async def put(made: World, data: bytes, last: str) -> tuple[int, object]:
        answer = await made.ask("PUT", "/v1/sessions/s1/log", content=data, headers={LAST_UUID: last})
        return answer.status_code, answer.json().get("repeated")

    async def scene(made: World) -> list[tuple[int, object]]:
        return [
            await put(made, prompt("a", "u-1"), ""),
            await put(made, prompt("b", "u-2"), "u-1"),
            await put(made, prompt("b", "u-2"), "u-1"),
            await put(made, prompt("c", "u-3"), "u-1"),
        ]

    assert in_world(kind, scene) == [(200, False), (200, False), (200, True), (409, None)]


@in_a_world()
async def test_both_conditions_must_hold(made: World) -> None:
    """A true position with another last uuid is refused."""
    await made.put("s1", TWO)
    wrong = await made.put("s1", ONE, after(TWO), headers={LAST_UUID: "u-9"})
    right = await made.put("s1", ONE, after(TWO), headers={LAST_UUID: "u-2"})
    assert [wrong.status_code, right.status_code] == [409, 200]


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
@in_a_world()
async def test_a_compressed_body_is_stored_as_its_lines(made: World, pack: object) -> None:
    """What is kept is what was compressed."""
    data = b"".join(prompt(f"line {n}", f"u-{n}") for n in range(500))
    encoding = "gzip" if pack is gzip.compress else "zstd"
    stored = await made.put("s1", pack(data), headers={"Content-Encoding": encoding})  # type: ignore[operator]
    assert (stored.status_code, (await made.read("s1")).content) == (200, data)


@in_a_world()
async def test_reading_goes_on_after_any_line(made: World) -> None:
    """After every count of lines, at and between the borders of appends, exactly the rest comes."""
    lines = [prompt(f"line {n}", f"u-{n}") for n in range(9)]
    at = START
    for start, end in ((0, 4), (4, 5), (5, 9)):
        chunk = b"".join(lines[start:end])
        assert (await made.put("s1", chunk, at)).status_code == 200
        at = after(chunk, at)
    by_count = [(await made.read("s1", after=str(n))).content for n in range(10)]
    places = [after(b"".join(lines[:n])) for n in range(10)]
    by_place = [(await made.read("s1", after=str(place))).content for place in places]
    assert by_count == by_place
    assert by_count == [b"".join(lines[n:]) for n in range(10)]


@in_a_world()
async def test_a_reader_with_another_prefix_is_told_so(made: World) -> None:
    """A hash that is not the log's own, and a place beyond its end, answer 409 with the end."""
    await made.put("s1", ONE)
    asked = [str(Position(1, bytes(32))), "2", str(Position(2, after(ONE).hash))]
    assert ([(await made.read("s1", after=text)).status_code for text in asked]) == [409, 409, 409]


@in_a_world()
async def test_sub_agents_have_logs_of_their_own(made: World) -> None:
    """A key is another log of the same session, and the heads list all of them in order."""
    await made.put("s1", ONE)
    await made.put("s1", TWO, key="subagents/agent-a1")
    await made.put("s0", TWO)
    heads = (await made.ask("GET", "/v1/heads")).json()["heads"]
    first = (await made.ask("GET", "/v1/heads", params={"limit": "2"})).json()
    rest = (await made.ask("GET", "/v1/heads", params={"cursor": first["next"]})).json()
    names = [[head["session"], head["key"], head["lines"]] for head in heads]
    paged = [[head["session"], head["key"], head["lines"]] for head in first["heads"] + rest["heads"]]
    listed = [["s0", "", 1], ["s1", "", 1], ["s1", "subagents/agent-a1", 1]]
    assert ((await made.read("s1", key="subagents/agent-a1")).content, names, paged) == (TWO, listed, listed)


@in_a_world()
async def test_head_tells_the_end_without_the_bytes(made: World) -> None:
    """HEAD has the position and the length."""
    await made.put("s1", ONE)
    answer = await made.ask("HEAD", "/v1/sessions/s1/log")
    assert (
        answer.status_code,
        answer.headers[POSITION],
        answer.headers["content-length"],
        answer.content,
    ) == (200, str(after(ONE)), str(len(ONE)), b"")


@in_a_world()
async def test_many_appends_at_once_to_many_logs_all_arrive(made: World) -> None:
    """Group commit mixes nobody's lines."""

    async def write(session: str) -> None:
        at = START
        for n in range(5):
            data = prompt(f"{session} {n}", f"u-{n}")
            assert (await made.put(session, data, at)).status_code == 200
            at = after(data, at)

    names = [f"s{n}" for n in range(20)]
    await asyncio.gather(*map(write, names))
    assert ([(await made.read(name)).content for name in names]) == [
        b"".join(prompt(f"s{m} {n}", f"u-{n}") for n in range(5)) for m in range(20)
    ]


@pytest.mark.parametrize("body", [b"", b"no newline", b'{"a":1}\n{"b":2}'])
@in_a_world()
async def test_a_body_that_is_no_whole_lines_is_refused(made: World, body: bytes) -> None:
    """The newline is the commit: half a line is nobody's."""

    assert ((await made.put("s1", body)).status_code) == 400


@in_a_world()
async def test_an_append_must_say_where(made: World) -> None:
    """Without a condition: 428."""

    assert ((await made.ask("PUT", "/v1/sessions/s1/log", content=ONE)).status_code) == 428
