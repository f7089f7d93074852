"""Show what is on this machine: homes, projects, sessions, bytes, newest sessions, damaged lines.

Lists every Claude home and looks for damaged lines, newest logs first, for about
a second; --full reads every byte. Where there is no home it says so and shows the
built-in sample instead. Writes nothing.

Example:
  recollect
  recollect overview --full --json
"""

from __future__ import annotations

import datetime as dt
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator

from recollect.cli import output
from recollect.cli.homes import SAMPLE, chosen_homes, sample
from recollect.cli.text import ago, counted, padded, shortened, size, visible
from recollect.services.overview import LOOK_SECONDS, Overview, SessionSummary, overview
from recollect.storage.places import HomeRoot

_TITLE_COLUMNS = 44


def add_options(parser: ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument(
        "--full", action="store_true", help="look for damage in every byte, not for a second only"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: Namespace) -> int:
    """Print the overview. Damage is shown but is no failure: `recollect` must be safe to run anywhere."""
    homes = missing = chosen_homes(options.homes)
    is_sample = not any(home.exists for home in homes)
    if is_sample:
        homes = [sample()]
    answer = _look(homes, full=options.full)
    if options.json:
        output.print_json(_document(answer, is_sample))
        return 0
    if is_sample:
        _explain_sample(missing)
    for line in _lines(answer, dt.datetime.now(dt.UTC)):
        output.say(line)
    return 0


def _look(homes: list[HomeRoot], *, full: bool) -> Overview:
    if not full:
        return overview(homes, look_seconds=LOOK_SECONDS)
    with output.progress_bar("looking for damage") as progress:
        return overview(homes, look_seconds=None, progress=progress)


def _explain_sample(missing: list[HomeRoot]) -> None:
    looked = ", ".join(f"{home.path} ({home.origin})" for home in missing) or "~/.claude and ~/.config/claude"
    output.say(f"No Claude home on this machine: looked for {visible(looked)}.")
    output.say("This is the built-in sample home; point at your own with --home DIR or $CLAUDE_CONFIG_DIR.")
    output.say(f"Every command takes --home {SAMPLE} to try it on the sample.")
    output.say()


def _lines(answer: Overview, now: dt.datetime) -> Iterator[str]:
    for home in answer.homes:
        state = "" if home.exists else output.styled("  is not there", "red")
        yield f"{output.styled('Home', 'bold')}      {visible(str(home.path))}  ({home.origin}){state}"
    holds = [
        counted(answer.projects, "project"),
        counted(answer.sessions, "session"),
        counted(answer.agents, "sub-agent"),
        size(answer.bytes),
    ]
    yield f"{output.styled('Holds', 'bold')}     {', '.join(holds)}"
    yield f"{output.styled('Damage', 'bold')}    {_damage(answer)}"
    yield from (f"{output.styled('Problem', 'yellow')}   {visible(problem)}" for problem in answer.problems)
    if answer.newest:
        yield ""
        yield output.styled("Newest sessions", "bold")
        yield from (_session(session, now) for session in answer.newest)
    yield ""
    yield output.styled(_next_step(answer), "dim")


def _damage(answer: Overview) -> str:
    damage = answer.damage
    scope = f"{counted(damage.logs_checked, 'log')} read"
    if not damage.complete:
        scope = f"{size(damage.bytes_checked)} of {size(damage.bytes_total)} read, newest first"
    if not damage.lines:
        return f"none ({scope})"
    codes = ", ".join(f"{count} {code}" for code, count in sorted(damage.by_code.items()))
    logs = counted(len(damage.logs), "log")
    return output.styled(f"{counted(damage.lines, 'line')} in {logs}: {codes}", "red") + f" ({scope})"


def _session(session: SessionSummary, now: dt.datetime) -> str:
    when = ago(session.last_at or session.modified_at, now)
    title = shortened(visible(session.title) or "(no title)", _TITLE_COLUMNS)
    live = output.styled(" live", "green") if session.live else ""
    identity = output.styled(visible(session.id[:8]), "cyan")
    place = visible(session.cwd)
    return (
        f"  {identity}  {when:>10}  {size(session.bytes):>8}  {padded(title, _TITLE_COLUMNS)}  {place}{live}"
    )


def _next_step(answer: Overview) -> str:
    if not answer.damage.complete:
        return "Next: recollect overview --full reads every byte."
    if answer.damage.lines:
        return f"First damaged log: {visible(str(answer.damage.logs[0]))}"
    return "Next: recollect --help lists the commands; --json gives this to a program."


def _document(answer: Overview, is_sample: bool) -> dict[str, object]:
    damage = answer.damage
    return {
        "sample": is_sample,
        "homes": answer.homes,
        "projects": answer.projects,
        "sessions": answer.sessions,
        "agents": answer.agents,
        "bytes": answer.bytes,
        "newest": answer.newest,
        "damage": {
            "lines": damage.lines,
            "by_code": damage.by_code,
            "logs": damage.logs,
            "logs_checked": damage.logs_checked,
            "bytes_checked": damage.bytes_checked,
            "bytes_total": damage.bytes_total,
            "complete": damage.complete,
        },
        "problems": answer.problems,
    }
