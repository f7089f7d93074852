"""The commands ``mcp plugin``, ``limits statusline --install``, ``rules flags`` and ``rules restore``: what the client reads beside its sessions."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import sys
from argparse import ArgumentParser, Namespace

from msgspec import structs

from recollect.change.plugin import (
    STATUS_LINE,
    PluginPart,
    PluginPlan,
    archive_session,
    planned_install,
    planned_removal,
)
from recollect.change.settings import config_rescue
from recollect.change.settings.config_rescue import (
    ConfigRestore,
)
from recollect.change.settings.settings import FeatureFlags, changed, newest, planned
from recollect.cli.terminal import output
from recollect.cli.terminal.homes import claude_directories, directories, no_claude_home, only_home
from recollect.cli.terminal.options import add_apply, add_json, command, flag, own_data, say_end, undo_of
from recollect.cli.terminal.sessions import open_home
from recollect.cli.terminal.text import counted, shortened, size, visible
from recollect.errors import NotFound, RecollectError, UsageError
from recollect.model.settings.config_merge import looked_up
from recollect.store.changes.journal import Change
from recollect.store.client_settings import flag_cache

_LARGEST = 1 << 20


def add_plugin_options(parser: ArgumentParser) -> None:
    parser.add_argument("action", choices=["install", "archive"], metavar="ACTION", help="see above")
    flag(parser, "--archive", "also the plugin that archives sessions")
    flag(parser, "--guard", "also the plugin with the permission hook")
    flag(parser, "--status-line", "also the status line")
    flag(parser, "--remove", "switch it off again")
    add_apply(parser)


def run_plugin(options: Namespace) -> int:
    if options.action == "archive":
        return _archive(options)
    chosen = _parts(options)
    if options.remove and chosen:
        raise UsageError(
            f"mcp plugin install: --remove and --{chosen[0]}", hint="--remove switches all of it off"
        )

    home = only_home(options)
    found = planned_removal(home) if options.remove else planned_install(home, chosen)
    applied = changed(found.plan, own_data(options)) if options.apply else None
    undo = command(options, "undo", applied.id, "--apply") if applied else None
    notes = [*found.left, *([] if options.remove or shutil.which("recollect") else [_NOT_ON_PATH])]
    if options.json:
        return output.print_json(
            {
                "applied": applied is not None,
                "undo": undo,
                "file": found.file,
                "directory": found.directory,
                "on": found.on,
                "off": found.off,
                "notes": notes,
                "changes": found.plan is not None,
            }
        )
    _tell_plugin(options, found, notes, undo)
    return 0


_NOT_ON_PATH = (
    "recollect is not on PATH: the client could not start its server; install it with pipx or uv tool"
)


def add_statusline_options(parser: ArgumentParser) -> None:
    add_apply(parser)


def run_statusline(options: Namespace) -> int:
    """Set the status line of the user's settings; what was there before comes back by its undo."""
    found = planned(only_home(options), ".", "user", "statusLine", STATUS_LINE)
    applied = changed(found.plan, own_data(options)) if options.apply else None
    undo = command(options, "undo", applied.id, "--apply") if applied else None
    notes = [] if shutil.which("recollect") else [_NO_STATUS_LINE]
    if options.json:
        return output.print_json(
            {
                "applied": applied is not None,
                "undo": undo,
                "file": found.file,
                "before": found.before,
                "after": found.after,
                "changes": found.plan is not None,
                "notes": notes,
            }
        )
    if found.plan is None:
        output.say(f"{visible(str(found.file))}: the status line is set already")
    else:
        verb = "Set" if applied else "Would set"
        output.say(f"{verb} statusLine in {visible(str(found.file))} to: {STATUS_LINE['command']}")
        if found.before is not None:
            output.say(f"  instead of: {visible(json.dumps(found.before, ensure_ascii=False))}", "yellow")
    for note in notes:
        output.say(note, "yellow")
    if found.plan is not None:
        say_end(options, command(options, "limits", "statusline", "--install", "--apply"), undo or "")
    return 0


_NO_STATUS_LINE = "recollect is not on PATH: the agent could not run it; install it with pipx or uv tool"


def _parts(options: Namespace) -> list[PluginPart]:
    named: dict[PluginPart, bool] = {
        "archive": options.archive,
        "guard": options.guard,
        "status line": options.status_line,
    }
    return [part for part, is_wanted in named.items() if is_wanted]


def _tell_plugin(options: Namespace, found: PluginPlan, notes: list[str], undo: str | None) -> None:
    if found.plan is None:
        output.say(f"{visible(str(found.file))}: nothing to do")
    else:
        verb = "Changed" if undo else "Would change"
        output.say(f"{verb} {output.styled(visible(str(found.file)), 'cyan')}")
        for name in found.on:
            output.say(f"  on   {name}")
        for name in found.off:
            output.say(f"  off  {name}")
        if found.on:
            output.say(f"  from {visible(str(found.directory))}")
    for note in notes:
        output.say(visible(note), "yellow")
    if found.plan is not None:
        words = [f"--{part.replace(' ', '-')}" for part in _parts(options)]
        words += ["--remove"] if options.remove else []
        say_end(options, command(options, "mcp", "plugin", "install", *words, "--apply"), undo or "")


