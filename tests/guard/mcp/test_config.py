"""What an ``.mcp.json`` says, and what trust is given to."""

from __future__ import annotations

from typing import Any

import pytest

from recollect.guard.mcp.servers import (
    ServerConfig,
    ServerOrigin,
    ServerTransport,
    content_hash,
    expanded,
    servers_in,
)


def read(entry: object, name: str = "one") -> ServerConfig:
    """The one server of a document."""
    ((server,), _) = servers_in({"mcpServers": {name: entry}}, ServerOrigin.PROJECT)
    return server


def refusal(entry: object, name: str = "one") -> str:
    """Why the one entry of a document is not used."""
    servers, problems = servers_in({"mcpServers": {name: entry}}, ServerOrigin.PROJECT)
    assert servers == []
    return problems[0][1]


@pytest.mark.parametrize(
    ("entry", "kind"),
    [
        ({"command": "node", "args": ["x.js"], "env": {"A": "1"}}, ServerTransport.STDIO),
        ({"type": "stdio", "command": "node"}, ServerTransport.STDIO),
        ({"type": "http", "url": "https://x.example/mcp", "headers": {"X-Key": "1"}}, ServerTransport.HTTP),
        ({"url": "https://x.example/mcp"}, ServerTransport.HTTP),
        ({"type": "sse", "url": "https://x.example/sse"}, ServerTransport.SSE),
    ],
)
def test_the_three_ways_to_reach_a_server(entry: dict[str, Any], kind: ServerTransport) -> None:
    """As ``.mcp.json`` and ``.claude.json`` spell them; the type may be left out."""
    assert kind == read(entry).kind


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("node x.js", "not an object"),
        ({}, "neither command nor url"),
        ({"command": ["node"]}, "command is not a text"),
        ({"command": "node", "args": "x.js"}, "args are not a list"),
        ({"command": "node", "args": [1]}, "args are not a list"),
        ({"command": "node", "env": {"A": 1}}, "env is not an object of texts"),
        ({"command": "node", "env": {"A=B": "1"}}, "contains '='"),
        ({"command": "no\0de"}, "not allowed on a command line"),
        ({"command": "\ud800"}, "not allowed on a command line"),
        ({"command": "node", "shell": True}, "an unknown key"),
        ({"type": "ws", "url": "ws://x"}, "not stdio, http or sse"),
        ({"type": "http"}, "url is not a text"),
        ({"type": "http", "url": "https://x", "headers": {"A": "1\r\nB: 2"}}, "line break"),
        ({"type": "http", "url": "https://x", "headers": {"A B": "1"}}, "headers are not"),
        ({"type": "http", "url": "https://x", "headersHelper": "sh"}, "does not run one"),
        ({"command": "x" * 40_000}, "too large"),
    ],
)
def test_an_entry_that_is_not_understood_is_not_used(entry: object, words: str) -> None:
    """It is named with a sentence; a key that could change what is run is never passed over."""
    assert words in refusal(entry)


@pytest.mark.parametrize("name", ["a__b", "_a", "a_", "", "a b", "a.b", "a\x1bb", "é", "x" * 65, "a\n"])
def test_a_name_that_could_be_mistaken_is_refused(name: str) -> None:
    """``mcp__a___b`` must have one meaning only."""
    assert "its name" in refusal({"command": "node"}, name)


@pytest.mark.parametrize(
    "document", [None, [], "x", {"mcpServers": []}, {"mcpServers": {str(n): {} for n in range(201)}}]
)
def test_a_document_of_another_shape_has_no_servers(document: object) -> None:
    """And says why."""
    servers, problems = servers_in(document, ServerOrigin.USER)

    assert ([], 1) == (servers, len(problems))


@pytest.mark.parametrize(
    ("text", "value", "missing"),
    [
        ("${A}", "1", ()),
        ("${A:-x}", "1", ()),
        ("${NONE:-x}", "x", ()),
        ("${NONE:-}", "", ()),
        ("${EMPTY:-x}", "x", ()),
        ("${EMPTY}", "", ()),
        ("${NONE}", "${NONE}", ("NONE",)),
        ("a${A}b${NONE:-c}", "a1bc", ()),
        ("$A ${ A} ${1}", "$A ${ A} ${1}", ()),
        ("${NESTED}", "${A}", ()),
    ],
)
def test_variables_are_put_in_once(text: str, value: str, missing: tuple[str, ...]) -> None:
    """Defaults as in a shell; what a variable holds is not expanded again."""
    environ = {"A": "1", "EMPTY": "", "NESTED": "${A}"}
    config, not_set = expanded(read({"command": "node", "args": [text]}), environ)

    assert ((value,), missing) == (config.args, not_set)


def digest(
    entry: object, directory: str = "/p", environ: dict[str, str] | None = None, name: str = "one"
) -> str:
    """The hash of an entry."""
    server = read(entry, name)
    return content_hash(server, expanded(server, environ or {})[0], directory)


@pytest.mark.parametrize(
    "changed",
    [
        {"command": "nodf", "args": ["x"], "env": {"A": "1"}},
        {"command": "node", "args": ["x", ""], "env": {"A": "1"}},
        {"command": "node", "args": ["y"], "env": {"A": "1"}},
        {"command": "node", "args": ["x"], "env": {"A": "2"}},
        {"command": "node", "args": ["x"], "env": {"B": "1"}},
        {"command": "node", "args": ["x"]},
        {"type": "http", "url": "https://node"},
    ],
)
def test_any_change_of_the_content_is_another_hash(changed: dict[str, Any]) -> None:
    """Command, arguments and environment: whatever is changed asks again."""
    assert digest({"command": "node", "args": ["x"], "env": {"A": "1"}}) != digest(changed)


def test_the_name_is_not_part_of_what_is_trusted_and_the_directory_is() -> None:
    """A renamed entry is the same program; the same words in another directory are another one."""
    entry = {"command": "node", "args": ["./server.js"]}

    assert digest(entry) == digest(entry, name="two")
    assert digest(entry) != digest(entry, directory="/q")


def test_a_variable_that_changes_the_program_asks_again_and_a_new_token_does_not() -> None:
    """What runs is part of the hash as it is expanded, what it is told in its environment as it is written."""
    program, token = {"command": "${TOOL}"}, {"command": "node", "env": {"T": "${TOKEN}"}}

    assert digest(program, environ={"TOOL": "a"}) != digest(program, environ={"TOOL": "b"})
    assert digest(token, environ={"TOKEN": "a"}) == digest(token, environ={"TOKEN": "b"})
