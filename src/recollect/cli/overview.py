"""``recollect`` alone: what is on this machine."""

from __future__ import annotations

import datetime as dt
import os
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from recollect.ask.cost.report import RECENT_DAYS, RecentCosts, recent_costs
from recollect.ask.overview import HomeSummary, Overview, overview, overview_document
from recollect.cli.terminal import output
from recollect.cli.terminal.homes import SAMPLE, chosen_homes, sample, without_stores
from recollect.cli.terminal.options import add_json, command, own_cache, own_data
from recollect.cli.terminal.output import labelled, plain_width
from recollect.cli.terminal.rows import protection_line
from recollect.cli.terminal.text import ago, counted, padded, session_names, shortened, size, visible, width
from recollect.index.access import open_index
from recollect.index.refresh import FirstNeed
from recollect.model.budget import PICO, dollars
from recollect.model.checks.rules import Severity
from recollect.model.lines.ids import command_name, short_id
from recollect.model.session import SessionSummary
from recollect.model.text.titles import project_name
from recollect.system.locations import HomeRoot
from recollect.system.paths import CLAUDE, usual_places

_TITLE, _LONGEST_TITLE, _PROJECT, _KINDS = 40, 60, 20, 2


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
    for line in _lines(options, answer, spent, now):
        output.say(line)
    return 0


def _explain_sample(missing: list[HomeRoot]) -> None:
    looked = ", ".join(f"{home.path} ({home.origin})" for home in missing) or usual_places(os.environ)
    output.say(f"No home of an agent on this machine: looked in {visible(looked)}.")
    output.say("This is the built-in sample home; name your own with --home DIR or $CLAUDE_CONFIG_DIR.")
    output.say(f"To try a command on the sample, use --home {SAMPLE}.")
    output.say()


# ---- what is said ----------------------------------------------------------------------------------------

Sentence = tuple[str, str, str]
"""A label, what is to be said, and the command that goes on; "" for none."""


def _lines(options: Namespace, answer: Overview, spent: RecentCosts, now: dt.datetime) -> Iterator[str]:
    room = output.columns()
    yield from labelled(output.styled("Home", "bold"), ", ".join(map(_home, answer.homes)), room)
    yield from labelled(output.styled("Holds", "bold"), _holds(answer), room)
    sentences = [*_kept(options, answer, now), *_week(options, spent)]
    sentences += [*_broken(options, answer), *_left(options, answer)]
    for label, text, go_on in sentences:
        yield from _sentence(label, text, go_on, room)
    for problem in answer.problems:
        yield from labelled(output.styled("Problem", "yellow"), visible(problem), room)
    if answer.newest:
        yield ""
        yield output.styled("Newest sessions", "bold")
        yield from _newest(answer.newest, now, room)


def _sentence(label: str, text: str, go_on: str, room: int | None) -> Iterator[str]:
    """On one line with its command where both fit, else the command below it."""
    head = output.styled(label, "bold")
    if room is None or 10 + plain_width(text) + 3 + plain_width(go_on) <= room:
        yield from labelled(head, f"{text}: {output.styled(go_on, 'cyan')}" if go_on else text, None)
        return
    yield from labelled(head, text, room)
    if go_on:
        yield " " * 12 + output.styled(go_on, "cyan")


def _home(home: HomeSummary) -> str:
    state = "" if home.exists else ", does not exist"
    whose = home.origin if home.agent == CLAUDE else f"{home.origin}, {home.agent}, read through a mirror"
    return f"{visible(str(home.source or home.path))} ({whose}{state})"


def _holds(answer: Overview) -> str:
    archived = f" ({answer.only_archived:,} more only in the archive)" if answer.only_archived else ""
    holds = [counted(answer.projects, "project"), counted(answer.sessions, "session") + archived]
    holds += [counted(answer.agents, "sub-agent")] if answer.agents else []
    return ", ".join([*holds, size(answer.bytes)])


def _kept(options: Namespace, answer: Overview, now: dt.datetime) -> Iterator[Sentence]:
    """What is about to be lost, or that nothing is."""
    soon, state = answer.expiring, answer.protection
    protect = command(options, "protect", "--apply")
    if soon.not_archived:
        when = f"within {soon.within_days} days"
        if soon.overdue:
            when = f"{when}, {soon.overdue:,} at its next start"
        text = f"Claude deletes {counted(soon.not_archived, 'session')} {when}, not protected"
        yield "Losing", output.styled(text, "red"), protect
    if state is None or (soon.not_archived and state.state == "off"):
        return
    go_on = "" if "recollect protect" in state.reason else protect  # the reason names the command
    if state.state == "protected":
        go_on = command(options, "protect", "list")
    yield "Protected", protection_line(state, now), go_on


