"""Print a completion script for bash, zsh or fish.

The script knows commands, options and choices; sessions, by id and by title,
are looked up in the index when you press TAB. Load it once:

  bash  D=~/.local/share/bash-completion/completions; mkdir -p $D
        recollect completion bash > $D/recollect
  zsh   recollect completion zsh > ~/.zfunc/_recollect   (~/.zfunc in $fpath)
  fish  recollect completion fish > ~/.config/fish/completions/recollect.fish

`recollect completion sessions WORD` is what the scripts call: sessions whose id
or title begins with WORD, or else whose title contains it. Changes nothing.

Example:
  recollect completion bash
  recollect completion sessions bask
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence

from recollect.cli.terminal.text import shortened, visible
from recollect.model.ids import short_id

_SHELLS = ("bash", "zsh", "fish")
_MOST, _TITLE_COLUMNS = 200, 60


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=[*_SHELLS, "sessions"], help="which script; or sessions")
    parser.add_argument(
        "words", metavar="WORD", nargs="*", help="with sessions: how it begins, then the line"
    )


def run(options: Namespace) -> int:
    if options.shell == "sessions":
        for line in _sessions(options):
            print(line)
        return 0
    from recollect.cli.shell import completion_scripts

    print(completion_scripts.SCRIPTS[options.shell](), end="")
    return 0


def _sessions(options: Namespace) -> Iterator[str]:
    """``value<TAB>description``; nothing, rather than a message, where something is wrong."""
    from recollect.errors import RecollectError

    start = (options.words[0] if options.words else "").lstrip("'\"")
    try:
        rows = _known(options, options.words[1:])
    except (RecollectError, OSError):
        return
    begin = start.casefold()
    by_id = [(name, title) for name, title in rows if name.startswith(begin)]
    by_title = [(title, name) for name, title in rows if begin and title.casefold().startswith(begin)]
    found = [*by_id, *by_title] or [(name, title) for name, title in rows if begin in title.casefold()]
    yield from (f"{value}\t{about}" for value, about in found[:_MOST])


def _known(options: Namespace, line: Sequence[str]) -> list[tuple[str, str]]:
    """Id and title of the sessions that the index knows, newest first; it is not updated for this."""
    from recollect.cli.main import global_options
    from recollect.cli.terminal.change_plans import own_cache, own_data
    from recollect.cli.terminal.homes import chosen_homes
    from recollect.services.indexing.access import index_path, is_built, open_index
    from recollect.services.indexing.at_hand import index_at_hand
    from recollect.services.list import ListQuery, listed

    typed, _ = global_options([word for word in line if word != "--"])
    options.homes = options.homes or typed["--home"]
    options.data = options.data or (typed["--data"][-1] if typed["--data"] else None)
    roots, cache = chosen_homes(options.homes, may_be_missing=True), own_cache(options)
    homes = [root.path for root in roots if root.exists]
    is_known = is_built(index_path(homes, cache))
    opener = (
        open_index(homes, cache=cache, is_refreshed=False) if is_known else index_at_hand(homes, cache=cache)
    )
    with opener as opened:
        query = ListQuery(with_counts=False, with_usage=False)
        found = listed(roots, opened, query, data=own_data(options)).sessions
    return [
        (visible(short_id(one.id)), shortened(visible(one.title), _TITLE_COLUMNS).removesuffix("…"))
        for one in found
    ]
