"""The documents of the page: the same as the commands print, and as the description says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recollect.ask.file_versions import FileDiffDocument, FileTextDocument
from recollect.cli.main import main
from recollect.sample import sample_home
from recollect.web.answers import ErrorDocument
from recollect.web.app import OPEN_ROUTES, ROUTES, document_of
from tests.documents import require_fit
from tests.oracle.money_runs import laid_out, recorded
from tests.small_home import ONE, TWO, prompt, put, reply, said, uuid_of
from tests.web.pages import Browser, served


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A page over the built-in sample home, which has branches, agents, compactions, files and todos."""
    with Browser(served(sample_home(), tmp_path_factory.mktemp("data"))) as one:
        yield one


def _printed(capfd: pytest.CaptureFixture[str], data: Path, *words: str) -> Any:
    capfd.readouterr()
    main(["--home", str(sample_home()), "--data", str(data), *words])
    return json.loads(capfd.readouterr().out)


def _ids(browser: Browser) -> list[str]:
    return [row["id"] for row in browser.get("/api/sessions")["sessions"]]


# ---- the same as the commands ----------------------------------------------------------------------------


@pytest.mark.parametrize("more", [[], ["--whole"]], ids=["as loaded", "whole"])
def test_windows_of_messages_are_those_of_show(
    sample: Browser, capfd: pytest.CaptureFixture[str], tmp_path: Path, more: list[str]
) -> None:
    """Put together, windows of seven are message for message what `show --json` prints, for every session."""
    keys = ("uuid", "parent_uuid", "role", "at", "blocks", "model", "usage")
    for name in _ids(sample):
        head = sample.get(f"/api/sessions/{name}")
        if head["active_leaf"] is None:
            continue
        shown = _printed(capfd, tmp_path, "show", name, *more, "--json")
        whole = "&whole=true" if more else ""
        found: list[dict[str, Any]] = []
        while len(found) < shown["total"]:
            window = sample.get(f"/api/sessions/{name}/messages?from={len(found)}&count=7{whole}")
            assert window["total"] == shown["total"]
            found += window["messages"]
        assert [row["index"] for row in found] == list(range(shown["total"]))
        assert shown["messages"] == [{key: row[key] for key in keys} for row in found]


