"""`model.checks.chain`: a missing parent is an error only where history is lost by it."""

from __future__ import annotations

from recollect.model.checks.chain import link_faults, walk_of
from recollect.model.conversation.graph import Graph, node_of
from recollect.model.lines.damage import Line
from tests.talk import Fields, assistant, encoded, link, user


def faults(*lines: Fields) -> list[tuple[str, str | None]]:
    """Code and entry of everything that is wrong with the links of a log."""
    points, offset = [], 0
    for line in encoded(list(lines)).splitlines():
        points.append(node_of(Line(line, offset)))
        offset += len(line) + 1
    graph = Graph(points)
    return [(one.code, one.uuid) for one in link_faults(graph, walk_of(graph, {}))]


FIRST = [user("u1", None, 0, "Q1"), assistant("a1", "u1", 1, "A1")]
LATE = [user("u2", "lost", 60, "Q2"), assistant("a2", "u2", 61, "A2")]


def test_an_orphan_that_the_client_joins_cuts_nothing() -> None:
    """Four seconds are within its reach."""
    joined = [user("u2", "lost", 5, "Q2"), assistant("a2", "u2", 6, "A2")]

    assert [("missing-parent", "u2")] == faults(*FIRST, *joined)


def test_every_cut_is_found_not_only_the_last() -> None:
    """Behind a cut the walk goes on with the entry that the orphan should follow, and finds the next."""
    later = [user("u3", "gone", 120, "Q3"), assistant("a3", "u3", 121, "A3")]

    assert [("history-cut", "u3"), ("history-cut", "u2")] == faults(*FIRST, *LATE, *later)


def test_what_a_compaction_hides_is_no_other_conversation() -> None:
    """The root before the boundary belongs to the conversation that is resumed."""
    cut = link("b", None, 62, type="system", subtype="compact_boundary", content="x", logicalParentUuid="a1")
    after = [user("u3", "b", 63, "summary", isCompactSummary=True), assistant("a3", "u3", 64, "A3")]

    assert [] == faults(*FIRST, cut, *after)
