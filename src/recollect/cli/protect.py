"""The commands ``protect`` and ``protect off``: the hourly run that archives every session."""

from __future__ import annotations

import datetime as dt
import shutil
from argparse import ArgumentParser, Namespace
from pathlib import Path

from recollect.agents.homes import deletion_warnings
from recollect.ask import protection
from recollect.ask.protection import ProtectInstall, Protection, retention_days
from recollect.change import keeping, undo
from recollect.change.settings import settings
from recollect.change.settings.settings import SettingChange
from recollect.cli.terminal import output
from recollect.cli.terminal.homes import chosen_homes
from recollect.cli.terminal.options import add_apply, command, flag, own_data, say_end
from recollect.cli.terminal.rows import protection_line
from recollect.cli.terminal.text import visible, wrapped
from recollect.errors import NotFound, RecollectError, UsageError
from recollect.store.changes.batch import word_of
from recollect.store.home import ClaudeHome
from recollect.system import scheduler
from recollect.system.locations import HomeRoot
from recollect.system.scheduler import JobEntry

_SCHEDULERS = ("systemd", "cron", "launchd", "windows")


def add_protect_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--keep-days", type=int, metavar="N", help="also let the client keep sessions for N days"
    )
    parser.add_argument("--scheduler", choices=_SCHEDULERS, help="which scheduler (default: this system's)")
    flag(parser, "--run", "archive now; this is what the scheduler runs")
    add_apply(parser)


def run_protect(options: Namespace) -> int:
    data = own_data(options)
    if options.run:
        return _run(options, data)
    homes = [home for home in chosen_homes(options.homes) if home.exists]
    if not homes:
        raise NotFound("protect: no Claude home was found", hint="name one with --home DIR")
    raised = _raised(options, homes)
    job = keeping.job([home.path for home in homes], data)
    chosen = options.scheduler or scheduler.usual_scheduler()
    if chosen == "cron" and shutil.which("crontab") is None:
        missing = "no scheduler is here: no timer of systemd for a user, and no crontab"
        instead = f"`recollect protect now` archives once; to repeat it, let a scheduler run: {job.line}"
        if options.apply or options.json:
            raise NotFound(f"protect: {missing}", hint=instead)
        output.say(f"Nothing can run every hour: {missing}.")
        output.note(visible(f"  {instead}"))
        return 0
    entry = scheduler.entry_of(job, chosen)
    if not options.apply:
        return _tell_plan(options, homes, entry, raised, job.line)
    for one in raised:
        settings.changed(one.plan, data)
    before = protection.read_protection(data, [], dt.datetime.now(dt.UTC)).installed
    if before is not None and before.scheduler != entry.scheduler:
        scheduler.remove(before.name, before.scheduler)
    is_set_up = scheduler.install(job, entry.scheduler)
    now = dt.datetime.now(dt.UTC)
    named = tuple(str(home.path.absolute()) for home in homes)
    protection.remember(
        data, ProtectInstall(now, entry.scheduler, job.name, job.words, named, _raised_before(data))
    )
    problem = _first_run(homes, data, job.words)
    return _tell_done(options, homes, entry, raised, problem, is_set_up=is_set_up)


def _raised(options: Namespace, homes: list[HomeRoot]) -> list[SettingChange]:
    """The settings that let the client keep sessions longer; never shorter."""
    if options.keep_days is None:
        return []
    if options.keep_days < 1:
        raise UsageError(f"--keep-days {options.keep_days}: must be 1 or more", hint="for example 365")
    found = [ClaudeHome(home.path, home.config_file) for home in homes]
    short = [home for home in found if retention_days(home) < options.keep_days]
    return [settings.planned(home, ".", "user", "cleanupPeriodDays", options.keep_days) for home in short]


def _raised_before(data: Path) -> tuple[str, ...]:
    """Every change of the settings that this command made and that stands, also in a run that was killed."""
    return tuple(
        one.id
        for one in reversed(undo.changes(data))
        if one.what == "settings" and one.state == "done" and word_of(one.batch) == "protect"
    )


def _first_run(homes: list[HomeRoot], data: Path, words: tuple[str, ...]) -> str:
    """Archive with a progress bar, then as the scheduler does it; what went wrong, or nothing."""
    try:
        with output.progress_bar("archiving") as progress:
            done = keeping.run([home.path for home in homes], data, progress)
    except RecollectError as problem:
        return problem.message
    return done.reason or keeping.rehearsal(words)


# ---- the run ---------------------------------------------------------------------------------------------


def _run(options: Namespace, data: Path) -> int:
    named = [Path(home) for home in options.homes] or [
        home.path for home in chosen_homes([], may_be_missing=True)
    ]
    with output.progress_bar("archiving") as progress:
        done = keeping.run(named, data, progress)
    if options.json:
        output.print_json(done)
    elif not done.is_complete:
        output.note(visible(f"recollect protect: {done.reason}"))
    return 0 if done.is_complete else 1


