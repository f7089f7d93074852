"""The page of a week: what it says adds up to what ``cost`` says of the same time."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pytest

from recollect.ask.cost.report import costs
from recollect.ask.report.work import report_work
from recollect.index.access import open_index
from tests.made_corpora import make
from tests.small_home import ONE, prompt, put, reply, said
from tests.talk import call, result


@pytest.mark.parametrize("seed", [1, 2])
def test_projects_and_sessions_add_up_to_the_cost(seed: int, tmp_path: Path) -> None:
    """Over generated homes with forks, sub-agents and a model without a price; for a part of the time and for all of it."""
    made = make(tmp_path / "home", seed)
    days = sorted(made.truth["by_day"])
    middle = dt.datetime.fromisoformat(f"{days[len(days) // 2]}T00:00:00+00:00")
    with open_index([made.home], cache=tmp_path / "cache") as opened:
        for since, until in ((None, None), (middle, None), (middle, middle + dt.timedelta(days=7))):
            report = report_work(opened, since=since, until=until)
            cost = costs(["project"], opened=opened, since=since, until=until, timezone="UTC")
            assert report.usd == cost.totals.usd
            rows = {row.keys["project"]: row.usd for row in cost.rows if row.responses}
            assert {one.project: one.usd for one in report.projects if one.project in rows} == rows
            for project in report.projects:
                known = [session.usd for session in project.sessions if session.usd is not None]
                assert sum(known, Decimal(0)) == (project.usd or 0)
            assert report.sessions == len({one.id for own in report.projects for one in own.sessions})
        assert report_work(opened).unpriced == made.truth["unpriced"]


def test_what_was_edited_committed_and_failed_is_counted_where_it_was_done(tmp_path: Path) -> None:
    talk = [
        reply(2, 1, call("a", "Edit", file_path="/srv/a.py", old_string="x", new_string="y")),
        prompt(3, 2, [result("a", "ok")]),
        reply(4, 3, call("b", "Bash", command="git commit -m x")),
        prompt(5, 4, [result("b", "[main 1234567] x")]),
        reply(6, 5, call("c", "Bash", command="false")),
        prompt(7, 6, [{**result("c", "exit 1"), "is_error": True}]),
        reply(8, 7, said("done")),
    ]
    put(tmp_path / "home", ONE, [prompt(1, None, "Mend it"), *talk], cwd="/srv/shop")
    with open_index([tmp_path / "home"], cache=tmp_path / "cache") as opened:
        report = report_work(opened)
    (project,) = report.projects
    (session,) = project.sessions
    assert (session.title, session.edits, session.commits, session.failures) == ("Mend it", 1, 1, 1)
    assert (project.project, report.failed_tools, session.minutes) == ("/srv/shop", [("Bash", 1)], 15)
