"""Show what is left of your budgets, the warnings given, and rate limits seen.

Budgets are in config.toml, in $XDG_CONFIG_HOME/recollect (~/.config/recollect):
  [budget]
  day = "20.00"              # dollars; week = ... likewise
  warn = [80, 100]           # per cent at which to warn
  burn = "4.00"              # dollars an hour, for burn_hours = 3 hours on end
  command = ["notify"]       # gets the warning as JSON on stdin
  desktop = true             # a notice on the desktop
  webhook = "https://..."    # gets the same JSON
  [budget.projects."~/shop"] # also [budget.models.opus], and for the team
  day = 5                    # server [budget.persons."anna@example.org"]

Days and weeks (from Monday) are local. Amounts are those of `recollect cost`.
Each warning is given once, however many sessions run. The status line
(`recollect statusline`) gives them and shows the budget nearest to its end; so
does a hook of the client, in its settings.json:
  {"hooks": {"Stop": [{"hooks": [{"type": "command",
    "command": "recollect budget --hook"}]}]}}
Warnings about persons are given by --team: run it from a timer.

Exit status: 1 if a budget is spent, else 0. --hook: always 0.

Example:
  recollect budget
  recollect budget --json --team
"""

from __future__ import annotations

import datetime as dt
import time
from argparse import ArgumentParser, Namespace

from recollect.cli.spend import budget_hook
from recollect.cli.terminal import output
from recollect.cli.terminal.change_plans import own_data
from recollect.cli.terminal.homes import chosen_homes
from recollect.cli.terminal.index_options import add_index_options, asked_index
from recollect.cli.terminal.text import padded, shortened, visible, width
from recollect.errors import UsageError
from recollect.model.budget import PERSON, BudgetSettings, BudgetState, due
from recollect.model.cost.cents import dollars
from recollect.services.budget.budget import (
    PersonCosts,
    given_warnings,
    reported_states,
    seen_limits,
    state_document,
)
from recollect.services.budget.deliver import deliver_marked
from recollect.services.budget.quick import take
from recollect.services.documents.cost.budget import BudgetDocument
from recollect.storage.config.budget_settings import budget_settings
from recollect.system.locations import config_file

_SHOWN = 5
_WIDEST = 40


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--hook", action="store_true", help="answer a hook of the client")
    parser.add_argument(
        "--team",
        action="store_true",
        help="also budgets of persons, from the team server; gives their warnings",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    add_index_options(parser)


def run(options: Namespace) -> int:
    if options.hook:
        return budget_hook.main(options.homes, options.data)
    config, data = str(config_file()), str(own_data(options))
    settings = budget_settings(config)
    if settings is None:
        raise UsageError(
            f"{config}: no budget is set", hint='write [budget] and below it day = "20.00"; see --help'
        )
    homes = [root.path for root in chosen_homes(options.homes) if root.exists]
    persons = _team(options, settings)
    with asked_index(options, homes) as opened:
        states = reported_states(homes, opened, settings, time.time(), persons)
    _warn_about_persons(settings, states, data)
    notes = []
    if persons is None and any(rule.scope == PERSON for rule in settings.rules):
        notes.append("budgets of persons are checked with --team")
    if options.json:
        output.print_json(
            BudgetDocument(
                config=config,
                thresholds=list(settings.thresholds),
                budgets=[state_document(one) for one in states],
                warnings=given_warnings(data),
                rate_limits=seen_limits(data),
                notes=notes,
            )
        )
    else:
        _say(states, data)
        for note in notes:
            output.note(note)
    return int(any(one.percent >= 100 for one in states))


def _team(options: Namespace, settings: BudgetSettings) -> PersonCosts | None:
    """Asks the team server what persons spent; each span once."""
    if not options.team:
        return None
    from recollect.cli.team.team import person_costs

    known: dict[tuple[dt.datetime, dt.datetime], dict[str, tuple[int, list[str]]]] = {}

    def asked(since: dt.datetime, until: dt.datetime) -> dict[str, tuple[int, list[str]]]:
        if (since, until) not in known:
            known[since, until] = person_costs(options, since, until)
        return known[since, until]

    return asked


def _warn_about_persons(settings: BudgetSettings, states: list[BudgetState], data: str) -> None:
    """Only ``--team`` knows what persons spent, so it gives their warnings, and waits until they are delivered.

    A timer runs it: what systemd starts has its background processes ended with it.
    """
    given = take(due([one for one in states if one.rule.scope == PERSON], settings.thresholds), data)
    if given:
        deliver_marked(settings, data, [one.key for one in given])


def _say(states: list[BudgetState], data: str) -> None:
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
    widths = [max(map(width, column)) for column in zip(head, *rows, strict=True)]
    for number, row in enumerate([head, *rows]):
        cells = [
            padded(cell, wide) if at < 2 else " " * (wide - width(cell)) + cell
            for at, (cell, wide) in enumerate(zip(row, widths, strict=True))
        ]
        line = "  ".join(cells).rstrip()
        output.say(output.styled(line, "dim") if not number else line)
    for one in given_warnings(data)[-_SHOWN:]:
        ways = ", ".join(f"{way} {outcome}" for way, outcome in one.delivered.items())
        output.say(visible(f"warned: {one.span}: {one.text}" + (f" ({ways})" if ways else "")))
    for limit in _newest(data):
        output.say(limit)


def _newest(data: str) -> list[str]:
    """The last that was seen of each rate limit."""
    last = {one.window: one for one in seen_limits(data)}
    return [
        visible(f"rate limit {one.window}: {one.used_percentage}% used, seen {one.at}")
        for one in last.values()
    ]
