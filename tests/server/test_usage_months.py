"""Months of responses that are dropped: their sums stay, and what comes later of them changes nothing, on every database."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recollect.server.database.tables.usage_months import NO_MONTH, month_of
from tests.server.conftest import Kind, kind_named
from tests.server.test_contract_team import _local, cost, rows
from tests.server.world import World, after, in_world, reply

DAY = 86_400_000


def ms(text: str) -> int:
    return int(dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC).timestamp() * 1000)


async def total(made: World, **parameters: str) -> tuple[object, object]:
    found: dict[str, object] = (await cost(made, **parameters))["total"]  # type: ignore[assignment]
    return found["responses"], found["usd"]


LATE = {
    "fork": reply("m-1", at="2026-01-31T12:07:00.000Z"),
    "replay": reply("m-1", "r-9", at="2026-04-02T09:00:00.000Z", isSidechain=True),
    "larger": reply("m-2", output=99, at="2026-03-10T12:00:01.000Z"),
    "new": reply("m-3", at="2026-01-15T12:00:00.000Z"),
}


def test_a_dropped_month_stays_counted_and_nothing_of_it_counts_again(
    kind: Kind, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before and after, and with what comes later: the total is that of ``recollect cost`` over the same logs."""
    first = reply("m-1", at="2026-01-31T12:07:00.000Z") + reply(
        "m-2", at="2026-03-10T12:00:00.000Z", uuid="a-2"
    )

    async def scene(made: World) -> list[object]:
        await made.put("s1", first)
        told = [await total(made)]
        changed = await made.ask("PATCH", "/v1/org", json={"usage_days": 62})
        assert changed.json()["usage_days"] == 62
        await made.database.sweep(ms("2026-04-15"), 7 * DAY)
        told.append(await total(made))
        # To the quarter of an hour, as the sums are; a month that is held to the millisecond.
        told.append(await total(made, since="2026-01-31T12:07:00.001Z", until="2026-03-10T12:00:00.000Z"))
        told.append(await total(made, since="2026-01-31T12:15:00.001Z", until="2026-03-10T12:00:00.001Z"))
        for session, lines in LATE.items():
            assert (await made.put(session, lines)).status_code == 200
        told.append(await total(made))
        again = reply("m-3", output=44, at="2026-01-15T12:00:00.000Z", uuid="a-9")
        await made.put("new", again, after(LATE["new"]))
        await made.database.sweep(ms("2026-04-16"), 7 * DAY)
        await made.put("fork", LATE["new"], after(LATE["fork"]))
        return [*told, await total(made), await total(made, since="2026-02-01")]

    def local(name: str, logs: dict[str, bytes]) -> object:
        return _local(tmp_path / name, logs, capsys)[""]

    before = local("before", {"s1": first})
    one = local("one", {"s1": reply("m-1")})
    everything = local("all", {"s1": first, **LATE})
    larger = local(
        "larger", {"s1": first, **LATE, "again": reply("m-3", output=44, at="2026-01-15T12:00:00.000Z")}
    )
    rest = local("rest", {"s1": LATE["larger"]})
    assert in_world(kind, scene) == [before, before, one, one, everything, larger, rest]


@pytest.mark.parametrize("days", [61, 0, "x"])
def test_a_retention_that_is_too_short_is_refused(days: object) -> None:
    """A machine that was off for some weeks still sends what is counted."""

    async def scene(made: World) -> int:
        return (await made.ask("PATCH", "/v1/org", json={"usage_days": days})).status_code

    assert in_world(Kind("memory"), scene) == 400


def test_a_response_is_of_the_month_in_which_it_was_said() -> None:
    now = ms("2026-11-17")
    times = ["2026-01-31T23:59:59.999", "2026-02-01", "2026-12-17T23:59:59", "2024-12-31", "1969-07-20"]
    assert [month_of(ms(time), now) for time in times] == [
        ms("2026-01-01"),
        ms("2026-02-01"),
        ms("2026-12-01"),
        0,
        0,
    ]
    assert [month_of(at, now) for at in (None, ms("2026-12-18"), 1 << 49)] == [NO_MONTH] * 3


# Copies of three responses around the ends of months, in logs of three sessions.
TIMES = ["2026-01-31T23:59:59.999Z", "2026-02-01T00:00:00.000Z", "2026-03-05T12:00:00.000Z", "nonsense"]
COPIES = st.builds(
    lambda message, request, at, output, side: reply(
        f"m-{message}", f"r-{request}", at=at, output=output, isSidechain=side
    ),
    st.integers(0, 2),
    st.integers(0, 1),
    st.sampled_from(TIMES),
    st.sampled_from([1, 10, 100]),
    st.booleans(),
)
HISTORY = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["s1", "s2", "s3"]), st.lists(COPIES, min_size=1, max_size=3)),
        st.sampled_from([ms("2026-04-05"), ms("2026-05-05")]),
    ),
    min_size=1,
    max_size=8,
)


@pytest.mark.parametrize("name", ["sqlite", "postgres"])
@given(history=HISTORY)
@example(history=[("s1", [reply("m-1", at=TIMES[0])]), ("s1", [reply("m-1", at=TIMES[1], output=100)])])
@settings(max_examples=25)
def test_months_come_and_go_in_any_order(
    name: str,
    history: list[tuple[str, list[bytes]] | int],
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Lines of two months, their copies and sweeps between them: sums are those of a database that only marks what is settled."""

    async def scene(made: World) -> list[object]:
        await made.ask("PATCH", "/v1/org", json={"usage_days": 62})
        logs: dict[str, bytes] = {}
        for act in history:
            if isinstance(act, int):
                await made.database.sweep(act, 7 * DAY)
                continue
            session, lines = act
            before, new = logs.get(session, b""), b"".join(lines)
            assert (await made.put(session, new, after(before))).status_code == 200
            logs[session] = before + new
        by = "session,model,day"
        return [
            await rows(made, by),
            await rows(made, by, since="2026-02-01T00:00:00.001Z"),
            await rows(made, by, since="2026-01-31T23:50:00Z", until="2026-02-01T00:00:00.001Z"),
        ]

    kind = kind_named(name, request, tmp_path_factory.mktemp("months"))
    assert in_world(kind, scene) == in_world(Kind("memory"), scene)
