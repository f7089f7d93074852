"""The message graph, and where the client takes a conversation to end.

Expected leaves were measured: each case was given to client 2.1.325 with
``--resume`` and the text it sent was read at the API (tests/oracle does it again).
"""

from __future__ import annotations

from typing import Any

import pytest

from recollect.model.conversation.graph import Graph, Node, node_of
from recollect.model.lines.damage import Line
from tests.talk import assistant, encoded, link, mark, user

PLAIN = [
    user("u1", None, 0, "Q1"),
    assistant("a1", "u1", 1, "A1"),
    user("u2", "a1", 2, "Q2"),
    assistant("a2", "u2", 3, "A2"),
]
FORK = [*PLAIN, user("v2", "a1", 4, "V2"), assistant("w2", "v2", 5, "W2")]


def graph_of(lines: list[dict[str, Any]]) -> Graph:
    """The graph of a log with these lines."""
    offset, points = 0, []
    for data in encoded(lines).split(b"\n")[:-1]:
        points.append(node_of(Line(data, offset)))
        offset += len(data) + 1
    return Graph(points)


def leaf_of(lines: list[dict[str, Any]]) -> str | None:
    """The id of the leaf the client would take."""
    leaf = graph_of(lines).active_leaf
    return leaf.uuid if leaf else None


def test_roots_leaves_children_and_orphans() -> None:
    """Two children of one parent are a branch; an unknown parent makes an orphan."""
    graph = graph_of([*FORK, user("o", "missing", 6, "O")])

    assert ["u1"] == [node.uuid for node in graph.roots]
    assert ["a2", "w2", "o"] == [node.uuid for node in graph.leaves]
    assert ["o"] == [node.uuid for node in graph.orphans]
    assert [["u2", "v2"], ["a1"], []] == [list(graph.children(uuid)) for uuid in ("a1", "u1", "a2")]
    assert ([], []) == (graph.cycles, graph.duplicates)


def test_the_last_copy_of_an_id_counts() -> None:
    """With its links, at the place of the first copy; the repeat is told."""
    graph = graph_of([*PLAIN, user("u1", "x", 9, "again")])
    again = graph.nodes["u1"]

    assert ["u1"] == graph.duplicates
    assert ("x", "u1", 0) == (again.parent, next(iter(graph.nodes)), graph.place(again))
    assert again.offset > graph.nodes["a2"].offset


def test_circles_are_found_once_and_walked_once() -> None:
    """An entry that is its own ancestor does not hang anything."""
    graph = graph_of(
        [user("x", "z", 0, "X"), user("y", "x", 1, "Y"), user("z", "y", 2, "Z"), user("s", "s", 3, "S")]
    )

    assert [{"x", "y", "z"}, {"s"}] == [set(circle) for circle in graph.cycles]
    assert ["z", "y", "x"] == [node.uuid for node in graph.ancestors("z")]


def side(uuid: str, parent: str | None, seconds: float) -> dict[str, Any]:
    """A sidechain prompt."""
    return user(uuid, parent, seconds, "S", isSidechain=True)


@pytest.mark.parametrize(
    ("lines", "leaf"),
    [
        (PLAIN, "a2"),
        (FORK, "w2"),
        ([*FORK, user("u3", "a2", 6, "Q3")], "u3"),
        ([*FORK, mark("a2")], "a2"),
        ([*FORK, mark("a2"), assistant("w3", "w2", 6, "W3")], "a2"),
        ([*FORK, mark("a2"), user("u3", "a2", 6, "Q3")], "u3"),
        ([*FORK, mark("a1")], "w2"),
        ([*FORK, mark("u2")], "u2"),
        ([*FORK, mark("a1", explicit=True)], "a1"),
        ([*FORK, mark("a1", explicit=True), assistant("w3", "w2", 6, "W3")], "w3"),
        ([*FORK, mark("a2", explicit=True), assistant("w3", "w2", 6, "W3")], "a2"),
        ([*FORK, mark("a2"), mark("unknown")], "w2"),
        ([*FORK, mark("a2"), {"type": "last-prompt", "lastPrompt": "x"}], "a2"),
        ([*FORK, mark("a2"), mark("00000000-0000-0000-0000-000000000000", explicit=True)], "w2"),
        ([*PLAIN, side("s1", None, 4)], "a2"),
        ([side("s1", None, 4)], None),
        ([*FORK, side("sc", "w2", 6), mark("sc")], None),
        ([*PLAIN, link("y", "a2", 4, type="system", subtype="informational", content="n")], "y"),
        ([*PLAIN, link("y", None, 4, type="system", subtype="informational", content="n")], "a2"),
        ([*PLAIN, link("y", "a2", 4, type="progress", data={})], "a2"),
        ([*PLAIN, link("y", "a2", 4, type="from-the-future")], "a2"),
        (PLAIN[::-1], "a2"),
        ([user("u1", "a2", 0, "Q1"), *PLAIN[1:]], "a2"),
        ([*PLAIN[:3], {**PLAIN[3], "timestamp": "yesterday"}], None),
        ([], None),
    ],
)
def test_the_leaf_is_the_clients(lines: list[dict[str, Any]], leaf: str | None) -> None:
    """The latest branch, unless a mark names another one; never a sidechain, never without a time."""
    assert leaf == leaf_of(lines)


def test_an_orphan_is_joined_to_the_nearest_elder_within_five_seconds() -> None:
    """Five seconds are near enough, a millisecond more is not; sidechains and passers-by do not count."""
    for gap, elder in ((0, "a1"), (5, "a1"), (5.001, None)):
        graph = graph_of([*PLAIN[:2], user("o", "missing", 1 + gap, "O")])
        found = graph.elder(graph.nodes["o"], {"o"})
        assert elder == (found.uuid if found else None)
    near = graph_of(
        [*PLAIN[:2], side("s", "a1", 2), link("p", "a1", 2, type="progress"), user("o", "missing", 3, "O")]
    )
    found = near.elder(near.nodes["o"], {"o"})
    assert found is not None
    assert "a1" == found.uuid


def test_lines_that_are_no_part_of_the_graph() -> None:
    """Blank lines, damage and metadata are passed over; odd fields are not."""
    assert [None, None, None] == [
        node_of(Line(data)) for data in (b"", b"{torn", b'{"type":"tag","tag":"x"}')
    ]
    odd = node_of(Line(b'{"type":"user","uuid":"u","parentUuid":7,"message":{"content":"x"}}'))
    assert isinstance(odd, Node)
    assert ("u", "<7>") == (odd.uuid, odd.parent)


def test_work_grows_with_the_number_of_entries_only() -> None:
    """Counted in looks at nodes, not in time: a chain of 2,000 costs twenty times one of 100."""
    looks = []
    for count in (100, 2_000):
        lines = [user(f"n{n}", f"n{n - 1}" if n else None, n, "x") for n in range(count)]
        graph = graph_of(lines)
        counter = _Counting(graph.nodes)
        graph.nodes = counter
        assert graph.active_leaf is not None
        assert [] == graph.cycles
        looks.append(counter.looks)
    assert looks[1] <= looks[0] * 20 * 1.2


class _Counting(dict[str, Node]):
    """Counts how often a node is looked up."""

    looks = 0

    def __getitem__(self, key: str) -> Node:
        self.looks += 1
        return super().__getitem__(key)