def _week(options: Namespace, spent: RecentCosts) -> Iterator[Sentence]:
    """What seven days cost, and on what; without any usage, nothing."""
    report = command(options, "report")
    unknown = f"no usage recorded in {counted(spent.unrecorded_sessions, 'session')}: cost unknown"
    models = ", ".join(map(visible, spent.unpriced))
    week, before = spent.last_7_days, spent.previous_7_days
    if week is None or before is None:
        yield "Cost", unknown, report
        return
    if not week.pico and not before.pico and not models and not spent.unrecorded_sessions:
        return
    parts = []
    if week.pico or before.pico:
        most = spent.top_project_usd
        is_worth_naming = most is not None and most.pico >= PICO // 100
        top = (
            f", {dollars(most.pico)} of it on {_project(spent.top_project)}"
            if most and is_worth_naming
            else ""
        )
        least = "at least " if spent.uncertain else ""
        parts.append(f"{least}{dollars(week.pico)} in 7 days{top}; {dollars(before.pico)} in the 7 before")
        parts += [f"without {models} (no price)"] if models else []
    elif models:
        parts.append(f"unknown: no price for {models}")
    parts += [unknown] if spent.unrecorded_sessions else []
    yield "Cost", "; ".join(parts), report


def _project(directory: str | None) -> str:
    return shortened(visible(project_name(directory or "", "")), _PROJECT)


def _broken(options: Namespace, answer: Overview) -> Iterator[Sentence]:
    """What is broken now: lines the index could not read, what the last check found in sessions that did not change since."""
    damage, resume = answer.damage, answer.resume
    worst = [one for one in answer.findings if one.severity is not Severity.INFO]
    kinds = list(dict.fromkeys(one.code for one in worst if not one.code.startswith("expiring")))
    parts = []
    if resume is not None and resume.sessions:
        parts.append(f"history is lost in {counted(resume.sessions, 'session')}")
    if damage.lines:
        parts.append(f"{counted(damage.lines, 'line')} of {counted(len(damage.logs), 'file')} cannot be read")
    if kinds:
        more = ", ..." if len(kinds) > _KINDS else ""
        parts.append(f"{counted(len(kinds), 'finding')} of the home ({', '.join(kinds[:_KINDS])}{more})")
    if parts:
        words = ["doctor"]
        if resume is not None and resume.sessions:
            words += ["--fix"]
        elif len(damage.logs) == 1 and not kinds:
            log = damage.logs[0]
            words += [command_name(short_id(log.stem), log)]
        yield "Broken", output.styled("; ".join(parts), "red"), command(options, *words)
    elif resume is not None and resume.checked < answer.sessions:
        changed = counted(answer.sessions - resume.checked, "session")
        yield (
            "Health",
            f"{changed} of {answer.sessions:,} not checked since they last changed",
            command(options, "doctor"),
        )
    elif resume is not None:
        yield (
            "Health",
            f"no history is lost in {counted(answer.sessions, 'session')}",
            command(options, "doctor"),
        )


def _left(options: Namespace, answer: Overview) -> Iterator[Sentence]:
    """What was left unfinished."""
    left = answer.unfinished
    if left is None:
        return
    ends = {
        "error": f"failed {visible(left.tool or '')} call",
        "question": "question to you",
        "prompt": "prompt without an answer",
    }
    parts = [f"ended in a {ends[left.ended_in]}"] if left.ended_in is not None else []
    parts += [f"{counted(left.open_todos, 'todo')} open"] if left.open_todos else []
    title = shortened(visible(left.title) or "(no title)", _TITLE)
    name = command_name(short_id(left.session), Path(left.path))
    yield "Left", f'"{title}" {", ".join(parts)}', command(options, "resume", name)


def _newest(sessions: Sequence[SessionSummary], now: dt.datetime, room: int | None) -> Iterator[str]:
    """Id, age, cost, title and project; a title takes the room that is left."""
    names, ages = session_names(one.id for one in sessions), [ago(one.shown_at, now) for one in sessions]
    costs = [dollars(one.pico_usd) if one.pico_usd or one.cost_usd is not None else "-" for one in sessions]
    age, cost = (max(map(width, cells)) for cells in (ages, costs))
    left, tails = _LONGEST_TITLE, [_tail(one, _PROJECT) for one in sessions]
    if room is not None:
        taken = 10 + width(names[0]) + age + cost
        if room - taken - max(map(plain_width, tails)) < _PROJECT:
            tails = [_tail(one, 0) for one in sessions]
        left = max(room - taken - max(map(plain_width, tails)), 1)
    for one, name, when, spent, tail in zip(sessions, names, ages, costs, tails, strict=True):
        title = padded(shortened(visible(one.title) or "(no title)", left), left)
        yield "  " + "  ".join(
            [output.styled(name, "cyan"), f"{when:>{age}}", f"{spent:>{cost}}", title, tail]
        )


def _tail(one: SessionSummary, columns: int) -> str:
    """Where it was, where there is room for it, and what else is to be known of it."""
    place = [shortened(_project(one.cwd or Path(one.path).parent.name), columns)] if columns else []
    return "  ".join([*place, *_marks(one)])


def _marks(one: SessionSummary) -> list[str]:
    marks = [output.styled("live", "green")] if one.live else []
    marks += [output.styled("archived", "dim")] if one.is_archive_only else []
    return marks + ([output.styled(one.agent, "yellow")] if one.agent and one.agent != CLAUDE else [])
