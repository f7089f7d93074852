"""What every database must answer the team: what it cost, exactly and once, and where something was said."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.cli.main import main
from recollect.model.cost.cents import PICO
from recollect.model.cost.money import exact
from recollect.model.cost.prices import PriceList
from recollect.sample import sample_home
from recollect.server.service import Service
from recollect.sync.wire import ENCRYPTED, PROJECT, REPOSITORY, START
from tests.server.conftest import Kind, kind_named
from tests.server.world import PLENTY, World, after, in_world, line, prompt, reply

# Sonnet 4.5: 3 dollars a million of input, 15 of output; so a reply of 1,000 and 10 costs 0.00315.


async def cost(made: World, **parameters: str) -> dict[str, object]:
    answer = await made.ask("GET", "/v1/cost", params=parameters)
    assert answer.status_code == 200, answer.text
    report: dict[str, object] = answer.json()
    return report


async def rows(made: World, by: str, **parameters: str) -> list[tuple[object, ...]]:
    report = await cost(made, by=by, **parameters)
    return sorted((*row["keys"].values(), row["responses"], row["usd"]) for row in report["rows"])  # type: ignore[attr-defined]


def test_a_response_counts_once(kind: Kind) -> None:
    """However many lines, appends, logs and sessions repeat it; the largest output speaks."""

    async def scene(made: World) -> list[object]:
        partial, whole = reply("m-1", output=1), reply("m-1", output=10, uuid="a-2")
        await made.put("s1", partial)
        await made.put("s1", whole, after(partial))
        await made.put("s2", whole + reply("m-2", output=10))
        await made.put("s1", reply("m-1", output=10, isSidechain=True), key="subagents/agent-1")
        total = (await cost(made))["total"]
        return [total["responses"], total["usd"], total["tokens"]["output"]]  # type: ignore[index]

    assert in_world(kind, scene) == [2, "0.0063", 20]


def test_money_is_told_by_person_repository_branch_and_model(kind: Kind) -> None:
    """Each key alone and all together; what was not said has a name of its own."""
    haiku = "claude-haiku-4-5-20251001"  # 1 and 5 dollars: 0.00105

    async def scene(made: World) -> list[object]:
        bob, _ = await made.secret(await made.member("Bob", "member"))
        await made.put("s1", reply("m-1", gitBranch="main"), headers={REPOSITORY: "r1", PROJECT: "p"})
        # Bob goes on with Ada's session: his lines are his.
        await made.put("s1", reply("m-2", gitBranch="dev"), after(reply("m-1", gitBranch="main")), token=bob)
        await made.put("s2", reply("m-3", model=haiku), token=bob)
        return [
            await rows(made, "person"),
            await rows(made, "repo"),
            await rows(made, "branch"),
            await rows(made, "model"),
            await rows(made, "person,repository,branch,model"),
            await rows(made, "day,session,project,machine"),
        ]

    sonnet, price, cheap = "claude-sonnet-4-5-20250929", "0.00315", "0.00105"
    day = "2026-01-31"
    assert in_world(kind, scene) == [
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


def test_times_cut_to_the_millisecond(kind: Kind) -> None:
    """Within a quarter of an hour, at its borders and over many of them."""
    times = ["11:59:59.999", "12:00:00.000", "12:07:30.000", "12:15:00.000", "13:00:00.000"]

    async def counted(made: World, since: str | None, until: str | None) -> object:
        asked = {
            name: f"2026-01-31T{text}Z"
            for name, text in (("since", since), ("until", until))
            if text is not None
        }
        total: dict[str, object] = (await cost(made, **asked))["total"]  # type: ignore[assignment]
        return total["responses"]

    async def scene(made: World) -> list[object]:
        lines = [reply(f"m-{n}", at=f"2026-01-31T{text}Z") for n, text in enumerate(times)]
        timeless = reply("m-9", at="nonsense")
        await made.put("s1", b"".join(lines) + timeless)
        spans = [
            (None, None),
            ("12:00:00.000", None),
            ("12:00:00.001", None),
            (None, "12:00:00.000"),
            ("12:00:00.000", "12:07:30.001"),
            ("12:00:00.001", "12:07:30.000"),
            ("12:07:30.000", "13:00:00.001"),
            ("12:01:00.000", "12:02:00.000"),
            ("13:00:00.000", "12:00:00.000"),
        ]
        return [await counted(made, since, until) for since, until in spans]

    assert in_world(kind, scene) == [6, 4, 3, 1, 2, 0, 3, 0, 0]


def test_a_deleted_session_cost_what_it_cost(kind: Kind) -> None:
    """Its bytes go, its money stays; pushed again it is not counted twice."""

    async def scene(made: World) -> list[object]:
        totals: list[object] = []
        await made.put("s1", reply("m-1"), headers={REPOSITORY: "r1"})
        for _ in range(2):
            await made.ask("DELETE", "/v1/sessions/s1", params={"purge": "true"})
            totals.append(await rows(made, "repo"))
            await made.put("s1", reply("m-1"))
            totals.append(await rows(made, "repo"))
        return totals

    assert in_world(kind, scene) == [[("r1", 1, "0.00315")]] * 4


def test_an_encrypted_session_says_nothing(kind: Kind) -> None:
    """Lines marked as opaque are kept and given back; no cost, no words, no title."""
    data = reply("m-1") + prompt("secret word")

    async def scene(made: World) -> list[object]:
        await made.put("s1", data, headers={ENCRYPTED: "1"})
        total: dict[str, object] = (await cost(made))["total"]  # type: ignore[assignment]
        hits = (await made.ask("GET", "/v1/search", params={"q": "secret"})).json()["hits"]
        session = (await made.ask("GET", "/v1/sessions/s1")).json()["session"]
        return [
            total["responses"],
            hits,
            session["title"],
            session["encrypted"],
            (await made.read("s1")).content,
        ]

    assert in_world(kind, scene) == [0, [], None, True, data]


def test_csv_and_parquet_say_the_same(kind: Kind) -> None:
    """One row a line, exact money; a name that would be a formula is made harmless."""
    pytest.importorskip("pyarrow")
    from importlib import import_module

    async def scene(made: World) -> tuple[str, bytes]:
        await made.put("s1", reply("m-1", gitBranch="=HYPERLINK(1)"))
        text = (await made.ask("GET", "/v1/cost", params={"by": "branch", "format": "csv"})).text
        table = await made.ask("GET", "/v1/cost", params={"by": "branch", "format": "parquet"})
        return text, table.content

    text, table = in_world(kind, scene)
    assert text == (
        "branch,responses,input,output,cache_write_5m,cache_write_1h,cache_read,web_searches,usd,unpriced\n"
        "'=HYPERLINK(1),1,1000,10,0,0,0,0,0.00315,\n"
    )
    found = import_module("pyarrow.parquet").read_table(io.BytesIO(table)).to_pylist()
    assert [(row["branch"], row["responses"], int(row["pico_usd"])) for row in found] == [
        ("=HYPERLINK(1)", 1, 3_150_000_000)
    ]


def test_search_finds_lines_as_locally(kind: Kind) -> None:
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

    async def scene(made: World) -> tuple[dict[str, list[int]], object]:
        await made.put("s1", b"".join(lines))
        found = {}
        for query in asked:
            answer = await made.ask("GET", "/v1/search", params={"q": query})
            assert answer.status_code == 200, (query, answer.text)
            found[query] = [hit["line"] for hit in answer.json()["hits"]]
        one = (await made.ask("GET", "/v1/search", params={"q": "fox", "limit": "1"})).json()
        return found, one

    found, one = in_world(kind, scene)
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


def test_search_goes_back_through_all_of_time(kind: Kind) -> None:
    """Newest first from the last minutes to lines without a time, whatever the limit; and what is dated ahead comes first."""
    now = dt.datetime.now(dt.UTC)
    ages = [
        dt.timedelta(minutes=-5),
        *(dt.timedelta(hours=one) for one in (0.5, 1, 2, 15.9, 16, 17, 239, 240, 241, 9_000)),
    ]
    named = {f"s{n}": (now - age).strftime("%Y-%m-%dT%H:%M:%S.000Z") for n, age in enumerate(ages)}

    async def scene(made: World) -> list[list[str]]:
        for session, at in sorted(named.items(), key=lambda one: hash(one[0]) % 7):
            await made.put(session, prompt("needle", at=at))
        found = []
        for limit in (1, 3, 6, 9, 50):
            answer = await made.ask("GET", "/v1/search", params={"q": "needle", "limit": str(limit)})
            found.append([hit["session"] for hit in answer.json()["hits"]])
        return found

    order = list(named)
    assert in_world(kind, scene) == [order[:limit] for limit in (1, 3, 6, 9, 50)]


def test_search_is_narrowed(kind: Kind) -> None:
    """By session, project and time, with a limit that says when there was more."""

    async def scene(made: World) -> list[object]:
        for n in range(3):
            at = f"2026-01-3{n % 2}T12:00:00.000Z"
            await made.put(f"s{n}", prompt("needle", at=at), headers={PROJECT: f"p{n}"})

        async def hits(**parameters: str) -> list[str]:
            answer = (await made.ask("GET", "/v1/search", params={"q": "needle", **parameters})).json()
            return sorted(hit["session"] for hit in answer["hits"])

        more = (await made.ask("GET", "/v1/search", params={"q": "needle", "limit": "2"})).json()["more"]
        return [
            await hits(session="s1"),
            await hits(project="p2"),
            await hits(since="2026-01-31"),
            await hits(until="2026-01-30"),
            more,
        ]

    assert in_world(kind, scene) == [["s1"], ["s2"], ["s1"], ["s0", "s2"], True]


def test_whole_days_and_their_ends_are_told_as_by_the_quarter(kind: Kind) -> None:
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

    async def scene(made: World) -> list[object]:
        lines = [reply(f"m-{n}", at=f"{at}Z", output=n, gitBranch=f"b{n % 3}") for n, at in enumerate(times)]
        await made.put("s1", b"".join(lines[::2]) + reply("m-99", at="nonsense"))
        await made.put("s2", b"".join(lines[1::2]))
        return [
            await rows(made, by, **span)
            for span in spans
            for by in ("day", "person", "session,branch", "model,day")
        ]

    found = in_world(kind, scene)
    assert found == in_world(Kind("memory"), scene)
    assert sum(row[1] for row in found[0]) == len(times) + 1  # type: ignore[attr-defined]


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
def test_rollups_are_what_a_recount_of_all_lines_gives(
    name: str,
    history: list[tuple[str, str, list[bytes]]],
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Whatever is repeated, replayed and forked in whatever order: kept sums and a recount agree, key by key."""

    async def scene(made: World) -> list[object]:
        logs: dict[tuple[str, str], bytes] = {}
        for session, key, lines in history:
            before, new = logs.get((session, key), b""), b"".join(lines)
            assert (await made.put(session, new, after(before), key=key)).status_code == 200
            logs[session, key] = before + new
        by = "session,branch,model,day"
        return [await rows(made, by), await rows(made, by, until="2026-01-31T12:15:00Z")]

    kind = kind_named(name, request, tmp_path_factory.mktemp("rollup"))
    assert in_world(kind, scene) == in_world(Kind("memory"), scene)


