"""What every database must answer the team: what it cost, exactly and once, and where something was said."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.cli.main import main
from recollect.model.budget import PICO
from recollect.model.cost.money import exact
from recollect.sample import sample_home
from recollect.server.service import Service
from recollect.share.sync.wire import ENCRYPTED, PROJECT, REPOSITORY, START
from tests.server.conftest import kind_named
from tests.server.world import PLENTY, World, after, in_a_world, in_world, line, prompt, reply

# Sonnet 4.5: 3 dollars a million of input, 15 of output; so a reply of 1,000 and 10 costs 0.00315.


async def cost(made: World, **parameters: str) -> dict[str, Any]:
    answer = await made.ask("GET", "/v1/cost", params=parameters)
    assert answer.status_code == 200, answer.text
    report: dict[str, Any] = answer.json()
    return report


async def rows(made: World, by: str, **parameters: str) -> list[tuple[object, ...]]:
    report = await cost(made, by=by, **parameters)
    return sorted((*row["keys"].values(), row["responses"], row["usd"]) for row in report["rows"])


@in_a_world()
async def test_a_response_counts_once(made: World) -> None:
    """However many lines, appends, logs and sessions repeat it; the largest output speaks."""
    partial, whole = reply("m-1", output=1), reply("m-1", output=10, uuid="a-2")
    await made.put("s1", partial)
    await made.put("s1", whole, after(partial))
    await made.put("s2", whole + reply("m-2", output=10))
    await made.put("s1", reply("m-1", output=10, isSidechain=True), key="subagents/agent-1")
    total = (await cost(made))["total"]
    assert [total["responses"], total["usd"], total["tokens"]["output"]] == [2, "0.0063", 20]


@in_a_world()
async def test_money_is_told_by_person_repository_branch_and_model(made: World) -> None:
    """Each key alone and all together; what was not said has a name of its own."""
    haiku = "claude-haiku-4-5-20251001"  # 1 and 5 dollars: 0.00105
    bob, _ = await made.secret(await made.member("Bob", "member"))
    await made.put("s1", reply("m-1", gitBranch="main"), headers={REPOSITORY: "r1", PROJECT: "p"})
    # Bob goes on with Ada's session: his lines are his.
    await made.put("s1", reply("m-2", gitBranch="dev"), after(reply("m-1", gitBranch="main")), token=bob)
    await made.put("s2", reply("m-3", model=haiku), token=bob)
    sonnet, price, cheap = "claude-sonnet-4-5-20250929", "0.00315", "0.00105"
    day = "2026-01-31"
    assert [
        await rows(made, "person"),
        await rows(made, "repo"),
        await rows(made, "branch"),
        await rows(made, "model"),
        await rows(made, "person,repository,branch,model"),
        await rows(made, "day,session,project,machine"),
    ] == [
        [("Ada", 1, price), ("Bob", 2, "0.0042")],
        [("(none)", 1, cheap), ("r1", 2, "0.0063")],
        [("(none)", 1, cheap), ("dev", 1, price), ("main", 1, price)],
        [(haiku, 1, cheap), (sonnet, 2, "0.0063")],
        [
            ("Ada", "r1", "main", sonnet, 1, price),
            ("Bob", "(none)", "(none)", haiku, 1, cheap),
            ("Bob", "r1", "dev", sonnet, 1, price),
        ],
        [(day, "s1", "p", "(none)", 2, "0.0063"), (day, "s2", "(none)", "(none)", 1, cheap)],
    ]


@in_a_world()
async def test_a_deleted_session_cost_what_it_cost(made: World) -> None:
    """Its bytes go, its money stays; pushed again it is not counted twice."""
    totals: list[object] = []
    await made.put("s1", reply("m-1"), headers={REPOSITORY: "r1"})
    for _ in range(2):
        await made.ask("DELETE", "/v1/sessions/s1", params={"purge": "true"})
        totals.append(await rows(made, "repo"))
        await made.put("s1", reply("m-1"))
        totals.append(await rows(made, "repo"))
    assert totals == [[("r1", 1, "0.00315")]] * 4


@in_a_world()
async def test_an_encrypted_session_says_nothing(made: World) -> None:
    """Lines marked as opaque are kept and given back; no cost, no words, no title."""
    data = reply("m-1") + prompt("secret word")
    await made.put("s1", data, headers={ENCRYPTED: "1"})
    total = (await cost(made))["total"]
    hits = (await made.ask("GET", "/v1/search", params={"q": "secret"})).json()["hits"]
    session = (await made.ask("GET", "/v1/sessions/s1")).json()["session"]
    assert [
        total["responses"],
        hits,
        session["title"],
        session["encrypted"],
        (await made.read("s1")).content,
    ] == [0, [], None, True, data]


@in_a_world()
async def test_csv_says_the_same(made: World) -> None:
    """One row a line, exact money, none where nothing has a price; a name that would be a formula is made harmless."""
    await made.put("s1", reply("m-1", gitBranch="=HYPERLINK(1)") + reply("m-2", "r-2", model="nobody-9"))
    text = (await made.ask("GET", "/v1/cost", params={"by": "branch", "format": "csv"})).text
    assert text == (
        "branch,responses,input,output,cache_write_5m,cache_write_1h,cache_read,web_searches,usd,unpriced\n"
        "'=HYPERLINK(1),1,1000,10,0,0,0,0,0.00315,\n"
        "(none),1,1000,10,0,0,0,0,,nobody-9\n"
    )


@in_a_world()
async def test_search_finds_lines_as_locally(made: World) -> None:
    """Words, phrases, prefixes, OR, NOT, parts of names, folded accents; newest first, with the words around."""
    texts = {
        "u-1": "The quick brown fox",
        "u-2": "quick thinking about parseHttpHeader in src/app.py",
        "u-3": "Über das Öl, 量子缓存",
        "u-4": "slow brown bear isn't 'quoted'",
    }
    lines = [
        prompt(text, uuid, f"2026-01-31T12:00:0{n}.000Z") for n, (uuid, text) in enumerate(texts.items())
    ]
    asked = {
        "quick": [2, 1],
        '"quick brown"': [1],
        '"brown quick"': [],
        "qui*": [2, 1],
        "fox OR bear": [4, 1],
        "brown -fox": [4],
        "http": [2],
        "app.py": [2],
        "uber": [3],
        "子缓": [3],
        "quick (fox OR thinking)": [2, 1],
        "isn't": [4],
        "nowhere": [],
    }
    await made.put("s1", b"".join(lines))
    found = {}
    for query in asked:
        answer = await made.ask("GET", "/v1/search", params={"q": query})
        assert answer.status_code == 200, (query, answer.text)
        found[query] = [hit["line"] for hit in answer.json()["hits"]]
    one = (await made.ask("GET", "/v1/search", params={"q": "fox", "limit": "1"})).json()
    assert found == asked
    assert one == {
        "hits": [
            {
                "session": "s1",
                "key": "",
                "line": 1,
                "at": 1769860800000,
                "type": "user",
                "snippet": "The quick brown fox",
            }
        ],
        "more": False,
        "searched_to": None,
    }


@in_a_world()
async def test_search_goes_back_through_all_of_time(made: World) -> None:
    """Newest first from the last minutes to lines without a time, whatever the limit; and what is dated ahead comes first."""
    now = dt.datetime.now(dt.UTC)
    ages = [
        dt.timedelta(minutes=-5),
        *(dt.timedelta(hours=one) for one in (0.5, 1, 2, 15.9, 16, 17, 239, 240, 241, 9_000)),
    ]
    named = {f"s{n}": (now - age).strftime("%Y-%m-%dT%H:%M:%S.000Z") for n, age in enumerate(ages)}
    for session, at in sorted(named.items(), key=lambda one: hash(one[0]) % 7):
        await made.put(session, prompt("needle", at=at))
    found = []
    for limit in (1, 3, 6, 9, 50):
        answer = await made.ask("GET", "/v1/search", params={"q": "needle", "limit": str(limit)})
        found.append([hit["session"] for hit in answer.json()["hits"]])
    order = list(named)
    assert found == [order[:limit] for limit in (1, 3, 6, 9, 50)]


@in_a_world()
async def test_search_is_narrowed(made: World) -> None:
    """By session, project and time, with a limit that says when there was more."""
    for n in range(3):
        at = f"2026-01-3{n % 2}T12:00:00.000Z"
        await made.put(f"s{n}", prompt("needle", at=at), headers={PROJECT: f"p{n}"})

    async def hits(**parameters: str) -> list[str]:
        answer = (await made.ask("GET", "/v1/search", params={"q": "needle", **parameters})).json()
        return sorted(hit["session"] for hit in answer["hits"])

    more = (await made.ask("GET", "/v1/search", params={"q": "needle", "limit": "2"})).json()["more"]
    assert [
        await hits(session="s1"),
        await hits(project="p2"),
        await hits(since="2026-01-31"),
        await hits(until="2026-01-30"),
        more,
    ] == [["s1"], ["s2"], ["s1"], ["s0", "s2"], True]


@in_a_world()
async def test_whole_days_and_their_ends_are_told_as_by_the_quarter(made: World) -> None:
    """Any span over several days, and every key: the sums by day, by quarter and by response are put together without
    gap or overlap. A price change lies between two of the days."""
    times = [
        f"{day}T{hour}"
        for day in ("2026-03-14", "2026-03-15", "2026-03-16", "2026-03-17", "2026-03-18")
        for hour in ("00:00:00.000", "00:20:00.000", "13:00:00.000", "23:59:59.999")
    ]
    spans = [
        {},
        {"since": "2026-03-15"},
        {"until": "2026-03-16"},
        {"since": "2026-03-14T13:00:00Z", "until": "2026-03-18T00:20:00Z"},
        {"since": "2026-03-15T00:00:00.001Z", "until": "2026-03-17T23:59:59.999Z"},
        {"since": "2026-03-15T00:10:00Z", "until": "2026-03-15T00:30:00Z"},
        {"since": "2026-03-16", "until": "2026-03-15"},
    ]
    lines = [reply(f"m-{n}", at=f"{at}Z", output=n, gitBranch=f"b{n % 3}") for n, at in enumerate(times)]
    await made.put("s1", b"".join(lines[::2]) + reply("m-99", at="nonsense"))
    await made.put("s2", b"".join(lines[1::2]))
    found: Any = [
        await rows(made, by, **span)
        for span in spans
        for by in ("day", "person", "session,branch", "model,day")
    ]
    day, person, branch, model = (found[place::4] for place in range(4))
    first = [dict.fromkeys((at[:10] for at in times), 4) | {"(none)": 1}]
    assert [{row[0]: row[1] for row in rows} for rows in day] == [
        *first,
        {"2026-03-15": 4, "2026-03-16": 4, "2026-03-17": 4, "2026-03-18": 4},
        {"2026-03-14": 4, "2026-03-15": 4, "2026-03-16": 4},
        {"2026-03-14": 2, "2026-03-15": 4, "2026-03-16": 4, "2026-03-17": 4, "2026-03-18": 1},
        {"2026-03-15": 3, "2026-03-16": 4, "2026-03-17": 3},
        {"2026-03-15": 1},
        {},
    ]
    # Whatever a report names, it is the same usage for the same money.
    totals = [
        [(sum(row[-2] for row in rows), sum(Decimal(row[-1]) for row in rows)) for rows in reports]
        for reports in (day, person, branch, model)
    ]
    assert totals[1:] == [totals[0]] * 3


REPLIES = st.builds(
    lambda message, request, output, side, forked, second: (
        message,
        reply(
            f"m-{message}",
            f"r-{request}",
            output=output,
            isSidechain=side,
            at=f"2026-01-31T12:{14 + second:02d}:59.999Z",
            gitBranch=f"b-{second}",
            forkedFrom={"sessionId": "x"} if forked else None,
        ),
    )[1],
    st.integers(0, 2),
    st.integers(0, 1),
    st.sampled_from([1, 10]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 1),
)
HISTORY = st.lists(
    st.tuples(
        st.sampled_from(["s1", "s2", "s3"]),
        st.sampled_from(["", "subagents/agent-1"]),
        st.lists(REPLIES, min_size=1, max_size=3),
    ),
    min_size=1,
    max_size=8,
)


@pytest.mark.parametrize("name", ["sqlite", "postgres"])
@given(history=HISTORY)
@settings(max_examples=15)
def test_rollups_do_not_depend_on_the_order_of_arrival(
    name: str,
    history: list[tuple[str, str, list[bytes]]],
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Whatever is repeated, replayed and forked: the sums of appends as they came, of whole logs, and of those in reverse order
    agree, key by key."""
    logs: dict[tuple[str, str], bytes] = {}
    appends: list[tuple[str, str, bytes, bytes]] = []
    for session, key, lines in history:
        before, new = logs.get((session, key), b""), b"".join(lines)
        appends.append((session, key, before, new))
        logs[session, key] = before + new
    whole = [(session, key, b"", data) for (session, key), data in logs.items()]

    async def scene(made: World, appends: list[tuple[str, str, bytes, bytes]]) -> list[object]:
        for session, key, before, new in appends:
            assert (await made.put(session, new, after(before), key=key)).status_code == 200
        by = "session,branch,model,day"
        return [await rows(made, by), await rows(made, by, until="2026-01-31T12:15:00Z")]

    kind = kind_named(name, request, tmp_path_factory.mktemp("rollup"))
    one, two, three = (in_world(kind, partial(scene, appends=some)) for some in (appends, whole, whole[::-1]))
    assert one == two == three


