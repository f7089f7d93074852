"""The command ``limits``: what is left of budgets, and the warnings given."""

from __future__ import annotations

import datetime as dt
import time
from argparse import ArgumentParser, Namespace

from recollect.ask.budget.budget import (
    PersonCosts,
    given_warnings,
    reported_states,
    seen_limits,
    state_document,
)
from recollect.ask.budget.quick import give
from recollect.ask.budget.windows import Window, windows
from recollect.cli import statusline
from recollect.cli.team import person_costs
from recollect.cli.terminal import output
from recollect.cli.terminal.homes import asked_index, chosen_homes
from recollect.cli.terminal.options import add_index_options, add_json, flag, own_data
from recollect.cli.terminal.rows import aligned
from recollect.cli.terminal.text import shortened, visible
from recollect.model.budget import PERSON, BudgetSettings, BudgetState, dollars, due
from recollect.store.config_file import budget_settings
from recollect.system.locations import config_file

_SHOWN = 5
_WIDEST = 40


def add_options(parser: ArgumentParser) -> None:
    flag(parser, "--hook", "answer a hook of the client")
    flag(parser, "--team", "also budgets of persons, from the team server; gives their warnings")
    add_json(parser)
    add_index_options(parser)


def run(options: Namespace) -> int:
    if options.hook:
        return statusline.answer_hook(options.homes, options.data)
    config, data = str(config_file()), own_data(options)
    settings = budget_settings(config) or BudgetSettings()
    homes = [root.path for root in chosen_homes(options.homes) if root.exists]
    persons = _team(options, settings)
    now = dt.datetime.fromtimestamp(time.time(), dt.UTC)
    with asked_index(options, homes) as opened:
        states = reported_states(opened, settings, now.timestamp(), persons)
        spans = windows(opened, data, now)
    due_now = due([one for one in states if one.rule.scope == PERSON], settings.thresholds)
    for warning in give(due_now, str(data)):
        output.note(visible(warning.text))
    notes = []
    if persons is None and any(rule.scope == PERSON for rule in settings.rules):
        notes.append("budgets of persons are checked with --team")
    if options.json:
        output.print_json(
            {
                "windows": spans,
                "config": config,
                "thresholds": settings.thresholds,
                "budgets": [state_document(one) for one in states],
                "warnings": given_warnings(str(data)),
                "rate_limits": seen_limits(str(data)),
                "notes": notes,
            }
        )
    else:
        for span in spans:
            _say_window(span)
        _say(states, str(data), config)
        for note in notes:
            output.note(note)
    return int(any(one.percent >= 100 for one in states))


def _say_window(window: Window) -> None:
    """What is left of it, when it ends or runs out, and where that is known from."""
    spent = "" if window.usd is None else f", {dollars(window.usd.pico)} used"
    about = "about " if window.is_estimated and window.used_percentage else ""
    left = "" if window.left_percentage is None else f": {about}{window.left_percentage} % left"
    if window.is_beside_past and window.used_percentage is not None:
        left = f": {window.used_percentage} % of your largest one"
    output.say(f"{window.name}{left}{spent}{_end(window)}", "bold")
    output.say(f"  {window.basis}", "dim")


def _end(window: Window) -> str:
    if window.runs_out_at is not None:
        return f", runs out {window.runs_out_at.astimezone():%a %H:%M} at this pace"
    return "" if window.resets_at is None else f", resets {window.resets_at.astimezone():%a %H:%M}"


def _team(options: Namespace, settings: BudgetSettings) -> PersonCosts | None:
    """Asks the team server what persons spent; each span once."""
    if not options.team:
        return None

    known: dict[tuple[dt.datetime, dt.datetime], dict[str, tuple[int, list[str]]]] = {}

    def asked(since: dt.datetime, until: dt.datetime) -> dict[str, tuple[int, list[str]]]:
        if (since, until) not in known:
            known[since, until] = person_costs(options, since, until)
        return known[since, until]

    return asked


def _say(states: list[BudgetState], data: str, config: str) -> None:
    output.say("")
    if not states:
        output.say(f'No budget is set: in {visible(config)} write [budget] and below it day = "20.00"', "dim")
        return
    head = ["budget", "span", "spent", "of", ""]
    rows = [
        [
            shortened(visible(one.rule.label), _WIDEST),
            one.span,
            dollars(one.spent) + ("+" if one.unpriced else ""),
            dollars(one.rule.limit),
            f"{one.percent}%",
        ]
        for one in states
    ]
    for number, line in enumerate(aligned([head, *rows], 2)):
        output.say(line.rstrip(), None if number else "dim")
    for one in given_warnings(data)[-_SHOWN:]:
        output.say(visible(f"warned: {one.span}: {one.text}"))
