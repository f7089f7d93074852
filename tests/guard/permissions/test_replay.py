"""`guard.permissions.replay`: every past call, decided anew."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest

from recollect.guard.permissions.replay import PastCall, Replay, Replayer, past_calls, replay
from recollect.model.settings.decision import Verdict
from tests.past_calls import NOW, bash, session
from tests.permission_home import NO_MANAGED, Place, place, rules

__all__ = ["place"]

ONE, TWO = "3f2a9c1e-0000-4000-8000-000000000001", "5b1d9c1e-0000-4000-8000-000000000002"


def replayer(place: Place, **more: Any) -> Replayer:
    return Replayer(place.home, managed=NO_MANAGED, **more)


def account(place: Place, **more: Any) -> Replay:
    return replay(past_calls([place.home]), replayer(place, **more))


# ---- history -----------------------------------------------------------------------------------------------


def test_calls_carry_where_and_when(place: Place) -> None:
    """Tool, arguments, directory, session."""
    session(place, ONE, bash("make a"))
    [call] = past_calls([place.home])

    assert ("Bash", {"command": "make a"}, str(place.project), ONE, False) == (
        call.tool,
        json.loads(call.input),
        call.cwd,
        call.session,
        call.refused,
    )


def test_a_call_that_stands_in_two_logs_counts_once(place: Place) -> None:
    """A fork copies its history."""
    session(place, ONE, bash("make a", "make b"), prefix="same")
    session(place, TWO, bash("make a", "make b", "make c"), prefix="same")

    assert ["make a", "make b", "make c"] == sorted(
        json.loads(call.input)["command"] for call in past_calls([place.home])
    )


def test_calls_of_sub_agents_count(place: Place) -> None:
    """In the nested layout."""
    session(place, ONE, bash("make a"))
    session(place, "agent-abc", bash("make b"))
    inner = place.home.projects_dir / "-x" / ONE / "subagents"
    inner.mkdir(parents=True)
    (place.home.projects_dir / "-x" / "agent-abc.jsonl").rename(inner / "agent-abc.jsonl")

    assert 2 == len(list(past_calls([place.home])))


def test_calls_that_somebody_refused_are_marked(place: Place) -> None:
    """By the words of the result."""
    session(place, ONE, bash("make a", "make b"), refused=(1,))

    assert [False, True] == [call.refused for call in past_calls([place.home])]


def test_only_calls_within_the_time_are_taken(place: Place) -> None:
    """By the line's own time, not by the file's."""
    session(place, ONE, bash("old"), days_ago=100)
    session(place, TWO, bash("new"), days_ago=10)
    since = NOW - dt.timedelta(days=90)

    assert [1, 1, 2] == [
        len(list(found))
        for found in (
            past_calls([place.home], since),
            past_calls([place.home], None, since),
            past_calls([place.home]),
        )
    ]


def test_the_event_dialect_is_read_as_well(place: Place) -> None:
    """Seed 003's tool_use events."""
    log = place.home.projects_dir / "-x" / f"{ONE}.jsonl"
    log.parent.mkdir(parents=True)
    event = {
        "type": "tool_use",
        "uuid": "u",
        "session_id": ONE,
        "timestamp": "2026-01-01T00:00:00Z",
        "tool_use_id": "t",
        "name": "ls",
        "input": {"path": "src/"},
    }
    log.write_text(json.dumps(event) + "\n")

    assert [("ls", {"path": "src/"})] == [
        (call.tool, json.loads(call.input)) for call in past_calls([place.home])
    ]


def test_broken_lines_cost_only_themselves(place: Place) -> None:
    """Garbage that has the word in it."""
    session(place, ONE, bash("make a"))
    log = place.home.projects_dir / "-x" / f"{ONE}.jsonl"
    log.write_bytes(b'{"tool_use": [[[\n\xff tool_use\n' + log.read_bytes() + b'{"tool_use"')

    assert 1 == len(list(past_calls([place.home])))


# ---- replay ------------------------------------------------------------------------------------------------


def test_each_directory_has_its_own_settings(place: Place) -> None:
    """One project trusts what another asks about."""
    other = place.root / "other"
    other.mkdir()
    place.local(rules(allow=["Bash(make a)"]))
    session(place, ONE, bash("make a"))
    session(place, TWO, bash("make a"), cwd=other)
    found = account(place)

    assert (1, 1, 2) == (found.counts[Verdict.ALLOW], found.counts[Verdict.ASK], found.directories)


@pytest.mark.parametrize("given", [b"", b"[]", b"null", b"{", b'{"command": 4}', b'{"command": "\xff"}'])
def test_hostile_arguments_are_never_allowed(place: Place, given: bytes) -> None:
    """Nor do they end the replay."""
    found = replay([PastCall("Bash", given, str(place.project), ONE)], replayer(place))

    assert 0 == found.counts[Verdict.ALLOW]


def test_a_directory_that_is_gone_or_was_never_named_is_no_end(place: Place) -> None:
    """Old sessions name directories that nobody has any more."""
    calls = [PastCall("Bash", b'{"command": "ls"}', cwd, ONE) for cwd in ("/nonexistent/x", "", "relative")]

    assert 3 == replay(calls, replayer(place)).calls
