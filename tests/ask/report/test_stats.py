"""What was done is counted once, each call with its outcome, and money as `cost` counts it."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from recollect.ask.report.behind import Figure, sessions_behind
from recollect.ask.report.stats import StatsDocument, StatToolDocument, stats
from recollect.index.access import open_index
from recollect.model.views.facts import commits
from recollect.store import turns
from tests.small_home import ONE, TWO, lines, link, prompt, put, reply, said

NOW = dt.datetime(2026, 11, 15, 12, 0, tzinfo=dt.UTC)


def tool(name: str, tool_name: str, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": tool_name, "input": given}


def result(number: int, name: str, *, is_error: bool = False) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": name, "content": "x", "is_error": is_error}
    return link(number, number - 1, type="user", message={"role": "user", "content": [block]})


TALK = [
    prompt(1, None, "Do it"),
    reply(2, 1, tool("t1", "Bash", command="make")),
    result(4, "t1", is_error=True),
    reply(5, 4, tool("t2", "Bash", command="make again")),
    result(8, "t2"),
    reply(9, 8, tool("t3", "Edit", file_path="/a"), tool("t4", "Write", file_path="/b")),
    result(10, "t3"),
    result(11, "t4", is_error=True),
    reply(12, 11, tool("t5", "Bash", command="git -C /srv commit -m x")),
    result(13, "t5"),
    reply(14, 13, tool("t6", "Task", subagent_type="Explore", prompt="Look")),
    result(75, "t6"),
    reply(76, 75, said("Done")),
]


def found(home: Path, cache: Path, **asked: Any) -> StatsDocument:
    with open_index([home], cache=cache) as opened:
        return stats(opened, timezone="UTC", now=NOW, **asked)


def tools(document: StatsDocument) -> dict[str, tuple[int, int, int, int]]:
    return {one.name: _figures(one) for one in document.tools}


def _figures(one: StatToolDocument) -> tuple[int, int, int, int]:
    return one.calls, one.failures, one.retries, one.duration_ms


EXPECTED = {
    "Bash": (3, 1, 1, 2_000 + 3_000 + 1_000),
    "Edit": (1, 0, 0, 1_000),
    "Write": (1, 1, 0, 2_000),
    "Task": (1, 0, 0, 61_000),
}


def test_calls_failures_retries_and_time_are_counted_by_tool(tmp_path: Path) -> None:
    put(tmp_path / "home", ONE, TALK)

    document = found(tmp_path / "home", tmp_path / "cache")

    assert tools(document) == EXPECTED
    today = next(one for one in document.periods if one.name == "today")
    assert (today.calls, today.edits, today.commits, today.sessions) == (6, 1, 1, 1)
    assert [(one.name, *_figures(one)) for one in document.agents.types] == [("Explore", 1, 0, 0, 61_000)]


@pytest.mark.parametrize("cut", range(1, len(TALK)))
def test_a_log_that_is_read_in_two_parts_gives_the_same(tmp_path: Path, cut: int) -> None:
    home = tmp_path / "home"
    log = put(home, ONE, TALK)
    whole = log.read_bytes()
    log.write_bytes(b"".join(whole.splitlines(keepends=True)[:cut]))
    found(home, tmp_path / "cache")
    log.write_bytes(whole)

    assert tools(found(home, tmp_path / "cache")) == EXPECTED


def test_calls_that_a_fork_copied_count_once_and_in_the_original(tmp_path: Path) -> None:
    home = tmp_path / "home"
    copied = [{**entry, "forkedFrom": {"sessionId": ONE, "messageUuid": entry["uuid"]}} for entry in TALK]
    log = put(home, TWO, copied)
    found(home, tmp_path / "cache")  # the copy is read before its original
    original = put(home, ONE, TALK)

    document = found(home, tmp_path / "cache")

    assert tools(document) == EXPECTED
    with open_index([home], cache=tmp_path / "cache") as opened:
        behind = sessions_behind(opened, Figure(work="calls", tool="Bash"), timezone="UTC")
    assert [(one.id, one.count) for one in behind.sessions] == [(ONE, 3)]
    original.write_bytes(lines([]))  # rewritten: what was copied from it counts in the copy now
    assert log.exists()
    assert tools(found(home, tmp_path / "cache")) == EXPECTED


def test_every_figure_leads_to_sessions_that_add_up_to_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    put(home, ONE, TALK)
    put(home, TWO, [prompt(1, None, "Hi"), reply(2, 1, said("Yes"), answer="msg_two")], cwd="/srv/two")
    document = found(home, tmp_path / "cache")

    with open_index([home], cache=tmp_path / "cache") as opened:

        def behind(**figure: Any) -> int:
            answer = sessions_behind(opened, Figure(**figure), timezone="UTC")
            return sum(one.count for one in answer.sessions)

        assert behind(work="failures", tool="Write") == 1
        assert behind(work="edits", day="2026-11-15") == document.days[0].edits == 1
        assert behind(work="calls", kind="Explore") == 1
        hours = document.hours
        assert [behind(weekday=one.weekday, hour=one.hour) for one in hours] == [
            one.responses for one in hours
        ]
        assert behind(model=document.models[0].name) == document.models[0].responses
        assert behind(repo=document.repositories[0].name) == document.repositories[0].responses


def test_a_model_costs_what_it_cost_at_the_time(tmp_path: Path) -> None:
    """Also one of another vendor, whose prices change more often than Claude's."""
    home = tmp_path / "home"
    days = ("2026-07-29", "2026-07-30")  # 1 and 6 dollars a million; since the second 0.20 and 1.20
    told = []
    for number, day in enumerate(days, 2):
        one = reply(number, 1, said("Yes"))
        told.append(
            {
                **one,
                "message": {**one["message"], "model": "gpt-5.6-luna"},
                "timestamp": f"{day}T12:00:00.000Z",
            }
        )
    put(home, ONE, [prompt(1, None, "Hi"), *told])

    document = found(home, tmp_path / "cache")

    assert [(one.day, one.cost_usd) for one in document.days] == [
        (days[0], "0.00013"),
        (days[1], "0.000026"),
    ]


