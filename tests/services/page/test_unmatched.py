"""A result that no call shows is shown by itself, in the page as in an exported page; all others stand with their calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from recollect.model.line_views.call_line import call_ids, has_more_than_results
from recollect.services.export.html_export import export_session
from recollect.services.homes import Home
from recollect.services.page.conversation import ConversationView
from recollect.services.page.log import PageSession
from recollect.services.page.messages import MessageWindow, map_document
from tests.small_home import ONE, call, lines, link, outcome, prompt, put, reply, said


def _results(number: int, after: int, *blocks: dict[str, Any]) -> dict[str, Any]:
    return link(number, after, type="user", message={"role": "user", "content": list(blocks)})


def _result(name: str, text: str) -> dict[str, Any]:
    return {"tool_use_id": name, "type": "tool_result", "content": text}


ENTRIES = [
    prompt(1, None, "Go"),
    reply(2, 1, call("c1"), call("c2")),
    outcome(3, 2, "c1", "first of one"),
    _results(4, 3, _result("c2", "first of two"), _result("c9", "without a call"), said("typed beside")),
    outcome(5, 4, "c1", "again of one"),
    reply(6, 5, said("Between")),
    outcome(7, 6, "c8", "after an answer without calls"),
    reply(8, 7, said("Done")),
]
OWN = ["without a call", "typed beside", "again of one", "after an answer without calls"]
WITH_CALLS = ["first of one", "first of two"]


def _texts(blocks: list[Any]) -> list[str]:
    return [str(block.get("text") or block.get("content")) for block in blocks]


def test_each_result_is_shown_once_with_its_call_or_by_itself(tmp_path: Path) -> None:
    put(tmp_path, ONE, ENTRIES)
    home = Home(tmp_path, data=tmp_path / "data")
    session = PageSession(home.session(ONE))
    view = ConversationView(whole=True)

    assert "paruuaua" == map_document(session, view).kinds
    messages = MessageWindow(session, view).document(0, 50).messages
    made = msgspec.json.decode(msgspec.json.encode(messages))
    own = [
        _texts([one["blocks"][place] for place in one["own"]]) for one in made if one["kind"] == "unmatched"
    ]
    shown = [_texts(one["blocks"]) for message in made for one in message["calls"].values()]
    assert OWN == [text for texts in own for text in texts]
    assert WITH_CALLS == [text for texts in shown for text in texts]

    export_session(home.session(ONE), tmp_path / "out.html", None)
    page = (tmp_path / "out.html").read_text()
    assert dict.fromkeys([*OWN, *WITH_CALLS], 1) == {text: page.count(text) for text in [*OWN, *WITH_CALLS]}
    assert 3 == page.count("<b>Result</b> not shown with a call")


def test_calls_are_found_in_any_order_of_keys_and_not_in_texts() -> None:
    usual = lines([reply(2, 1, call("c1"), said('"type":"tool_use","id":"no"'), call("c2"))])
    turned = b'{"type":"assistant","message":{"content":[{"id":"c3","name":"X","type":"tool_use","input":{"type":"tool_use","id":"no"}}]}}'
    broken = b'{"type":"assistant","message":{"content":[{"id":"c3","type":"tool_use"'

    assert (("c1", "c2"), ("c3",), ()) == (call_ids(usual), call_ids(turned), call_ids(broken))
    assert [False, True] == [
        has_more_than_results(lines([_results(3, 2, _result("c1", '{"type":"text"}'), *more)]))
        for more in ([], [said("x")])
    ]
    assert not has_more_than_results(lines([_results(3, 2, {**_result("c1", ""), "content": [said("x")]})]))
