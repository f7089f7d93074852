"""``recollect`` alone: what is on this machine."""

from __future__ import annotations

import datetime as dt
import os
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator

from msgspec.structs import replace

from recollect.ask.cost.report import RECENT_DAYS, RecentCosts, recent_costs
from recollect.ask.overview import Overview, ResumeSummary, overview, overview_document
from recollect.cli.terminal import output
from recollect.cli.terminal.homes import SAMPLE, chosen_homes, sample, without_stores
from recollect.cli.terminal.options import add_json, command, own_cache, own_data
from recollect.cli.terminal.output import labelled
from recollect.cli.terminal.rows import protection_line, session_rows
from recollect.cli.terminal.text import counted, size, visible
from recollect.index.access import open_index
from recollect.index.refresh import FirstNeed
from recollect.model.budget import dollars
from recollect.model.checks.rules import Finding, Severity
from recollect.model.lines.ids import command_name, short_id
from recollect.system.locations import HomeRoot
from recollect.system.paths import CLAUDE, usual_places


def add_options(parser: ArgumentParser) -> None:
    add_json(parser)


def run(options: Namespace) -> int:
    """Damage is shown but is not a failure: `recollect` alone must always exit with 0."""
    homes = missing = chosen_homes(options.homes, may_be_missing=True)
    for text in without_stores(options.homes):
        output.note(visible(text))
    is_sample = not any(home.exists for home in homes)
    if is_sample:
        homes = [sample()]
    now = dt.datetime.now(dt.UTC)
    existing = [home.path for home in homes if home.exists]
    with (
        output.progress_bar("indexing") as progress,
        open_index(
            existing,
            cache=own_cache(options),
            progress=progress,
            need=FirstNeed(now - dt.timedelta(days=RECENT_DAYS)),
        ) as opened,
    ):
        answer = overview(homes, opened, data=own_data(options), now=now)
        spent = recent_costs(opened, now)
    if options.json:
        findings = tuple(replace(one, fix=output.typed(one.fix)) for one in answer.findings)
        damage = replace(
            answer.damage,
            findings=tuple(replace(one, fix=output.typed(one.fix)) for one in answer.damage.findings),
        )
        answer = replace(answer, findings=findings, damage=damage)
        return output.print_json(overview_document(answer, spent, is_sample=is_sample))
    if is_sample:
        _explain_sample(missing)
        options.homes = [SAMPLE]  # other commands show the sample only if it is named
    for line in _lines(answer, spent, now):
        output.say(line)
    about, step = _next_step(options, answer)
    output.say()
    output.say(about, "dim")
    output.say(f"Next: {step}", "dim")
    return 0


def _explain_sample(missing: list[HomeRoot]) -> None:
    looked = ", ".join(f"{home.path} ({home.origin})" for home in missing) or usual_places(os.environ)
    output.say(f"No home of an agent on this machine: looked in {visible(looked)}.")
    output.say("This is the built-in sample home; name your own with --home DIR or $CLAUDE_CONFIG_DIR.")
    output.say(f"To try a command on the sample, use --home {SAMPLE}.")
    output.say()


def _lines(answer: Overview, spent: RecentCosts, now: dt.datetime) -> Iterator[str]:
    room = output.columns()
    for label, style, text in _facts(answer, spent, now):
        yield from labelled(output.styled(label, style) if label else "", text, room)
    if answer.newest:
        yield ""
        yield output.styled("Newest sessions", "bold")
        yield from session_rows(answer.newest, now, indent="  ")


def _facts(answer: Overview, spent: RecentCosts, now: dt.datetime) -> Iterator[tuple[str, str, str]]:
    """Label, its style, and what is to be said."""
    for home in answer.homes:
        state = "" if home.exists else output.styled("  does not exist", "red")
        whose = home.origin if home.agent == CLAUDE else f"{home.origin}, {home.agent}, read through a mirror"
        yield "Home", "bold", f"{visible(str(home.source or home.path))}  ({whose}){state}"
    archived = answer.only_archived
    more_archived = f" ({archived:,} more only in the archive)" if archived else ""
    holds = [
        counted(answer.projects, "project"),
        counted(answer.sessions, "session") + more_archived,
        counted(answer.agents, "sub-agent"),
        size(answer.bytes),
    ]
    yield "Holds", "bold", ", ".join(holds)
    yield "Cost", "bold", _cost(spent)
    yield "Expiry", "bold", _expiry(answer)
    if answer.protection is not None:
        yield "Protected", "bold", protection_line(answer.protection, now)
    yield "Damage", "bold", _damage(answer)
    if answer.resume is not None:
        yield "Resume", "bold", _resume(answer.resume, answer.sessions)
    for number, text in enumerate(_findings(answer)):
        yield "" if number else "Findings", "bold", text
    for problem in answer.problems:
        yield "Problem", "yellow", visible(problem)