def test_the_team_total_is_the_local_total(kind: Kind, capsys: pytest.CaptureFixture[str]) -> None:
    """Every log of the sample home pushed to a server costs there what ``recollect cost`` says here."""
    assert main(["--home", ":sample", "cost", "--json", "--no-index"]) == 0
    local = json.loads(capsys.readouterr().out)
    home = Path(sample_home())

    async def scene(made: World) -> dict[str, object]:
        for path in sorted(home.glob("projects/*/**/*.jsonl")):
            parts = path.relative_to(home / "projects").with_suffix("").parts[1:]
            answer = await made.put(parts[0], path.read_bytes(), START, key="/".join(parts[1:]))
            assert answer.status_code in (200, 400), answer.text
        total: dict[str, object] = (await cost(made))["total"]  # type: ignore[assignment]
        return total

    total = in_world(kind, scene)
    assert (total["responses"], total["usd"]) == (local["totals"]["messages"], local["totals"]["cost_usd"])


def test_unpriced_models_are_named(kind: Kind) -> None:
    """Tokens of a model without a price are counted and the model is named; what they cost is not known to be 0."""

    async def scene(made: World) -> object:
        await made.put("s1", reply("m-1", model="nobody-9") + line(type="assistant"))
        total: dict[str, object] = (await cost(made))["total"]  # type: ignore[assignment]
        return [total["responses"], total["usd"], total["unpriced"]]

    assert in_world(kind, scene) == [1, None, ["nobody-9"]]


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
    found = {row["model"]: (row["messages"], row["cost_usd"]) for row in report["rows"]}
    return {**found, "": (report["totals"]["messages"], report["totals"]["cost_usd"])}