def test_windows_of_branches_compactions_and_agents_are_those_of_show(
    sample: Browser, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Each other view of each session has the messages that `show` has with the same option."""
    compared = 0
    for name in _ids(sample):
        head = sample.get(f"/api/sessions/{name}")
        agents = sample.get(f"/api/sessions/{name}/agents")["agents"]
        views = [("--branch", "branch", one["leaf"]) for one in head["branches"]]
        views += [("--before-compaction", "before", one["number"]) for one in head["compactions"]]
        views += [("--sub-agent", "agent", one["id"]) for one in agents]
        for option, parameter, value in views:
            shown = _printed(capfd, tmp_path, "show", name, option, str(value), "--json")
            window = sample.get(f"/api/sessions/{name}/messages?{parameter}={value}&count=200")
            assert [one["uuid"] for one in shown["messages"]] == [one["uuid"] for one in window["messages"]]
            compared += 1
    assert compared >= 3


@pytest.mark.parametrize(
    ("by", "more"),
    [
        ("session,model", {"since": "2020-01-01", "until": "2030-12-31", "mode": "auto"}),
        ("block", {"timezone": "Europe/Berlin"}),
    ],
)
def test_costs_are_those_of_the_command(
    sample: Browser, capfd: pytest.CaptureFixture[str], tmp_path: Path, by: str, more: dict[str, str]
) -> None:
    """Digit for digit and key for key what `cost --json` prints with the same options."""
    options = [part for name, value in more.items() for part in (f"--{name}", value)]
    printed = _printed(capfd, tmp_path, "cost", "--by", by, *options, "--json")
    query = "&".join(f"{name}={value}" for name, value in more.items())
    assert printed == sample.get(f"/api/cost?by={by}&{query}")


def test_the_page_shows_what_only_the_client_knows(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A compacted session: the same rows as `cost --mode auto --json`, one of them not in the log."""
    (record,) = (one for one in recorded() if one.name == "compacted")
    home, data = laid_out(record.logs, tmp_path / "home"), tmp_path / "data"
    with Browser(served(home, data)) as page:
        shown = page.get("/api/cost?by=session&mode=auto")
    capfd.readouterr()
    main(["--home", str(home), "--data", str(data), "cost", "--by", "session", "--mode", "auto", "--json"])

    assert json.loads(capfd.readouterr().out) == shown
    assert [None, True] == [row.get("is_unlogged") for row in shown["rows"]]
    assert float(shown["totals"]["cost_usd"]) == pytest.approx(record.total_usd, abs=1e-9)


def test_turns_and_messages_add_up_to_the_session(sample: Browser) -> None:
    """What the messages of all views cost together, each response once, is what the session costs."""
    from decimal import Decimal

    for row in sample.get("/api/sessions")["sessions"]:
        if row["cost_usd"] is None:
            continue
        name = row["id"]
        head = sample.get(f"/api/sessions/{name}")
        views = [f"branch={one['leaf']}&whole=true" for one in head["branches"]]
        views += [f"agent={one['id']}" for one in sample.get(f"/api/sessions/{name}/agents")["agents"]]
        spent: dict[tuple[str, ...], Decimal] = {}
        for view in views:
            for message in sample.get(f"/api/sessions/{name}/messages?{view}&count=200")["messages"]:
                if message["cost"] is not None and not message["is_copied"]:
                    lines = tuple(line["uuid"] for line in message["lines"])
                    spent[lines] = Decimal(message["cost"]["cost_usd"])
            turns = sample.get(f"/api/sessions/{name}/costs?{view}")
            total = sum((Decimal(turn["cost_usd"]) for turn in turns["turns"]), Decimal())
            assert Decimal(turns["cost_usd"]) == total
        assert sum(spent.values(), Decimal()) == Decimal(row["cost_usd"]), name


def test_findings_are_those_of_check(
    sample: Browser, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The same codes at the same places."""
    for name in _ids(sample):
        printed = _printed(capfd, tmp_path, "doctor", name, "--json", "--limit", "0")
        found = sample.get(f"/api/sessions/{name}/findings")
        assert [(one["code"], one["offset"]) for one in printed["findings"]] == [
            (one["code"], one["offset"]) for one in found["findings"]
        ]


def test_files_and_todos_are_those_of_the_commands(
    sample: Browser, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The same files with the same versions, the same lists."""
    seen = 0
    for name in _ids(sample):
        printed = _printed(capfd, tmp_path, "files", name, "--json")
        found = sample.get(f"/api/sessions/{name}/files")
        assert printed["files"] == found["files"]
        seen += len(found["files"])
        todos = _printed(capfd, tmp_path, "show", name, "--todos", "--all", "--json")["lists"]
        assert [one["items"] for one in todos] == [
            one["items"] for one in sample.get(f"/api/sessions/{name}/todos")["lists"]
        ]
    assert seen > 0


# ---- what the description says ---------------------------------------------------------------------------


def test_every_route_is_described_and_nothing_else(sample: Browser) -> None:
    """The description has exactly the routes that are served, each with its method."""
    document = sample.get("/openapi.json")
    described = {(method.upper(), path) for path, one in document["paths"].items() for method in one}
    assert {(one.method, one.path) for one in (*OPEN_ROUTES, *ROUTES)} == described
    served_here = {(one.method, one.path) for one in ROUTES}
    assert len(served_here) == len(ROUTES)
    names = [one["operationId"] for path in document["paths"].values() for one in path.values()]
    assert len(names) == len(set(names))


def test_every_reading_route_answers_as_described(sample: Browser) -> None:
    """Each document of each session fits its schema, which allows no other members."""
    names = _ids(sample)
    checked: set[str] = set()
    for one in ROUTES:
        if one.method != "GET" or document_of(one) is None:
            continue
        for session in names:
            path = one.path.format(session=session, index="0", uuid="u", number="0")
            path += "?q=the" if one.path.endswith(("/search", "/hits")) else ""
            if path.endswith("/position"):
                first = sample.ask("GET", f"/api/sessions/{session}/messages?count=1").json()
                path += f"?uuid={first['messages'][0]['uuid']}" if first.get("messages") else "?uuid=none"
            answer = sample.ask("GET", path)
            assert answer.status_code in (200, 400, 404), (path, answer.text)
            require_fit(document_of(one) if answer.status_code == 200 else ErrorDocument, answer.json())
            checked |= {one.path} if answer.status_code == 200 else set()
    assert {"/api/sessions/{session}/files/version", "/api/sessions/{session}/files/diff"} == {
        one.path for one in ROUTES if one.method == "GET" and document_of(one) is not None
    } - checked


def test_files_of_a_session_answer_as_described(sample: Browser) -> None:
    """A version and a difference fit their schemas."""
    for name in _ids(sample):
        for file in sample.get(f"/api/sessions/{name}/files")["files"][:3]:
            query = f"path={file['path']}&number=1"
            require_fit(FileTextDocument, sample.get(f"/api/sessions/{name}/files/version?{query}"))
            require_fit(FileDiffDocument, sample.get(f"/api/sessions/{name}/files/diff?{query}"))


# ---- bounds ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/api/sessions?count=0",
        "/api/sessions?count=501",
        "/api/sessions?from=-1",
        "/api/sessions?from=1e-3",
        "/api/sessions?sort=size",
        "/api/sessions?live=yes",
        "/api/sessions?min_cost=nan",
        "/api/sessions?min_cost=inf",
        "/api/sessions?unknown=1",
        "/api/sessions?from=0&from=1",
        "/api/sessions?since=soon",
        "/api/sessions?since=99999999d",
        "/api/search",
        "/api/search?q=" + "x" * 1001,
        "/api/search?q=x&kinds=prose,rhyme",
        "/api/search?q=(&how=regex",
        "/api/cost?by=moon",
        "/api/cost?timezone=Nowhere/None",
        "/api/sessions/{ONE}/messages?count=201",
        "/api/sessions/{ONE}/messages?from=99999999999999999999",
        "/api/sessions/{ONE}/messages?branch=a&agent=b",
        "/api/sessions/{ONE}/messages?whole=true&before=1",
        "/api/sessions/{ONE}/messages/x",
        "/api/sessions/{ONE}/position",
        "/api/sessions/{ONE}/blobs/u/-1",
    ],
)
def test_what_is_out_of_bounds_is_refused(browser: Browser, path: str) -> None:
    """400 with what is wrong and what to do."""
    answer = browser.ask("GET", path.format(ONE=ONE))
    assert answer.status_code == 400, answer.text
    require_fit(ErrorDocument, answer.json())