def _archive(options: Namespace) -> int:
    """Exit status 1 at worst: 2 would stop the client from compacting."""
    try:
        home = open_home(options.homes)
        archive_session(home, sys.stdin.buffer.read(_LARGEST), own_data(options))
    except RecollectError as problem:
        print(
            f"recollect mcp plugin archive: {visible(problem.message)}\n  {visible(problem.hint)}",
            file=sys.stderr,
        )
        return 1
    return 0


def add_flags_options(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="only this gate or config")
    parser.add_argument("--user", metavar="HASH", help="the cache of this user, by the end of its file name")
    add_json(parser)


def run_flags(options: Namespace) -> int:
    homes = claude_directories(options)
    found = newest([flag_cache(home) for home in homes], dt.datetime.now(dt.UTC), user_hash=options.user)
    gates, configs = _chosen(found, options.name)
    if options.json:
        output.print_json(structs.replace(found, gates=gates, configs=configs))
        return 0 if found.valid else 1
    for name, value in gates.items():
        output.say(f"gate    {visible(name)} = {output.styled('on', 'green') if value else 'off'}")
    for name, config in configs.items():
        shown = shortened(visible(json.dumps(config, ensure_ascii=False)), 100)
        output.say(f"config  {visible(name)} = {shown}")
    age = "" if found.age_seconds is None else f", {found.age_seconds / 3600:.1f} h old"
    state = "valid" if found.valid else visible(found.why)
    output.say(f"{counted(len(gates), 'gate')}, {counted(len(configs), 'config')}{age}: {state}")
    return 0 if found.valid else 1


def _chosen(found: FeatureFlags, name: str | None) -> tuple[dict[str, bool], dict[str, object]]:
    if name is None:
        return found.gates, dict(found.configs)
    gate = looked_up(found.gates, name, found.hash_used)
    config = looked_up(found.configs, name, found.hash_used)
    if gate is None and config is None and found.file is not None:
        raise NotFound(f"flag {name!r}: not in {found.file}", hint="`recollect rules flags` lists all flags")
    return ({} if gate is None else {name: gate}), ({} if config is None else {name: config})


_KEYS_SHOWN = 60


def add_restore_options(parser: ArgumentParser) -> None:
    add_apply(parser)


def run_restore(options: Namespace) -> int:
    homes = directories(options.homes)
    # Several homes may share one file: restore it once, with the copies of the first.
    first = {home.config_file: home for home in reversed(homes) if home.config_file is not None}
    found = {home: config_rescue.planned_restore(home, homes) for home in reversed(first.values())}
    if not found:
        raise no_claude_home("rules restore", [])
    done: list[Change] = []
    for home in found if options.apply else ():
        applied = config_rescue.restored(home, own_data(options), homes)
        done += [applied] if applied is not None else []
    undo = undo_of(options, [one.id for one in done])
    if options.json:
        return output.print_json({"configs": list(found.values()), "applied": bool(done), "undo": undo})
    for one in found.values():
        _tell_config(options, one)
    if any(one.changes for one in found.values()):
        say_end(options, command(options, "rules", "restore", "--apply"), "; ".join(undo))
    return 0


def _tell_config(options: Namespace, one: ConfigRestore) -> None:
    state = f": {visible(one.problem)}" if one.problem else ""
    output.say(f"{output.styled(visible(str(one.config)), 'cyan')}{state}")
    for copy in one.copies:
        at = dt.datetime.fromtimestamp(copy.at / 1e9, dt.UTC)
        what = copy.problem or f"{counted(copy.projects, 'project')}, {counted(copy.servers, 'server')}"
        output.say(visible(f"  copy of {at:%Y-%m-%d %H:%M:%S} UTC, {size(copy.size)}, {what}: {copy.path}"))
    if not one.changes:
        output.say("  Nothing to restore: no copy has anything that is missing")
        return
    output.say(f"  {'Restored' if options.apply else 'Would restore'}, based on {visible(str(one.best))}:")
    for change in one.changes[:_KEYS_SHOWN]:
        secret = " (secret)" if change.is_secret else ""
        output.say(f"    {change.how:<7} {' > '.join(map(visible, change.path))}{secret}")
    if len(one.changes) > _KEYS_SHOWN:
        output.say(f"    ... and {len(one.changes) - _KEYS_SHOWN} more; --json lists all")
    if one.open_in and not options.apply:
        output.say(f"  A client is running (process {one.open_in[0]}): refused until it is closed", "red")
