"""Read sessions in the terminal: pick one, scroll, search inside it.

Without a session: a list to pick from. Type to filter by title, first prompt,
directory, branch, tag or id; enter opens, ctrl-y copies the command that
continues the session, esc leaves. In a conversation: arrows, space and b
scroll, / searches, n and N go to the next and the previous match, [ and ] jump
between prompts, g and G to the ends, q goes back. Changes nothing.

Example:
  recollect browse
  recollect browse @last
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from recollect.cli.look.picker import Picker, PickerSources
from recollect.cli.terminal.change_plans import own_cache, own_data
from recollect.cli.terminal.homes import chosen_homes, open_home
from recollect.cli.terminal.screen import Screen, whole_screen
from recollect.cli.terminal.text import visible
from recollect.model.ids import short_id

if TYPE_CHECKING:
    from recollect.services.list import ListedSession

_OTHERWISE = "recollect show S prints a conversation, recollect list the sessions"


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "session", metavar="S", nargs="?", help="session: id, start of an id, title, path, or @last"
    )


def run(options: Namespace) -> int:
    if options.session is not None:
        name = open_home(options.homes).session(options.session).path
        with whole_screen(_OTHERWISE) as screen:
            _read(screen, options, str(name))
        return 0
    with whole_screen(_OTHERWISE) as screen:
        picker = new_picker(screen, options, "read")
        while (one := picker.picked()) is not None:
            screen.forget()
            _read(screen, options, name_of(one))
            screen.forget()
            picker.paint()
    return 0


def new_picker(screen: Screen, options: Namespace, verb: str) -> Picker:
    """A picker over the chosen homes, painted for the first time."""
    sources = PickerSources(chosen_homes(options.homes), own_cache(options), own_data(options))
    picker = Picker(screen, sources, verb, lambda one: _command(options, one))
    picker.load_first()
    return picker


def name_of(one: ListedSession) -> str:
    """A name that leads to this session only; what only the archive has is known by its id."""
    return one.id if one.is_archived else one.path


def _command(options: Namespace, one: ListedSession) -> str:
    from recollect.cli.look.resume import command_line
    from recollect.services.resume import resumption

    return command_line(resumption(open_home(options.homes).session(name_of(one))))


def _read(screen: Screen, options: Namespace, name: str) -> None:
    from recollect.cli.look.reader import Reader

    session = open_home(options.homes).session(name)
    title = (
        f"{visible(session.title) or '(no title)'}  {visible(session.cwd)}  {visible(short_id(session.id))}"
    )
    Reader(screen, title, session.conversation().messages).read()