@pytest.mark.parametrize(
    "path",
    [
        "/api/sessions/none",
        "/api/sessions/..%2f..%2fetc%2fpasswd",
        "/api/sessions/3f2a9c1e",
        "/api/sessions/none/messages",
        "/api/sessions/{ONE}/messages/9",
        "/api/sessions/{ONE}/messages?branch=none",
        "/api/sessions/{ONE}/messages?before=1",
        "/api/sessions/{ONE}/messages?agent=none",
        "/api/sessions/{ONE}/position?uuid=none",
        "/api/sessions/{ONE}/files/version?path=/etc/passwd&number=1",
        "/api/sessions/{ONE}/blobs/none/0",
        "/api/nothing",
        "/assets/none.js",
        "/..%2f..%2fpyproject.toml",
    ],
)
def test_what_is_not_there_is_not_found(browser: Browser, path: str) -> None:
    """404 with what is missing; a start of an id is none, and no name leads out of a home."""
    answer = browser.ask("GET", path.format(ONE=ONE))
    assert answer.status_code == 404, answer.text
    require_fit(ErrorDocument, answer.json())


def test_bodies_are_bounded(browser: Browser) -> None:
    """A body over 64 KiB, one that is no object, and a member nobody knows are refused."""
    path = f"/api/sessions/{ONE}/rename"
    assert browser.ask("POST", path, raw=b'{"title": "' + b"x" * 70_000 + b'"}').status_code == 413
    assert browser.ask("POST", path, raw=b"[]").status_code == 400
    assert browser.ask("POST", path, raw=b"{").status_code == 400
    assert browser.ask("POST", path, body={"title": "a", "force": True}).status_code == 400
    assert browser.ask("POST", path, body={"title": 1}).status_code == 400
    assert browser.ask("POST", path, body={"title": "a", "apply": "yes"}).status_code == 400


# ---- messages --------------------------------------------------------------------------------------------


def test_a_call_and_its_result_are_one_unit(browser: Browser) -> None:
    """The answer that calls holds the result, where it stands and how long it took; the result itself says it is one."""
    asked, answer, result, end = browser.get(f"/api/sessions/{TWO}/messages")["messages"]
    assert ["prompt", "answer", "results", "answer"] == [one["kind"] for one in (asked, answer, result, end)]
    assert answer["calls"] == {
        "toolu_1": {
            "status": "ok",
            "duration_ms": 1000.0,
            "in_background": False,
            "result_index": 2,
            "result_uuid": uuid_of(3),
            "at": "2026-11-15T10:00:03Z",
            "blocks": [{"type": "text", "text": "the text"}],
            "structured": None,
            "added": None,
            "removed": None,
            "agent": None,
        }
    }
    assert [-1 + 1, 0, 0, 0] == [one["turn"] for one in (asked, answer, result, end)]


def test_a_message_has_its_exact_cost(browser: Browser) -> None:
    """10 tokens in at 3 dollars a million and 20 out at 15 are 0.00033 dollars; a prompt costs nothing by itself."""
    prompt_, answer, *_ = browser.get(f"/api/sessions/{ONE}/messages")["messages"]
    assert answer["cost"]["cost_usd"] == "0.00033"
    assert prompt_["cost"] is None


