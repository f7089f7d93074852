"""Branches as a tree: what hangs off what, in which order, with how many messages of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recollect.ask.conversation.content import PageSession
from recollect.ask.library import Home
from recollect.web.messages import branches_document
from tests.small_home import ONE, prompt, put, reply, said, uuid_of


def _opened(tmp_path: Path, talk: list[dict[str, Any]]) -> PageSession:
    put(tmp_path, ONE, talk)
    (session,) = Home(tmp_path).sessions()
    return PageSession(session)


def _tree() -> list[dict[str, Any]]:
    """1-2 is the start. 3-4 leaves it, 5 leaves 4's branch at 3, 6-7-8 goes on from 2 and is the last: the stem."""
    return [
        prompt(1, None, "Which way"),
        reply(2, 1, said("Choose")),
        prompt(3, 2, "Go left"),
        reply(4, 3, said("Went left")),
        reply(5, 3, said("Went far left")),
        prompt(6, 2, "Go right"),
        reply(7, 6, said("Went right")),
        prompt(9, 7, "Back"),
        prompt(8, 7, "On"),
    ]


def test_a_branch_hangs_off_the_one_it_left(tmp_path: Path) -> None:
    """By leaf: parent, depth, where it left, and its own messages; siblings stand in the order of where they left."""
    found = branches_document(_opened(tmp_path, _tree())).branches
    told = [(one.leaf, one.parent, one.depth, one.from_uuid, one.messages) for one in found]
    ids = {number: uuid_of(number) for number in range(1, 10)}
    assert told == [
        (ids[8], None, 0, None, 5),
        (ids[5], ids[8], 1, ids[2], 2),
        (ids[4], ids[5], 2, ids[3], 1),
        (ids[9], ids[8], 1, ids[7], 1),
    ]


def test_a_branch_says_where_it_left_and_what_was_said_first(tmp_path: Path) -> None:
    """The words at the fork, its place in the conversation as loaded where it is there, the first prompt behind it or else words."""
    found = branches_document(_opened(tmp_path, _tree())).branches
    told = [(one.from_index, one.from_text, one.text) for one in found]
    assert told == [
        (None, "", "Which way"),
        (1, "Choose", "Go left"),
        (None, "Go left", "Went left"),
        (3, "Went right", "Back"),
    ]
