"""Find config files the client would ignore or reset; restore .claude.json.

check reads .claude.json, the user settings, and the settings of every project
that .claude.json names. restore merges .claude.json with its backups: projects,
servers and keys of all copies, the newest value first. Trust and approvals are
never widened: the stricter copy wins. Prints names of keys, never values.
Prints the plan; --apply carries it out, `recollect undo` takes it back.

Example:
  recollect config check
  recollect config restore
  recollect config restore --apply
"""

from __future__ import annotations

import datetime as dt
from argparse import ArgumentParser, Namespace

from recollect.cli.terminal import change_plans, output
from recollect.cli.terminal.homes import directories
from recollect.cli.terminal.text import counted, size, visible
from recollect.errors import NotFound
from recollect.model.settings.config_merge import KeyChange
from recollect.services.documents.settings import (
    ConfigCheckDocument,
    ConfigRestoresDocument,
    config_restore_document,
)
from recollect.services.settings import config_rescue
from recollect.services.settings.config_rescue import ConfigFileCheck, ConfigRestore
from recollect.storage.changes.journal import AppliedChange

_KEYS_SHOWN = 60
_MEANS = {
    "reset": "the client would start with an empty one",
    "ignored": "the client would ignore all of it, deny rules included",
    "unreadable": "the client may not find its projects",
}


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("action", choices=["check", "restore"], help="check files, or restore .claude.json")
    change_plans.add_apply(parser)


def run(options: Namespace) -> int:
    return _check(options) if options.action == "check" else _restore(options)


# ---- check -----------------------------------------------------------------------------------------------


def _check(options: Namespace) -> int:
    homes = directories(options.homes)
    found = list({one.path: one for home in homes for one in config_rescue.checked(home)}.values())
    problems = [one for one in found if one.is_problem]
    if options.json:
        output.print_json(ConfigCheckDocument(found, len(problems)))
        return 1 if problems else 0
    for one in found:
        _tell_file(one)
    output.say(f"{counted(len(problems), 'file')} with problems, {len(found)} checked")
    if any(one.kind == "config" for one in problems):
        output.say(f"Restore it with: {change_plans.command(options, 'config', 'restore')}")
    return 1 if problems else 0


def _tell_file(one: ConfigFileCheck) -> None:
    colour = "red" if one.is_problem else "green" if one.verdict == "fine" else "dim"
    output.say(f"{output.styled(one.verdict, colour)}  {visible(str(one.path))}")
    if one.is_problem:
        output.say(f"  {visible(one.why)}: {_MEANS[one.verdict]}")


# ---- restore ---------------------------------------------------------------------------------------------


def _restore(options: Namespace) -> int:
    homes = directories(options.homes)
    # Several homes may share one file: restore it once, with the copies of the first.
    first = {home.config_file: home for home in reversed(homes) if home.config_file is not None}
    found = [config_rescue.planned_restore(home, homes) for home in reversed(first.values())]
    if not found:
        raise NotFound("config: no Claude home was found", hint="name one with --home DIR")
    done: list[AppliedChange] = []
    for one in found if options.apply else ():
        applied = (
            config_rescue.restored(one, change_plans.own_data(options)) if one.plan is not None else None
        )
        done += [applied] if applied is not None else []
    undo = change_plans.undo_of(options, [one.id for one in done])
    if options.json:
        configs = [config_restore_document(one) for one in found]
        output.print_json(ConfigRestoresDocument(configs, bool(done), undo))
        return 0
    for one in found:
        _tell(options, one)
    if any(one.plan is not None for one in found):
        change_plans.say_end(
            options, change_plans.command(options, "config", "restore", "--apply"), "; ".join(undo)
        )
    return 0


def _tell(options: Namespace, one: ConfigRestore) -> None:
    state = f": {visible(one.problem)}" if one.problem else ""
    output.say(f"{output.styled(visible(str(one.config)), 'cyan')}{state}")
    for copy in one.copies:
        at = dt.datetime.fromtimestamp(copy.at / 1e9, dt.UTC)
        what = copy.problem or f"{counted(copy.projects, 'project')}, {counted(copy.servers, 'server')}"
        output.say(visible(f"  copy of {at:%Y-%m-%d %H:%M:%S} UTC, {size(copy.size)}, {what}: {copy.path}"))
    if one.plan is None:
        output.say("  Nothing to restore: no copy has anything that is missing")
        return
    output.say(f"  {'Restored' if options.apply else 'Would restore'}, based on {visible(str(one.best))}:")
    for change in one.changes[:_KEYS_SHOWN]:
        output.say(f"    {_change(change)}")
    if len(one.changes) > _KEYS_SHOWN:
        output.say(f"    ... and {len(one.changes) - _KEYS_SHOWN} more; --json lists all")
    if one.open_in and not options.apply:
        output.say(
            output.styled(
                f"  A client is running (process {one.open_in[0]}): refused until it is closed", "red"
            )
        )


def _change(change: KeyChange) -> str:
    secret = " (secret)" if change.is_secret else ""
    return f"{change.how:<7} {' > '.join(map(visible, change.path))}{secret}"
