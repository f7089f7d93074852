"""Commands as fresh processes: what somebody waits for who types one, beside an empty Python.

The home has an index and nothing in it changed; each command still looks at every log
first. The status line gets what the client sends, for the session that was worked on last.
"""

from __future__ import annotations

import json
import os
import sys
import time

from bench.measured import Failed, Taken, in_turns
from bench.measured import run as run_measured
from bench.peers import Server
from bench.report import Row
from bench.workplace import Workplace

SEARCH_MS = 120
STATUS_LINE_MS = 50
_REFRESH_SECONDS = 2
SEARCHES = {
    "a common word": "function",
    "a rare word": "qorvalith",
    "a phrase": '"amber kestrel protocol"',
}


def run(place: Workplace) -> list[Row]:
    """All figures."""
    place.ensure_index()
    empty = in_turns(
        place.rounds, empty=lambda: run_measured([sys.executable, "-c", "pass"], place.environment)
    )
    return [
        Row("python -c pass", _ms(empty["empty"]), "", None, empty["empty"]),
        *_search_rows(place),
        *_status_line_rows(place),
    ]


def _search_rows(place: Workplace) -> list[Row]:
    peer = place.ensure_synced()
    if peer is None:
        return [_search_row(place, what, query, None) for what, query in SEARCHES.items()]
    with peer.serving() as server:
        return [_search_row(place, what, query, server) for what, query in SEARCHES.items()]


def _search_row(place: Workplace, what: str, query: str, server: Server | None) -> Row:
    def ours() -> Taken:
        taken = place.recollect("search", query, "--json")
        if not json.loads(taken.output)["hits"]:
            raise Failed(f"search {query}: nothing found")
        return taken

    programs = {"ours": ours}
    if server is not None:
        programs["agentsview"] = lambda: server.search_command(query)
    taken = in_turns(place.rounds, **programs)
    beside = f"agentsview, its server running: {taken['agentsview']}" if server is not None else ""
    return _row(f"search for {what}", taken["ours"], SEARCH_MS, beside)


def _status_line_rows(place: Workplace) -> list[Row]:
    told = status_line_input(place)
    taken = in_turns(
        place.rounds,
        fresh=lambda: _status_line(place, told),
        stale=lambda: _stale_status_line(place, told),
    )
    beside = ""
    if place.ccusage is not None:
        ccusage = place.ccusage
        uncached = in_turns(place.slow_rounds, uncached=lambda: ccusage.status_line(told))["uncached"]
        beside = f"ccusage, uncached: {uncached}"
    return [
        _row("statusline", taken["fresh"], STATUS_LINE_MS, beside),
        Row("  the one in 15 s that starts a refresh", _ms(taken["stale"]), "", None, taken["stale"]),
    ]


def _status_line(place: Workplace, told: str) -> Taken:
    # A question right before keeps the index young: no refresh is started behind the measured line.
    place.recollect("cost", "--json")
    return _line(place, told)


def _stale_status_line(place: Workplace, told: str) -> Taken:
    for path in (place.data / "cache").iterdir():
        os.utime(path, (0, 0))
    taken = _line(place, told)
    time.sleep(_REFRESH_SECONDS)  # it works on behind the line that started it
    return taken


def _line(place: Workplace, told: str) -> Taken:
    taken = place.recollect("limits", "statusline", stdin=told)
    if not taken.output.strip():
        raise Failed("statusline: printed nothing")
    return taken


def status_line_input(place: Workplace) -> str:
    """What the client hands to a status line."""
    with place.growing.open("rb") as log:
        cwd = next(found for line in log if (found := json.loads(line).get("cwd")))
    return json.dumps(
        {
            "hook_event_name": "Status",
            "session_id": place.growing.stem,
            "transcript_path": str(place.growing),
            "cwd": cwd,
            "model": {"id": "claude-opus-4-6", "display_name": "Opus 4.6"},
            "workspace": {"current_dir": cwd, "project_dir": cwd},
            "version": "2.1.220",
            "cost": {"total_cost_usd": 1.25, "total_duration_ms": 45_000, "total_api_duration_ms": 2_300},
        }
    )


def _row(what: str, taken: Taken, budget_ms: int, beside: str) -> Row:
    return Row(what, _ms(taken), f"<= {budget_ms} ms", taken.wall * 1000 <= budget_ms, taken, beside)


def _ms(taken: Taken) -> str:
    return f"{taken.wall * 1000:.0f} ms"