def test_bounds_and_projects_limit_all_but_the_periods(tmp_path: Path) -> None:
    home = tmp_path / "home"
    put(home, ONE, TALK)
    put(home, TWO, [prompt(1, None, "Hi"), reply(2, 1, said("Yes"), answer="msg_two")], cwd="/srv/two")

    late = found(home, tmp_path / "cache", since=NOW)
    one = found(home, tmp_path / "cache", project="two")

    assert (late.days, late.tools, late.total_cost_usd) == ([], [], "0")
    assert late.periods[0].responses == 7
    assert [group.name for group in one.projects] == ["/srv/two"]
    assert one.tools == []


@pytest.mark.parametrize(
    ("command", "is_one"),
    [
        ("git commit -m x", True),
        ("cd a && git -c user.name=a --no-pager commit", True),
        ("git commit-tree x", False),
        ("git log --grep commit", False),
        ("echo commit", False),
    ],
)
def test_which_commands_commit(command: str, is_one: bool) -> None:
    assert commits(command) == is_one


def test_the_limit_seen_is_the_most_of_each_window_that_a_client_reported(tmp_path: Path) -> None:
    """Of five-hour windows of the last two weeks; without a record there is none."""
    put(tmp_path / "home", ONE, TALK)
    data, now = str(tmp_path / "data"), NOW.timestamp()
    for percent, resets, at in (
        (90, 1, now - 30 * 86_400),
        (40, 5, now - 9_000),
        (92, 5, now - 8_000),
        (12, 9, now),
    ):
        turns.record_limits(data, [("five_hour", percent, float(resets)), ("seven_day", 99, 7.0)], at)

    document = found(tmp_path / "home", tmp_path / "cache", data=tmp_path / "data")

    assert [one.used_percentage for one in document.blocks.limits] == [92, 12]
    assert [one.resets_at for one in document.blocks.limits] == [5, 9]
    assert found(tmp_path / "home", tmp_path / "cache").blocks.limits == []
