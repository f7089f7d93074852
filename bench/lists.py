"""Lists of sessions as fresh processes: the commands that are asked first, with a warm index.

Each is measured twice: where nothing changed, and after one more line in the newest session. ``resume`` looks
for two words that occur in something a user typed.
"""

from __future__ import annotations

import json
from functools import partial

from bench.measured import Failed, Taken, in_turns
from bench.report import Row
from bench.workplace import Workplace

LIST_MS, OVERVIEW_MS, RESUME_MS = 150, 200, 250


def run(place: Workplace) -> list[Row]:
    """All figures."""
    place.ensure_index()
    sessions = json.loads(place.recollect("list", "--json").output)["sessions"]
    words = _words(sessions)
    commands = {
        "list": (("list",), LIST_MS),
        "list --json": (("list", "--json"), LIST_MS),
        "recollect": ((), OVERVIEW_MS),
        "resume WORDS": (("resume", "--newest", "--print", *words), RESUME_MS),
    }
    rows = []
    for name, (arguments, budget) in commands.items():
        taken = in_turns(
            place.rounds,
            same=partial(_answer, place, arguments),
            grown=partial(_after_a_line, place, arguments),
        )
        rows.append(_row(name, taken["same"], budget))
        rows.append(_row(f"  {name}, one line appended", taken["grown"], budget))
    return rows


def _words(sessions: list[dict[str, str]]) -> list[str]:
    """Two words of the title of a session in the middle of the list, long enough to be rare."""
    title = sessions[len(sessions) // 2]["title"]
    return sorted(title.split(), key=len)[-2:] or ["the"]


def _after_a_line(place: Workplace, arguments: tuple[str, ...]) -> Taken:
    place.add_line()
    return _answer(place, arguments)


def _answer(place: Workplace, arguments: tuple[str, ...]) -> Taken:
    taken = place.recollect(*arguments)
    if not taken.output.strip():
        raise Failed(f"{' '.join(arguments)}: printed nothing")
    return taken


def _row(what: str, taken: Taken, budget_ms: int) -> Row:
    wall = taken.wall * 1000
    return Row(what, f"{wall:.0f} ms", f"<= {budget_ms} ms", wall <= budget_ms, taken)
