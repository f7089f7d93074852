"""`model.checks.chain`: a missing parent is an error only where history is lost by it."""

from __future__ import annotations

from recollect.model.checks.chain import link_faults, walk_of
from recollect.model.conversation.graph import Graph
from recollect.model.conversation.node import node_of
from recollect.model.damage import Line
from tests.talk import Fields, assistant, encoded, link, mark, user


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


def test_an_orphan_on_the_way_to_the_root_cuts_the_history() -> None:
    """What stands before it is not another conversation: it is where this one began."""
    assert [("history-cut", "u2")] == faults(*FIRST, *LATE)


def test_an_orphan_that_the_client_joins_cuts_nothing() -> None:
    """Four seconds are within its reach."""
    joined = [user("u2", "lost", 5, "Q2"), assistant("a2", "u2", 6, "A2")]

    assert [("missing-parent", "u2")] == faults(*FIRST, *joined)


def test_an_orphan_at_the_start_of_a_log_cuts_nothing() -> None:
    """There is nothing before it; what stands behind it on another branch was left on purpose."""
    dead = user("u3", "u2", 62, "dead")
    after = [user("u4", "a2", 63, "Q4"), assistant("a4", "u4", 64, "A4")]

    assert [("missing-parent", "u2")] == faults(*LATE, dead, *after)


def test_an_orphan_before_a_compaction_cuts_nothing() -> None:
    """It would not be sent anyway."""
    cut = link("b", "a2", 62, type="system", subtype="compact_boundary", content="x")
    after = [user("u3", "b", 63, "summary", isCompactSummary=True), assistant("a3", "u3", 64, "A3")]

    assert [("missing-parent", "u2")] == faults(*FIRST, *LATE, cut, *after)


def test_an_orphan_on_another_branch_cuts_nothing() -> None:
    """The last mark names the end of the first branch."""
    found = faults(*FIRST, *LATE, mark("a1"))

    assert [("missing-parent", "u2")] == found


def test_a_new_beginning_is_no_cut() -> None:
    """A prompt that follows nothing starts a conversation of its own."""
    assert [("second-root", "u1")] == faults(
        *FIRST, user("u2", None, 60, "Q2"), assistant("a2", "u2", 61, "A2")
    )


def test_an_answer_that_follows_nothing_is_one() -> None:
    """No client begins with an answer."""
    assert [("unlinked-answer", "a2")] == faults(*FIRST, assistant("a2", None, 61, "A2"))


def test_a_log_whose_links_are_whole() -> None:
    """Branches and progress lines are fine."""
    note = link("p", "a1", 2, type="progress", data={})
    branches = [user("u2", "p", 3, "left"), user("u3", "p", 4, "right"), assistant("a3", "u3", 5, "A")]

    assert [] == faults(*FIRST, note, *branches)


def test_every_cut_is_found_not_only_the_last() -> None:
    """Behind a cut the walk goes on with the entry that the orphan should follow, and finds the next."""
    later = [user("u3", "gone", 120, "Q3"), assistant("a3", "u3", 121, "A3")]

    assert [("history-cut", "u3"), ("history-cut", "u2")] == faults(*FIRST, *LATE, *later)


def test_what_a_compaction_hides_is_no_other_conversation() -> None:
    """The root before the boundary belongs to the conversation that is resumed."""
    cut = link("b", None, 62, type="system", subtype="compact_boundary", content="x", logicalParentUuid="a1")
    after = [user("u3", "b", 63, "summary", isCompactSummary=True), assistant("a3", "u3", 64, "A3")]

    assert [] == faults(*FIRST, cut, *after)