@in_a_world()
async def test_the_team_total_is_the_local_total(made: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Every log of the sample home pushed to a server costs there what ``recollect cost`` says here."""
    assert main(["--home", ":sample", "cost", "--json", "--no-index"]) == 0
    local = json.loads(capsys.readouterr().out)
    home = Path(sample_home())
    for path in sorted(home.glob("projects/*/**/*.jsonl")):
        parts = path.relative_to(home / "projects").with_suffix("").parts[1:]
        answer = await made.put(parts[0], path.read_bytes(), START, key="/".join(parts[1:]))
        assert answer.status_code in (200, 400), answer.text
    total = (await cost(made))["total"]
    assert (total["responses"], total["usd"]) == (local["totals"]["responses"], local["totals"]["cost_usd"])


@in_a_world()
async def test_unpriced_models_are_named(made: World) -> None:
    """Tokens of a model without a price are counted and the model is named; what they cost is not known to be 0."""
    await made.put("s1", reply("m-1", model="nobody-9") + line(type="assistant"))
    total = (await cost(made))["total"]
    assert [total["responses"], total["usd"], total["unpriced"]] == [1, None, ["nobody-9"]]


OTHERS_PRICES = [
    # Days in one week, with a change of prices between them; and days weeks away.
    ("gpt-5.6-sol", "2026-08-20T23:59:59.999Z"),
    ("gpt-5.6-sol", "2026-08-21T00:00:00.000Z"),
    ("gpt-5.6-sol", "2026-02-03T10:00:00.000Z"),
    ("gpt-5.6-sol", "nonsense"),
    ("openai/gpt-5.6-luna", "2026-07-29T12:00:00.000Z"),
    ("openai/gpt-5.6-luna", "2026-07-30T12:00:00.000Z"),
    ("mistral-small-latest", "2026-03-15T12:00:00.000Z"),
    ("mistral-small-latest", "2026-03-16T12:00:00.000Z"),
    ("claude-sonnet-4-6", "2026-03-12T12:00:00.000Z"),
    ("claude-sonnet-4-6", "2026-03-13T12:00:00.000Z"),
    ("claude-sonnet-4-6", "2026-08-22T12:00:00.000Z"),
]


def _local(home: Path, lines: dict[str, bytes], capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    """Responses and money by model, as ``recollect cost`` has them of the same logs; the total under no name."""
    (home / "projects/p").mkdir(parents=True)
    for session, data in lines.items():
        (home / f"projects/p/{session}.jsonl").write_bytes(data)
    assert main(["--home", str(home), "cost", "--json", "--no-index", "--by", "model"]) == 0
    report = json.loads(capsys.readouterr().out)
    found = {row["model"]: (row["responses"], row["cost_usd"]) for row in report["rows"]}
    return {**found, "": (report["totals"]["responses"], report["totals"]["cost_usd"])}


def _summed(report: dict[str, Any]) -> dict[str, object]:
    """The same of a report of the server by any keys; by model where that is one of them."""
    found: dict[str, list[int]] = {}
    for row in report["rows"]:
        one = found.setdefault(row["keys"].get("model", ""), [0, 0])
        one[0] += row["responses"]
        one[1] += row["pico_usd"]
    total = report["total"]
    assert sum(pico for _, pico in found.values()) == total["pico_usd"]
    told = {model: (count, exact(pico)) for model, (count, pico) in found.items()}
    return {**told, "": (total["responses"], total["usd"])}


def _used(message: str, model: str, at: str, **usage: int) -> bytes:
    """A response with these counts."""
    said = json.loads(reply(message, f"r-{message}", model=model, at=at, uuid=f"a-{message}"))
    said["message"]["usage"] |= usage
    return line(**said)


# Prices with a gap: none for what is read from a cache, none for writing to one, none at all.
_NOON = "2026-03-02T12:00:00.000Z"
GAPS = {
    "s1": _used("m-1", "mistral-small-latest", _NOON)
    + _used("m-2", "mistral-small-latest", _NOON, cache_read_input_tokens=5)
    + _used("m-3", "gpt-5", "2026-05-01T12:00:00.000Z", cache_creation_input_tokens=7),
    "s2": _used("m-4", "mistral-small-latest", "2026-03-02T12:07:00.000Z")
    + _used("m-4", "mistral-small-latest", "2026-03-02T12:07:00.000Z", output_tokens=99)
    + _used("m-5", "gpt-5", "2026-05-01T12:00:01.000Z", cache_read_input_tokens=11)
    + _used("m-6", "claude-sonnet-4-5", _NOON, cache_read_input_tokens=13)
    + _used("m-7", "nobody-9", _NOON)
    + _used("m-8", "mistral-small-latest", "nonsense"),
    "s3": _used("m-5", "gpt-5", "2026-05-01T12:00:01.000Z", cache_read_input_tokens=11),
}


@pytest.mark.parametrize("span", [{}, {"since": "2026-03-02T12:05:00Z", "until": "2026-05-01T12:00:01.001Z"}])
@in_a_world()
async def test_a_price_with_a_gap_is_told_apart_as_locally(
    made: World, span: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What of a model has a price is in the sum, and the rest is said to be without, by any keys."""
    for session, data in GAPS.items():
        assert (await made.put(session, data)).status_code == 200
    reports = [await cost(made, by=by, **span) for by in ("model", "person", "session,model", "day,model")]
    models = {tuple(row["keys"].values())[-1]: row["unpriced"] for row in reports[0]["rows"]}
    home = tmp_path / "home"
    (home / "projects/p").mkdir(parents=True)
    for session, data in GAPS.items():
        (home / f"projects/p/{session}.jsonl").write_bytes(data)
    more = [word for name, time in span.items() for word in (f"--{name}", time)]
    assert main(["--home", str(home), "cost", "--json", "--no-index", "--by", "model", *more]) == 0
    report = json.loads(capsys.readouterr().out)
    local = {row["model"]: (row["responses"], row["cost_usd"] or "0") for row in report["rows"]}
    total = {"": (report["totals"]["responses"], report["totals"]["cost_usd"])}
    unpriced = sorted(row["model"] for row in report["rows"] if row["unpriced_responses"])
    found: list[Any] = [*map(_summed, reports), models, reports[1]["total"]["unpriced"]]
    *told, models, all_unpriced = found
    assert told == [local | total, total, local | total, local | total]
    assert sorted(model for model, names in models.items() if names) == unpriced == all_unpriced


@in_a_world()
async def test_a_price_with_a_gap_over_a_dropped_month(made: World) -> None:
    """Sums are left of it; of all months, what has a price is in the sum."""
    for session, data in GAPS.items():
        await made.put(session, data)
    await made.ask("PATCH", "/v1/org", json={"usage_days": 62})
    await made.database.sweep(1_781_481_600_000, 604_800_000)  # 2026-06-15: March is dropped
    report = await cost(made, by="model")
    assert ({row["keys"]["model"]: (row["responses"], row["usd"]) for row in report["rows"]}) == {
        "claude-sonnet-4-5": (1, "0.0031539"),
        "gpt-5": (2, "0.002701375"),
        "mistral-small-latest": (4, "0.0004387"),
        "nobody-9": (1, None),
    }


@pytest.mark.parametrize("by", ["person", "model", "session,model", "day", "branch,model,day", "repository"])
@in_a_world()
async def test_other_vendors_changes_of_prices_divide_sums(
    made: World, by: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every response costs what its model cost at its time, to the pico-dollar; also for a server that was asked while there were only
    models of Claude, and one that never was."""
    replies = [
        reply(f"m-{n}", f"r-{n}", model=model, at=at, output=10 + n, uuid=f"a-{n}")
        for n, (model, at) in enumerate(OTHERS_PRICES)
    ]
    names = [f"00000000-0000-4000-8000-00000000000{n}" for n in range(2)]
    lines = {names[0]: b"".join(replies[:7]), names[1]: b"".join(replies[7:])}
    local = _local(tmp_path / "home", lines, capsys)
    span = {"since": "2026-08-20", "until": "2026-08-23"}
    await made.put("s0", reply("m-99", at="2026-01-31T12:00:01.000Z"))
    first = await cost(made, by=by)
    await made.ask("DELETE", "/v1/sessions/s0")
    for session, data in lines.items():
        await made.put(session, data)
    asked = [await cost(made, by=by), await cost(made, by=by)]
    anew = World(made.database, Service(made.database, limits=PLENTY), made.org)
    anew.token = made.token
    async with anew.client:
        asked += [await cost(anew, by=by, **span), await cost(anew, by=by)]
    before, again, more, part, whole = (_summed(report) for report in [first, *asked])
    early = exact(3_150_000_000)
    assert before[""] == (1, early)
    local_total: Any = local[""]
    expected = (local_total[0] + 1, exact(round(Decimal(local_total[1]) * PICO) + 3_150_000_000))
    assert again[""] == more[""] == whole[""] == expected
    # Sol at 5 and 30 dollars, then at 4 and 20; Sonnet at 3 and 15.
    sol = 1000 * 5_000_000 + 10 * 30_000_000, 1000 * 4_000_000 + 11 * 20_000_000
    assert part[""] == (3, exact(sum(sol) + 1000 * 3_000_000 + 20 * 15_000_000))
    if "model" in by:
        assert {name: one for name, one in again.items() if name in local and name} == {
            name: one for name, one in local.items() if name
        }
