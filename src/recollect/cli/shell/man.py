"""Show a manual page, made from the help texts.

Without a command: recollect(1). On a terminal the page is shown by man; in a
pipe it is printed as roff. --write DIR writes all pages there, as recollect.1,
recollect-list.1 and so on: put it below a directory of $MANPATH.

Example:
  recollect man
  recollect man search
  recollect man --write ~/.local/share/man/man1
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from recollect.cli.terminal import output
from recollect.cli.terminal.text import counted, near_miss, visible
from recollect.errors import UsageError


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("command", metavar="COMMAND", nargs="?", help="the page of this command")
    parser.add_argument("--write", metavar="DIR", help="write all pages to this directory")


def run(options: Namespace) -> int:
    from recollect.cli.main import ALIASES, COMMANDS
    from recollect.cli.shell.man_pages import all_pages, man_page

    if options.write:
        from recollect.services.home_guard import refuse_agent_home

        refuse_agent_home(Path(options.write), "--write DIR")
        written = _write(Path(options.write).expanduser(), all_pages())
        output.say(f"{counted(written, 'page')} in {visible(options.write)}")
        return 0
    name = options.command
    if name is not None:
        name = ALIASES.get(name, [name])[0]
        if name not in COMMANDS:
            near = near_miss(name, COMMANDS)
            raise UsageError(f"unknown command {name!a}{near}", hint="`recollect --help` lists the commands")
    _show(man_page(name))
    return 0


def _write(directory: Path, pages: dict[str, str]) -> int:
    from recollect.system import fsops

    fsops.make_directories(directory)
    for name, page in pages.items():
        fsops.replace_file(directory / name, page.encode(), mode=0o644)
    return len(pages)


def _show(page: str) -> None:
    import shutil
    import subprocess

    program = shutil.which("man") if sys.stdout.isatty() else None
    if program is None:
        print(page, end="")
        return
    sys.stdout.flush()
    subprocess.run([program, "-l", "-"], input=page, text=True, encoding="utf-8", check=False)