def test_a_response_spread_over_messages_is_paid_once(home: Path, data: Path) -> None:
    """Two lines of one response with a result between them: the cost stands at the last, the first names it.

    The line with the larger output speaks for the response: 10 in at 3 and 40 out at 15 dollars a million.
    """
    first = reply(2, 1, said("a"), {"type": "tool_use", "id": "t1", "name": "Read", "input": {}}, answer="m")
    first["message"]["usage"]["output_tokens"] = 40
    second = reply(4, 3, said("b"), answer="m")
    middle = {"type": "tool_result", "tool_use_id": "t1", "content": "x"}
    between = {**prompt(3, 2, "x"), "message": {"role": "user", "content": [middle]}}
    put(home, ONE, [prompt(1, None, "Q"), first, between, second])
    with Browser(served(home, data)) as browser:
        _, one, _, two = browser.get(f"/api/sessions/{ONE}/messages")["messages"]
        assert (one["cost"], one["response_index"], two["response_index"]) == (None, 3, 3)
        assert two["cost"]["cost_usd"] == "0.00063"
        assert browser.get(f"/api/sessions/{ONE}/costs")["cost_usd"] == "0.00063"


def test_the_map_agrees_with_the_messages(sample: Browser) -> None:
    """One letter, one size and one time for each message, the same as the windows say."""
    for name in _ids(sample):
        answer = sample.ask("GET", f"/api/sessions/{name}/map?whole=true")
        if answer.status_code != 200:
            continue
        seen = answer.json()
        messages = sample.get(f"/api/sessions/{name}/messages?whole=true&count=200")["messages"]
        assert seen["kinds"] == "".join(one["kind"][0] for one in messages)
        assert seen["bytes"] == [one["bytes"] for one in messages]
        assert seen["total"] == len(messages)


@pytest.mark.parametrize(
    ("start", "count", "expected"),
    [(-2, 2, [2, 3]), (-2, 9, [2, 3]), (-9, 2, [0, 1]), (3, 5, [3]), (4, 5, []), (9, 1, [])],
)
def test_a_window_may_count_from_the_end(
    browser: Browser, start: int, count: int, expected: list[int]
) -> None:
    """As ``show --offset`` does; beyond the end there is nothing, and no error."""
    window = browser.get(f"/api/sessions/{ONE}/messages?from={start}&count={count}")
    assert expected == [one["index"] for one in window["messages"]]


def test_every_line_of_the_sample_is_found_where_it_is_shown(sample: Browser) -> None:
    """``position`` of a hit leads to the message that holds it, in whatever view that is."""
    found = 0
    for group in sample.get("/api/search?q=the&limit=200")["groups"]:
        for hit in group["hits"]:
            query = f"uuid={hit['uuid']}" if hit["uuid"] else f"offset={hit['offset']}"
            query += f"&agent={hit['agent']}" if hit["agent"] else ""
            answer = sample.ask("GET", f"/api/sessions/{group['session']}/position?{query}")
            if answer.status_code == 404:
                continue  # a title, say: metadata that no view shows
            place = answer.json()
            view = "&".join(
                f"{key}={json.dumps(value).strip(chr(34))}" for key, value in place["view"].items() if value
            )
            window = sample.get(
                f"/api/sessions/{group['session']}/messages?from={place['index']}&count=1&{view}"
            )
            assert place["uuid"] in [line["uuid"] for line in window["messages"][0]["lines"]]
            found += 1
    assert found > 5


def test_hits_are_data_with_places(browser: Browser) -> None:
    """A snippet is text with ranges, never markup; hits of one session stand together."""
    found = browser.get("/api/search?q=reading")
    (group,) = found["groups"]
    (hit,) = group["hits"]
    assert group["session"] == TWO
    assert hit["uuid"] == uuid_of(2)
    assert hit["snippet"] == {"text": "Reading", "marks": [[0, 7]]}
    assert found["total_is_exact"] is True
    assert (found["is_loose"], found["is_weak"], group["strength"]) == (False, False, None)


def test_a_question_is_answered_by_the_sessions_that_fit_best(browser: Browser) -> None:
    """Where no message has all the words, and when asked for; with the strength of each session then."""
    fallen_back = browser.get("/api/search?q=zebra%20reading")
    asked = browser.get("/api/search?q=zebra%20reading&how=best")
    assert (fallen_back["is_loose"], asked["is_loose"]) == (True, False)
    assert "not found anywhere: zebra" in fallen_back["notes"][0]
    assert [group["session"] for group in asked["groups"]] == [TWO]
    assert [group["session"] for group in fallen_back["groups"]] == [TWO]
    assert 0 < asked["groups"][0]["strength"] < 1