# ---- what is said ----------------------------------------------------------------------------------------


def _tell_plan(
    options: Namespace, homes: list[HomeRoot], entry: JobEntry, raised: list[SettingChange], line: str
) -> int:
    state = protection.read_protection(own_data(options), homes, dt.datetime.now(dt.UTC))
    if options.json:
        return output.print_json(_document(options, state, entry, raised, line))
    _tell_state(state)
    for warning in deletion_warnings(homes):
        output.note(visible(warning))
    output.say(f"Would run every hour, by {entry.scheduler}: {visible(line)}")
    _tell_entry(entry)
    for one in raised:
        output.say(visible(f"Would set cleanupPeriodDays in {one.file}: {one.before or 30} -> {one.after}"))
    output.say("Would archive every session once, now")
    flags = ["--keep-days", str(options.keep_days)] if options.keep_days is not None else []
    flags += ["--scheduler", options.scheduler] if options.scheduler else []
    say_end(options, command(options, "protect", *flags, "--apply"), "")
    return 0


def _tell_entry(entry: JobEntry) -> None:
    for place, text in entry.texts.items():
        output.say(f"  {visible(place)}:", "dim")
        for line in text.splitlines():
            output.say(visible(f"    {line}"), "dim")
    if entry.load:
        output.say(visible(f"  Save it, then type: {entry.load}"))


def _tell_done(
    options: Namespace,
    homes: list[HomeRoot],
    entry: JobEntry,
    raised: list[SettingChange],
    problem: str,
    *,
    is_set_up: bool,
) -> int:
    state = protection.read_protection(own_data(options), homes, dt.datetime.now(dt.UTC))
    if options.json:
        line = " ".join(state.installed.command) if state.installed is not None else ""
        output.print_json(_document(options, state, entry, raised, line))
        return 1 if problem else 0
    if is_set_up:
        output.say(f"Set up: every hour, by {entry.scheduler}, in {visible(', '.join(entry.texts))}")
    else:
        output.say(f"The text for {entry.scheduler}; recollect cannot load it for you:")
        _tell_entry(entry)
    for one in raised:
        output.say(visible(f"Set cleanupPeriodDays in {one.file}: {one.before or 30} -> {one.after}"))
    if entry.scheduler == "systemd":
        output.note("It runs while you are logged in; `loginctl enable-linger` lets it run always.")
    _tell_state(state)
    if problem:
        output.note(visible(f"The first run failed: {problem}"))
    output.say(f"Undo with: {command(options, 'protect', 'off', '--apply')}")
    return 1 if problem else 0


def _tell_state(state: Protection) -> None:
    text = f"Protected {protection_line(state, dt.datetime.now(dt.UTC))}"
    for line in wrapped(text, "", "  "):
        output.say(line)


def _document(
    options: Namespace, state: Protection, entry: JobEntry | None, raised: list[SettingChange], line: str
) -> dict[str, object]:
    return {
        "applied": options.apply,
        "undo": command(options, "protect", "off", "--apply") if options.apply and entry else None,
        "protection": state,
        "scheduler": entry.scheduler if entry is not None else None,
        "entry": entry.texts if entry is not None else {},
        "command": line,
        "settings": [one.file for one in raised],
    }


# ---- remove ----------------------------------------------------------------------------------------------


def add_off_options(parser: ArgumentParser) -> None:
    add_apply(parser)


def run_off(options: Namespace) -> int:
    data = own_data(options)
    now = dt.datetime.now(dt.UTC)
    installed = protection.read_protection(data, [], now).installed
    if installed is None:
        raise NotFound("protect: nothing is set up", hint="`recollect protect --apply` sets it up")
    refused: list[str] = []
    was_there = False
    if options.apply:
        was_there = scheduler.remove(installed.name, installed.scheduler)
        refused = _settings_back(data, installed)
        protection.forget(data)
    if options.json:
        output.print_json(_document(options, protection.read_protection(data, [], now), None, [], ""))
        return 1 if refused else 0
    verb = "Removed" if options.apply else "Would remove"
    output.say(f"{verb} the hourly run of {installed.scheduler} ({installed.name}); the archive stays")
    if options.apply and not was_there:
        output.note("The scheduler had no such entry any more; if you loaded it yourself, unload it there.")
    for _ in installed.changes:
        output.say(f"{'Set' if options.apply else 'Would set'} cleanupPeriodDays back")
    for reason in refused:
        output.note(visible(f"not set back: {reason}"))
    again = command(options, "protect", "off", "--apply")
    say_end(options, again, command(options, "protect", "--apply"))
    return 1 if refused else 0


def _settings_back(data: Path, installed: ProtectInstall) -> list[str]:
    """Take back what was raised, the newest first; a change that was undone already is no problem."""
    refused = []
    for name in reversed(installed.changes):
        try:
            change = undo.found_change(data, name)
            if change.state == "done":
                undo.undo(data, change)
        except RecollectError as problem:
            refused.append(problem.message)
    return refused
