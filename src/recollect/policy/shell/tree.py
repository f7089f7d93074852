"""The second parser: where tree-sitter-bash finds simple commands and their words.

Two independent parsers must agree on the boundaries of every command and argument; otherwise the text
is not understood. tree-sitter alone is not enough: it is made for highlighting and misreads some texts
without an ERROR node (the words after ``>file``, a backslash before a newline). Our reader alone could
have errors that only a second parser shows.

Offsets are bytes of UTF-8. The grammar is loaded at the first call. A parser costs a microsecond, so
each call makes one, and threads share only the immutable grammar and query.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tree_sitter import Language, Query

TreeSpan = tuple[int, int]


class Borders(NamedTuple):
    """Where commands begin, and the arguments of those that are read word by word."""

    starts: frozenset[int]
    arguments: frozenset[TreeSpan]


NOT_SHOWN = frozenset({"[", "[[", "export", "declare", "typeset", "local", "readonly", "unset", "unsetenv"})
"""Commands whose words are not arguments in the tree; only their beginning is compared."""


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
    """The boundaries by tree-sitter; None when it finds an error. ``text`` must be encodable."""
    from tree_sitter import Parser, QueryCursor

    language, query = _grammar()
    root = Parser(language).parse(text.encode()).root_node
    if root.has_error:
        return None
    seen = QueryCursor(query).captures(root)
    arguments = {(node.start_byte, node.end_byte) for node in seen.get("argument", ())}
    for redirect in seen.get("redirect", ()):
        # The grammar assigns every word after `>file` to the redirect; the shell gives them to the command.
        targets = redirect.children_by_field_name("destination")
        arguments.update((node.start_byte, node.end_byte) for node in targets[1:])
    return Borders(frozenset(node.start_byte for node in seen.get("start", ())), frozenset(arguments))


@cache
def _grammar() -> tuple[Language, Query]:
    import tree_sitter_bash
    from tree_sitter import Language, Query

    language = Language(tree_sitter_bash.language())
    return language, Query(language, _QUERY)