def _summed(report: dict[str, object]) -> dict[str, object]:
    """The same of a report of the server by any keys; by model where that is one of them."""
    found: dict[str, list[int]] = {}
    for row in report["rows"]:  # type: ignore[attr-defined]
        one = found.setdefault(row["keys"].get("model", ""), [0, 0])
        one[0] += row["responses"]
        one[1] += row["pico_usd"]
    total: dict[str, Any] = report["total"]  # type: ignore[assignment]
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
def test_a_price_with_a_gap_is_told_apart_as_locally(
    kind: Kind, span: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What of a model has a price is in the sum, and the rest is said to be without, by any keys."""

    async def scene(made: World) -> list[object]:
        for session, data in GAPS.items():
            assert (await made.put(session, data)).status_code == 200
        reports = [
            await cost(made, by=by, **span) for by in ("model", "person", "session,model", "day,model")
        ]
        models = {tuple(row["keys"].values())[-1]: row["unpriced"] for row in reports[0]["rows"]}  # type: ignore[attr-defined]
        return [*map(_summed, reports), models, reports[1]["total"]["unpriced"]]  # type: ignore[index]

    home = tmp_path / "home"
    (home / "projects/p").mkdir(parents=True)
    for session, data in GAPS.items():
        (home / f"projects/p/{session}.jsonl").write_bytes(data)
    more = [word for name, time in span.items() for word in (f"--{name}", time)]
    assert main(["--home", str(home), "cost", "--json", "--no-index", "--by", "model", *more]) == 0
    report = json.loads(capsys.readouterr().out)
    local = {row["model"]: (row["messages"], row["cost_usd"] or "0") for row in report["rows"]}
    total = {"": (report["totals"]["messages"], report["totals"]["cost_usd"])}
    unpriced = sorted(row["model"] for row in report["rows"] if row["unpriced_responses"])
    found: list[Any] = in_world(kind, scene)
    *told, models, all_unpriced = found
    assert told == [local | total, total, local | total, local | total]
    assert sorted(model for model, names in models.items() if names) == unpriced == all_unpriced


@pytest.mark.parametrize("name", ["sqlite", "postgres"])
def test_a_price_with_a_gap_over_a_dropped_month(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Sums are left of it, and one without a price is so as a whole; months that are held, and what has no time, are told apart."""

    async def scene(made: World) -> object:
        for session, data in GAPS.items():
            await made.put(session, data)
        await made.ask("PATCH", "/v1/org", json={"usage_days": 62})
        await made.database.sweep(1_781_481_600_000, 604_800_000)  # 2026-06-15: March is dropped
        report = await cost(made, by="model")
        return {row["keys"]["model"]: (row["responses"], row["usd"]) for row in report["rows"]}  # type: ignore[attr-defined]

    assert in_world(kind_named(name, request, tmp_path), scene) == {
        "claude-sonnet-4-5": (1, "0.0031539"),
        "gpt-5": (2, "0.001351375"),
        "mistral-small-latest": (4, "0.000103"),
        "nobody-9": (1, None),
    }


@pytest.mark.parametrize("by", ["person", "model", "session,model", "day", "branch,model,day", "repository"])
def test_other_vendors_changes_of_prices_divide_sums(
    kind: Kind, by: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
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

    async def scene(made: World) -> list[dict[str, object]]:
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
        return [first, *asked]

    before, again, more, part, anew = (_summed(report) for report in in_world(kind, scene))
    early = exact(3_150_000_000)
    assert before[""] == (1, early)
    local_total: Any = local[""]
    expected = (local_total[0] + 1, exact(round(Decimal(local_total[1]) * PICO) + 3_150_000_000))
    assert again[""] == more[""] == anew[""] == expected
    # Sol at 5 and 30 dollars, then at 4 and 20; Sonnet at 3 and 15.
    sol = 1000 * 5_000_000 + 10 * 30_000_000, 1000 * 4_000_000 + 11 * 20_000_000
    assert part[""] == (3, exact(sum(sol) + 1000 * 3_000_000 + 20 * 15_000_000))
    if "model" in by:
        assert {name: one for name, one in again.items() if name in local and name} == {
            name: one for name, one in local.items() if name
        }


@pytest.mark.parametrize("name", ["sqlite", "postgres"])
def test_other_vendors_changes_of_prices_do_not_divide_sums_of_claude(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """A report by model has a row for each price that a model had, and not for each that any model had."""
    prices, days = PriceList(), ("2026-01-01", "2026-02-01", "2026-07-01", "2026-08-05", "2026-10-13")
    models = ("claude-sonnet-4-6", "gpt-5.6-sol")

    async def scene(made: World) -> list[tuple[str | None, int]]:
        at = [(model, f"{day}T12:00:00.000Z") for model in models for day in days]
        await made.put("s1", b"".join(reply(f"m-{n}", model=one, at=day) for n, (one, day) in enumerate(at)))
        sums = await made.database.usage(
            made.org.id,
            None,
            None,
            by=["model"],
            changes=prices.changes(),
            other_changes=prices.other_changes,
        )
        return [(one.model, one.messages) for one in sums]

    found = in_world(kind_named(name, request, tmp_path), scene)
    assert sorted(found) == [(models[0], 2), (models[0], 3), *((models[1], 1) for _ in days)]


def test_sums_are_taken_twice_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never where there are only models of Claude, and once in a server's life where there are others."""

    async def scene(made: World) -> list[int]:
        asked: list[int] = []
        usage = made.database.usage

        async def counted(*values: Any, **named: Any) -> Any:
            asked[-1] += 1
            return await usage(*values, **named)

        monkeypatch.setattr(made.database, "usage", counted)
        for number, model in enumerate(("claude-opus-4-5", "<synthetic>", "gpt-5.6-sol", "gpt-5.6-sol")):
            asked.append(0)
            await made.put(f"s{number}", reply(f"m-{number}", model=model))
            await cost(made)
        return asked

    assert in_world(Kind("memory"), scene) == [1, 1, 2, 1]
