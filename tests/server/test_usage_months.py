"""Months of responses that are dropped: their sums stay, and what comes later of them changes nothing, on every database."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from tests.server.test_contract_team import _local, cost
from tests.server.world import World, after, in_a_world, reply

DAY = 86_400_000


def ms(text: str) -> int:
    return int(dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC).timestamp() * 1000)


async def total(made: World, **parameters: str) -> tuple[object, object]:
    found = (await cost(made, **parameters))["total"]
    return found["responses"], found["usd"]


LATE = {
    "fork": reply("m-1", at="2026-01-31T12:07:00.000Z"),
    "replay": reply("m-1", "r-9", at="2026-04-02T09:00:00.000Z", isSidechain=True),
    "larger": reply("m-2", output=99, at="2026-03-10T12:00:01.000Z"),
    "new": reply("m-3", at="2026-01-15T12:00:00.000Z"),
}


@in_a_world()
async def test_a_dropped_month_stays_counted_and_nothing_of_it_counts_again(
    made: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before and after, and with what comes later: the total is that of ``recollect cost`` over the same logs."""
    first = reply("m-1", at="2026-01-31T12:07:00.000Z") + reply(
        "m-2", at="2026-03-10T12:00:00.000Z", uuid="a-2"
    )
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

    def local(name: str, logs: dict[str, bytes]) -> object:
        return _local(tmp_path / name, logs, capsys)[""]

    before = local("before", {"s1": first})
    one = local("one", {"s1": reply("m-1")})
    everything = local("all", {"s1": first, **LATE})
    larger = local(
        "larger", {"s1": first, **LATE, "again": reply("m-3", output=44, at="2026-01-15T12:00:00.000Z")}
    )
    rest = local("rest", {"s1": LATE["larger"]})
    assert [*told, await total(made), await total(made, since="2026-02-01")] == [
        before,
        before,
        one,
        one,
        everything,
        larger,
        rest,
    ]


@pytest.mark.parametrize("days", [61, 0, "x"])
@in_a_world(databases=("sqlite",))
async def test_a_retention_that_is_too_short_is_refused(made: World, days: object) -> None:
    """A machine that was off for some weeks still sends what is counted."""

    assert ((await made.ask("PATCH", "/v1/org", json={"usage_days": days})).status_code) == 400
