"""The second opinion: where tree-sitter-bash sees simple commands and their words.

The one idea: two parsers that share nothing must agree on the borders of every command and
every argument; a text they read differently is read by nobody. tree-sitter alone is not enough:
it is made for colouring source and accepts texts it misreads, without an ERROR node (the words
behind ``>file``, a backslash before a newline). The reader of this package alone is not enough
either: it is ours, and young.

Offsets are bytes of UTF-8. The grammar is loaded at the first call; a parser costs a microsecond,
so each call makes its own and threads share nothing but the immutable grammar and query.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tree_sitter import Language, Query

Span = tuple[int, int]


class Borders(NamedTuple):
    """What a parser saw: where commands begin, and the arguments of those it read word by word."""

    starts: frozenset[int]
    arguments: frozenset[Span]


NOT_SHOWN = frozenset({"[", "[[", "export", "declare", "typeset", "local", "readonly", "unset", "unsetenv"})
"""Commands whose words the tree does not show as arguments; only their beginning is compared."""


_QUERY = """
(command name: (command_name) @start)
(command argument: (_) @argument)
(declaration_command) @start
(unset_command) @start
(test_command) @start
(file_redirect) @redirect
(heredoc_redirect argument: (_) @argument)
"""


def borders(text: str) -> Borders | None:
    """What tree-sitter sees; None when it sees an error. ``text`` must be encodable."""
    from tree_sitter import Parser, QueryCursor

    language, query = _grammar()
    root = Parser(language).parse(text.encode()).root_node
    if root.has_error:
        return None
    seen = QueryCursor(query).captures(root)
    arguments = {(node.start_byte, node.end_byte) for node in seen.get("argument", ())}
    for redirect in seen.get("redirect", ()):
        # The grammar counts every word behind `>file` to the redirect; the shell gives them to the command.
        targets = redirect.children_by_field_name("destination")
        arguments.update((node.start_byte, node.end_byte) for node in targets[1:])
    return Borders(frozenset(node.start_byte for node in seen.get("start", ())), frozenset(arguments))


@cache
def _grammar() -> tuple[Language, Query]:
    import tree_sitter_bash
    from tree_sitter import Language, Query

    language = Language(tree_sitter_bash.language())
    return language, Query(language, _QUERY)
