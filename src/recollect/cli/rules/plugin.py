"""Install the Claude Code plugin: ask, search, price and resume in the client.

  install   switch the plugin on in the home's settings; the client loads it at
            its next start. Prints the plan; --apply carries it out
  archive   what the archive hook runs: archives the session named on stdin

The plugin brings a read-only MCP server (`recollect mcp serve`), a skill that
says when to ask it, and /recollect:search, /recollect:cost, /recollect:resume.
No hook puts text into a conversation. These are off unless you ask for them:

  --archive      archive each session when it ends and before a compaction
  --guard        `recollect perm hook`: holds back calls that your rules deny,
                 never allows one
  --status-line  `recollect statusline` as the status line, if none is set

--remove switches all of it off again. Without recollect, a checkout works too:
`claude plugin marketplace add CHECKOUT/plugin`.

Example:
  recollect plugin install
  recollect plugin install --archive --apply
  recollect plugin install --remove --apply
"""

from __future__ import annotations

import shutil
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from recollect.cli.terminal import change_plans, output
from recollect.cli.terminal.text import visible
from recollect.errors import RecollectError, UsageError

if TYPE_CHECKING:
    from recollect.services.plugin.install import PluginPart, PluginPlan

_LARGEST = 1 << 20


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("action", choices=["install", "archive"], metavar="ACTION", help="see above")
    parser.add_argument("--archive", action="store_true", help="also the plugin that archives sessions")
    parser.add_argument("--guard", action="store_true", help="also the plugin with the permission hook")
    parser.add_argument("--status-line", action="store_true", help="also the status line")
    parser.add_argument("--remove", action="store_true", help="switch it off again")
    change_plans.add_apply(parser)


def run(options: Namespace) -> int:
    if options.action == "archive":
        return _archive(options)
    chosen = _parts(options)
    if options.remove and chosen:
        raise UsageError(
            f"plugin install: --remove and --{chosen[0]}", hint="--remove switches all of it off"
        )
    from recollect.cli.rules.settings import only_home
    from recollect.services.plugin.install import planned_install, planned_removal
    from recollect.services.settings.settings import changed

    home = only_home(options)
    found = planned_removal(home) if options.remove else planned_install(home, chosen)
    applied = changed(found.plan, change_plans.own_data(options)) if options.apply else None
    undo = change_plans.command(options, "undo", applied.id, "--apply") if applied else None
    notes = [*found.left, *([] if options.remove or shutil.which("recollect") else [_NOT_ON_PATH])]
    if options.json:
        from recollect.services.documents.changes.plugin import PluginDocument

        document = PluginDocument(
            file=found.file,
            directory=found.directory,
            on=found.on,
            off=found.off,
            notes=notes,
            changes=found.plan is not None,
            applied=applied is not None,
            undo=undo,
        )
        output.print_json(document)
        return 0
    _tell(options, found, notes, undo)
    return 0


_NOT_ON_PATH = (
    "recollect is not on PATH: the client could not start its server; install it with pipx or uv tool"
)


def _parts(options: Namespace) -> list[PluginPart]:
    named: dict[PluginPart, bool] = {
        "archive": options.archive,
        "guard": options.guard,
        "status line": options.status_line,
    }
    return [part for part, is_wanted in named.items() if is_wanted]


def _tell(options: Namespace, found: PluginPlan, notes: list[str], undo: str | None) -> None:
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
        output.say(output.styled(visible(note), "yellow"))
    if found.plan is not None:
        words = [f"--{part.replace(' ', '-')}" for part in _parts(options)]
        words += ["--remove"] if options.remove else []
        change_plans.say_end(
            options, change_plans.command(options, "plugin", "install", *words, "--apply"), undo or ""
        )


def _archive(options: Namespace) -> int:
    """Exit status 1 at worst: 2 would stop the client from compacting."""
    from recollect.cli.terminal.homes import open_home
    from recollect.services.plugin.hook import archive_session

    try:
        home = open_home(options.homes)
        archive_session(home, sys.stdin.buffer.read(_LARGEST), change_plans.own_data(options))
    except RecollectError as problem:
        print(
            f"recollect plugin archive: {visible(problem.message)}\n  {visible(problem.hint)}",
            file=sys.stderr,
        )
        return 1
    return 0