def _cost(spent: RecentCosts) -> str:
    unknown = f"no usage recorded in {counted(spent.unrecorded_sessions, 'session')}: cost unknown"
    if spent.today is None:
        return unknown
    amounts = ((spent.today, "today"), (spent.last_7_days, "in 7 days"), (spent.last_30_days, "in 30 days"))
    parts = [f"{dollars(amount.pico)} {when}" for amount, when in amounts if amount is not None]
    parts += [] if spent.all_time is None else [f"{dollars(spent.all_time.pico)} in all"]
    models = ", ".join(map(visible, spent.unpriced))
    if models and spent.all_time == 0:
        parts = [f"unknown: no price for {models}"]
    elif models:
        parts.append(f"without {models} (no price)")
    if spent.unrecorded_sessions:
        parts.append(unknown)
    if spent.uncertain:
        parts.append(f"{counted(spent.uncertain, 'response')} with too low counts from the client")
    return ", ".join(parts)


def _expiry(answer: Overview) -> str:
    soon = answer.expiring
    if not soon.sessions:
        return f"no session expires within {soon.within_days} days"
    first = f", the first on {soon.first_at:%Y-%m-%d}" if soon.first_at and not soon.overdue else ""
    return output.styled(str(soon), "red" if soon.not_archived else "dim") + first


def _findings(answer: Overview) -> Iterator[str]:
    """Findings about the homes themselves, one line a kind, the worst first; damage and expiry have their own lines."""
    kinds: dict[str, list[Finding]] = {}
    for one in sorted(answer.findings, key=lambda one: list(Severity).index(one.severity)):
        if not one.code.startswith("expiring"):
            kinds.setdefault(one.code, []).append(one)
    for code, found in kinds.items():
        style = {Severity.ERROR: "red", Severity.WARNING: "yellow"}.get(found[0].severity, "dim")
        more = f" (and {len(found) - 1:,} more)" if len(found) > 1 else ""
        what = f"{visible(found[0].what)}, in {visible(found[0].path)}{more}"
        yield f"{output.styled(code, style)}: {what}"


def _resume(found: ResumeSummary, sessions: int) -> str:
    scope = f"{found.checked:,} of {counted(sessions, 'session')} checked"
    if not found.sessions:
        return f"no history is lost ({scope})"
    codes = ", ".join(f"{count:,} {code}" for code, count in sorted(found.by_code.items()))
    lost = f"history is lost in {counted(found.sessions, 'session')}: {codes}"
    return output.typed(f"{output.styled(lost, 'red')} ({scope}); `recollect doctor --fix` mends it")


def _damage(answer: Overview) -> str:
    damage = answer.damage
    scope = f"{counted(damage.logs_checked, 'log')} read"
    if not damage.lines:
        return f"none ({scope})"
    codes = ", ".join(f"{count} {code}" for code, count in sorted(damage.by_code.items()))
    logs = counted(len(damage.logs), "log")
    return output.styled(f"{counted(damage.lines, 'line')} in {logs}: {codes}", "red") + f" ({scope})"


def _next_step(options: Namespace, answer: Overview) -> tuple[str, str]:
    """What there is to do, and the command that does it."""
    if answer.expiring.not_archived:
        return "The client will delete sessions that are not archived.", command(
            options, "protect", "--apply"
        )
    if answer.damage.lines:
        log = answer.damage.logs[0]
        name = command_name(short_id(log.stem), log)
        return f"First damaged log: {visible(log.stem)}", command(options, "doctor", name)
    if any(one.severity is not Severity.INFO for one in answer.findings):
        return "To see and fix the findings:", command(options, "doctor")
    more = output.typed("More: recollect search WORDS, recollect resume, recollect --help")
    return more, command(options, "cost")
