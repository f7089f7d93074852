"""Prices: what genai-prices says, what is published beside it, and nothing guessed."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from genai_prices.data import providers
from genai_prices.types import (
    ClauseEquals,
    ClauseOr,
    ClauseRegex,
    ClauseStartsWith,
    ModelInfo,
    Provider,
    Usage,
)
from hypothesis import given
from hypothesis import strategies as st

from recollect.model.cost import prices
from recollect.model.cost.money import exact
from recollect.model.cost.prices import (
    BATCH,
    CONTEXT_STEPS,
    FAST,
    QUARTER_SECONDS,
    UNCERTAIN,
    US_ONLY,
    PriceList,
    variant,
)
from tools import build_price_table

ANTHROPIC = next(provider for provider in providers if provider.id == "anthropic")
AMAZON = next(provider for provider in providers if provider.id == "aws")
MODELS = [pytest.param(model, id=model.id) for model in ANTHROPIC.models]
CLASSES = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "web_searches")
PRICES = PriceList()


def quarter(text: str) -> int:
    """The quarter of an hour of a UTC time."""
    return int(dt.datetime.fromisoformat(text + "+00:00").timestamp()) // QUARTER_SECONDS


NOW = quarter("2026-11-15T12:00")


def per_million(
    model: str, kind: int = 0, at: int = NOW, prices: PriceList = PRICES
) -> tuple[str, ...] | None:
    """Dollars per million tokens, per thousand searches at the end, as people write them."""
    price = prices.find(model, at, kind)
    if price is None:
        return None
    *tokens, search = price
    assert search is not None
    return (*("-" if rate is None else exact(rate * 10**6) for rate in tokens), exact(search * 1_000))


def said_by_the_package(
    provider: Provider, model: ModelInfo, counts: dict[str, int], day: dt.datetime, context: dict[str, str]
) -> Decimal:
    """What genai-prices charges; it counts everything cached as input too."""
    cached = counts["cache_write_5m"] + counts["cache_write_1h"] + counts["cache_read"]
    usage = Usage(
        input_tokens=counts["input"] + cached,
        output_tokens=counts["output"],
        cache_write_tokens=counts["cache_write_5m"] + counts["cache_write_1h"],
        cache_write_1h_tokens=counts["cache_write_1h"],
        cache_read_tokens=counts["cache_read"],
        web_searches=counts["web_searches"],
    )
    calculation = model.calc_price(usage, provider, genai_request_timestamp=day, price_context=context)
    return calculation.total_price


def cases(model: ModelInfo) -> list[dict[str, int]]:
    """A response with tokens of one class at every size of context that matters."""
    found = []
    for size in (1, 99_999, 100_000, 100_001, 200_000, 200_001, 1_000_000):
        counts = dict.fromkeys(CLASSES, 0)
        found += [
            counts | {name: size} for name in ("input", "cache_write_5m", "cache_write_1h", "cache_read")
        ]
        found += [counts | {"input": size} | more for more in ({"output": 4_321}, {"web_searches": 3})]
    without_cache = {"cache_write_5m", "cache_write_1h", "cache_read"} if model.id in WITHOUT_CACHE else set()
    return [case for case in found if not any(case[name] for name in without_cache)]


WITHOUT_CACHE = {"claude-2", "claude-v1"}
# Where the package has no price for a search; elsewhere it costs what ours does.
WITHOUT_SEARCH = {"claude-2", "claude-v1", "claude-3-haiku", "claude-3-opus-latest", "claude-3-sonnet"}
DAYS = [
    dt.datetime(*day, tzinfo=dt.UTC) for day in ((2025, 6, 1), (2026, 3, 12), (2026, 3, 13), (2026, 11, 15))
]


@pytest.mark.parametrize("model", MODELS)
def test_every_class_of_every_model_costs_what_the_package_says(model: ModelInfo) -> None:
    """For short and long contexts, before and after each change of price, and in batches since it has them."""
    different = []
    for day in DAYS:
        for kind, context in ((0, {}), (BATCH, {"processing": "batch"})):
            if kind and (day < DAYS[-1] or not model.price_variants):
                continue
            for counts in cases(model):
                if counts["web_searches"] and model.id in WITHOUT_SEARCH:
                    continue
                size = sum(counts[name] for name in CLASSES[:5]) - counts["output"]
                if model.id in build_price_table.FLAT_ON_OWN_API and size > 200_000:
                    continue  # see test_long_contexts_of_sonnet_4_and_4_5_cost_more_only_in_other_clouds
                price = PRICES.find(
                    model.id.removesuffix("-latest"),
                    int(day.timestamp()) // QUARTER_SECONDS,
                    kind | variant(size, None, None, None),
                )
                assert price is not None
                ours, missing = price.cost([counts[name] for name in CLASSES])
                assert missing is None
                theirs = said_by_the_package(ANTHROPIC, model, counts, day, context)
                if Decimal(exact(ours)) != theirs:
                    different.append((day, context, counts, exact(ours), theirs))

    assert [] == different


def test_a_price_changes_at_midnight_utc() -> None:
    """Opus 4.6 above 200,000 tokens: $10 to 2026-03-12, $5 from 2026-03-13."""
    before, after = quarter("2026-03-12T23:45"), quarter("2026-03-13T00:00")

    assert ("10", "37.5", "12.5", "20", "1", "10") == per_million("claude-opus-4-6", 2, before)
    assert ("5", "25", "6.25", "10", "0.5", "10") == per_million("claude-opus-4-6", 2, after)
    assert (after,) == PRICES.changes()


def test_a_list_that_was_asked_before_answers_as_a_new_one() -> None:
    """Prices are remembered from one change of the list to the next: of Claude's, or of all, as the model's name says."""
    models = [name for name, *_ in (*prices.MODELS, *prices.others()["models"])]
    changes = sorted({*PRICES.changes(), *PRICES.other_changes})
    asked = PriceList()
    wrong = [
        (model, at)
        for change in changes
        for at in (change - 1, change)
        for model in models
        if asked.find(model, at, 2) != PriceList().find(model, at, 2)
    ]

    assert len(changes) > 1
    assert [] == wrong


def test_a_time_that_cannot_be_right_gets_the_first_price() -> None:
    """A clock at 0, or before 1970, costs no more than the price does."""
    long_ago, first = (per_million("claude-opus-4-6", 2, at, PriceList()) for at in (-(10**9), 0))

    assert ("10", "37.5", "12.5", "20", "1", "10") == long_ago == first


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-sonnet-4"])
def test_long_contexts_of_sonnet_4_and_4_5_cost_more_only_in_other_clouds(model: str) -> None:
    """Client 2.1.325 and LiteLLM have one price on Anthropic's own API; LiteLLM has $6 / $22.50 in other clouds."""
    usual, long = ("3", "15", "3.75", "6", "0.3", "10"), ("6", "22.5", "7.5", "12", "0.6", "10")
    bedrock = (
        f"anthropic.{model}-20250929-v1:0" if model.endswith("5") else f"anthropic.{model}-20250514-v1:0"
    )

    assert [usual] * 3 == [per_million(model, size) for size in (0, 1, 2)]
    assert usual == per_million(f"{model}[1m]", 2)
    for name in (bedrock, f"global.{bedrock}", f"{model}@20250929"):
        assert [usual, usual, long] == [per_million(name, size) for size in (0, 1, 2)]


@pytest.mark.parametrize(
    ("model", "price"),
    [
        ("claude-mythos-5", ("10", "50", "12.5", "20", "1", "10")),
        ("claude-mythos-5-20260601", ("10", "50", "12.5", "20", "1", "10")),
        ("claude-mythos-5-1", ("10", "50", "12.5", "20", "0.25", "10")),
        ("us.anthropic.claude-mythos-5-1", ("11", "55", "13.75", "22", "0.275", "10")),
    ],
)
def test_models_the_package_lacks_have_the_prices_of_the_client(model: str, price: tuple[str, ...]) -> None:
    """The client's total for known counts gives each; LiteLLM has the same."""
    assert price == per_million(model)
    assert "client 2.1.325" in PRICES.describe(model, NOW, 0)


@pytest.mark.parametrize(
    ("endpoint", "times"), [("", "1"), ("global.", "1"), ("us.", "1.1"), ("eu.", "1.1"), ("us-gov.", "1.2")]
)
def test_what_an_endpoint_of_bedrock_costs(endpoint: str, times: str) -> None:
    """As LiteLLM has it; the client has the list price for all of them."""
    name = f"{endpoint}anthropic.claude-sonnet-4-5-20250929-v1:0"

    assert [Decimal(one) for one in per_million(name) or ()][:5] == [
        Decimal(one) * Decimal(times) for one in (per_million("claude-sonnet-4-5") or ())[:5]
    ]


@pytest.mark.parametrize(
    ("model", "kind", "said"),
    [
        ("claude-sonnet-4-5", 2, "no more above 200,000 tokens of context (client 2.1.325, LiteLLM 1.108.4;"),
        ("anthropic.claude-opus-5", 0, "without a region (client 2.1.325, LiteLLM 1.108.4)"),
        ("us.anthropic.claude-opus-5", 0, "client 2.1.325 has the list price"),
        ("us-gov.anthropic.claude-opus-5", 0, "1.2 x in AWS GovCloud (LiteLLM 1.108.4;"),
        ("claude-sonnet-4-5", US_ONLY, "1.1 x for US-only inference (client 2.1.325;"),
    ],
)
def test_a_disputed_price_names_its_source(model: str, kind: int, said: str) -> None:
    assert said in PRICES.describe(model, NOW, kind)


@pytest.mark.parametrize(
    ("model", "price"),
    [
        ("claude-opus-4-6", ("30", "150", "37.5", "60", "3", "10")),
        ("claude-opus-4-7", ("30", "150", "37.5", "60", "3", "10")),
        ("claude-opus-4-8", ("10", "50", "12.5", "20", "1", "10")),
        ("claude-opus-5", ("10", "50", "12.5", "20", "1", "10")),
        ("claude-opus-5-5", ("8", "40", "10", "16", "0.4", "10")),
    ],
)
def test_fast_mode_has_its_published_price_for_every_context(model: str, price: tuple[str, ...]) -> None:
    """Cache multipliers apply on top; a name that ends in -fast means the same."""
    assert [price] * 3 == [per_million(model, FAST | size) for size in (0, 1, 2)]
    assert price == per_million(model + "-fast")


def test_fast_mode_without_a_published_price_is_unpriced() -> None:
    """The other models have none, a batch has none, and Bedrock does not offer it."""
    fast = {row[0] for row in prices.MODELS if per_million(row[0], FAST) is not None}

    opus = {f"claude-opus-{release}" for release in ("4-6", "4-7", "4-8", "5", "5-5")}
    assert opus | {"claude-fable-5-2", "claude-mythos-5-2"} == fast
    assert per_million("claude-opus-5", FAST | BATCH) is None
    assert per_million("us.anthropic.claude-opus-5-v1:0", FAST) is None


def test_us_only_inference_costs_a_tenth_more() -> None:
    """On all token classes, on top of fast mode and batch; searches cost the same. As the client has it: for every model."""
    assert ("5.5", "27.5", "6.875", "11", "0.55", "10") == per_million("claude-opus-4-6", US_ONLY)
    assert ("33", "165", "41.25", "66", "3.3", "10") == per_million("claude-opus-4-6", US_ONLY | FAST)
    assert ("0.055", "0.275", "0.06875", "0.11", "0.0055", "10") == per_million(
        "claude-haiku-5-5", US_ONLY | BATCH
    )
    assert ("3.3", "16.5", "4.125", "6.6", "0.33", "10") == per_million("claude-sonnet-4-5", US_ONLY)


def test_a_batch_costs_half_also_where_the_package_has_no_history_of_it() -> None:
    """Opus 4.1 in 2025; Claude 3 Sonnet and Claude 2 were never offered in batches."""
    then = quarter("2025-09-01T00:00")

    assert ("7.5", "37.5", "9.375", "15", "0.75", "10") == per_million("claude-opus-4-1", BATCH, then)
    assert per_million("claude-3-sonnet-20240229", BATCH, then) is None
    assert per_million("claude-2", BATCH, then) is None


def test_a_class_without_a_price_leaves_the_others_priced() -> None:
    """Claude 2 had no cache: cached tokens are told as missing, and alone they are unpriced and not free."""
    price = PRICES.find("claude-2.1", NOW, 0)

    assert price is not None
    plain = 10 * 8_000_000 + 5 * 24_000_000
    assert (plain, None) == price.cost((10, 5, 0, 0, 0, 0))
    for cached in ((1, 0, 0), (0, 1, 0), (0, 0, 1)):
        assert (plain, (0, 0, *cached, 0)) == price.cost((10, 5, *cached, 0))
        assert (0, (0, 0, *cached, 0)) == price.cost((0, 0, *cached, 0))


# --- Names ---------------------------------------------------------------------------------------


def entry(name: str) -> str:
    """Which row of the table a name leads to, or nothing."""
    said = PRICES.describe(name, NOW, 0)
    return "" if said.startswith("no price") else said.replace(";", ",").partition(",")[0]


def _stems() -> list[str]:
    found = []
    for model in ANTHROPIC.models:
        clauses = model.match.or_ if isinstance(model.match, ClauseOr) else [model.match]
        for clause in clauses:
            if isinstance(clause, ClauseEquals):
                found.append(clause.equals)
            elif isinstance(clause, ClauseStartsWith):
                found.append(clause.starts_with)
            elif isinstance(clause, ClauseRegex):
                found.append(clause.regex.partition("\\d")[0].removeprefix("^").replace("[-@]", "-"))
    return sorted(stem for stem in set(found) if "@" not in stem)


_ENDS = [
    "",
    "-",
    "-20250929",
    "-20251345",
    "-202509290",
    "-2026-01131",
    "20260101",
    "-2026-01-31",
    "-2026-1-31",
    "-latest",
    "-1",
    "-5",
    ".5",
    "x",
]


@given(
    st.sampled_from([*_stems(), "claude-v2", "claude-instant"]), st.lists(st.sampled_from(_ENDS), max_size=2)
)
def test_names_are_matched_as_the_package_matches_them(stem: str, ends: list[str]) -> None:
    """Beginnings, whole names and dated ones, in any case, the first that fits."""
    name = (stem + "".join(ends)).upper()
    theirs = ANTHROPIC.find_model(name)

    assert (theirs.id if theirs else "") == entry(name)


@pytest.mark.parametrize(
    "name",
    [
        "claude-nightly-20261101",
        "claude-opus-5-6",
        "claude-opus-4-9-20270101",
        "claude-sonnet-6",
        "claude-fable-5-preview",
        "claude",
        "",
        "sonnet",
        "gpt-5.5-next",
        "anthropic/claude-opus-5",
        "us.anthropic.claude-nightly-v1:0",
        "claude-nightly[1m]",
        "claude-nightly@20261101",
        "notanthropic.claude-opus-5",
    ],
)
def test_a_name_that_only_resembles_a_known_one_is_unpriced(name: str) -> None:
    """No price of a family is ever guessed."""
    assert PRICES.find(name, NOW, 0) is None


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("claude-opus-5[1m]", "claude-opus-5"),
        ("claude-sonnet-4-5-20250929[1m]", "claude-sonnet-4-5"),
        ("global.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        ("global.anthropic.claude-opus-5-v1", "claude-opus-5"),
        ("us.anthropic.claude-3-7-sonnet-20250219-v1:0", "claude-3-7-sonnet-latest"),
        ("anthropic.claude-3-5-sonnet-20241022-v2:0", "claude-3-5-sonnet"),
        ("claude-fable-5@20260601", "claude-fable-5"),
        ("claude-sonnet-4@20250514", "claude-sonnet-4-0"),
        ("claude-opus-5@20260723", "claude-opus-5"),
        ("claude-opus-5-5@default", "claude-opus-5-5"),
    ],
)
def test_what_stands_around_a_known_name_is_looked_through(name: str, meant: str) -> None:
    """The same model at the same price, in the words of the client, of Amazon and of Google."""
    assert meant == entry(name)
    assert per_million(meant) == per_million(name)


def test_bedrock_names_cost_what_the_package_says_of_amazon() -> None:
    """List price at the global endpoint; at the others 1.1 times from Sonnet 4.5 and Haiku 4.5 on."""
    counts = dict(zip(CLASSES, (1_000, 100, 10_000, 0, 20_000, 0), strict=True))
    day = DAYS[-1]
    compared, different = 0, []
    for model in AMAZON.models:
        endpoint, brand, name = model.id.partition("anthropic.")
        if not brand or model.id.endswith(("claude-3-haiku-20240307-v1:0", "claude-3-opus-20240229-v1:0")):
            continue  # the package has no cache prices for these two
        price = PRICES.find(endpoint.replace("regional.", "us.") + brand + name, NOW, 0)
        ours = None if price is None else price.cost([counts[name] for name in CLASSES])[0]
        theirs = said_by_the_package(AMAZON, model, counts, day, {})
        compared += 1
        if ours is None or Decimal(exact(ours)) != theirs:
            different.append((model.id, ours, theirs))

    assert (41, []) == (compared, different)


# --- Variants ------------------------------------------------------------------------------------


def test_the_steps_of_context_lie_above_their_numbers() -> None:
    """As in the package: a context of exactly 200,000 tokens has the lower price."""
    sizes = (0, 100_000, 100_001, 200_000, 200_001, 272_000, 272_001, 10**6)

    assert [0, 0, 1, 1, 2, 2, 3, 3] == [variant(size, None, None, None) for size in sizes]


def test_what_clients_write_about_an_ordinary_response_is_variant_0() -> None:
    """The values found in real transcripts, and those of clients that wrote none."""
    assert {0} == {
        variant(1, speed, geo, tier)
        for speed in (None, "standard")
        for geo in (None, "", "not_available", "global")
        for tier in (None, "standard")
    }


def test_each_way_of_serving_has_a_bit() -> None:
    """They add up, and doubt about the counts is one more."""
    assert 3 + FAST + US_ONLY + BATCH + UNCERTAIN == variant(300_000, "fast", "us", "batch", True)


@pytest.mark.parametrize("said", [("turbo", None, None), (None, "eu", None), (None, None, "priority")])
def test_an_unknown_way_of_serving_is_uncertain(said: tuple[str | None, str | None, str | None]) -> None:
    """It gets the usual price and is marked, because that price may be wrong (law 11)."""
    assert UNCERTAIN == variant(1, *said)
    assert per_million("claude-opus-5") == per_million("claude-opus-5", UNCERTAIN)


def test_service_tiers_of_openai_cost_what_is_published_since_it_is_known() -> None:
    """Half for flex, twice for priority, which its client calls fast; before that day, and for others, no price is known."""
    day = (dt.date(2026, 10, 12) - dt.date(1970, 1, 1)).days * 96
    flex, fast = variant(1, None, None, "flex"), variant(1, None, None, "fast")
    assert not (flex | fast) & UNCERTAIN
    assert per_million("gpt-5", at=day) == ("1.25", "10", "-", "-", "0.125", "10")
    assert per_million("gpt-5", flex, day) == ("0.625", "5", "-", "-", "0.0625", "10")
    assert per_million("gpt-5", fast, day) == ("2.5", "20", "-", "-", "0.25", "10")
    assert per_million("gpt-5", flex, day - 1) is None
    assert "service tier flex before 2026-10-12" in PRICES.describe("gpt-5", day - 1, flex)
    assert per_million("claude-opus-5", flex, day) is None
    assert per_million("gpt-4o-mini-2024-07-18", flex, day) is None


# --- The user's own prices -----------------------------------------------------------------------


def test_an_own_price_comes_before_the_list() -> None:
    """It stands for the model and its dated releases, and for nothing else."""
    own = PriceList(
        {"claude-opus-5": {"input": "1", "output": "2"}, "Claude-Nightly": {"input": 3, "output": 15}}
    )

    assert ("1", "2", "1.25", "2", "0.1", "10") == per_million("claude-opus-5-20260723", prices=own)
    assert ("3", "15", "3.75", "6", "0.3", "10") == per_million("claude-nightly-20261101", prices=own)
    assert ("1", "2", "1.25", "2", "0.1", "10") == per_million("us.anthropic.claude-opus-5-v1:0", prices=own)
    assert per_million("claude-opus-5-5") == per_million("claude-opus-5-5", prices=own)
    assert per_million("claude-nightly-2", prices=own) is None


def test_an_own_price_is_taken_as_it_stands() -> None:
    """Every class as given; long contexts, batches and US-only inference change nothing."""
    given = ("0.000001", "20.5", "3", "4", "5", "6.5")
    names = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "web_search")
    own = PriceList({"m": dict(zip(names, given, strict=True))})

    assert {given} == {per_million("m", kind, prices=own) for kind in (0, 2, US_ONLY, BATCH, UNCERTAIN)}


def test_an_own_price_for_fast_mode_is_a_section_of_its_own() -> None:
    """The price of the usual speed does not cover it, nor does the list once the model is the user's."""
    plain = {"claude-opus-5": {"input": "1", "output": "2"}}
    both = PriceList(plain | {"claude-opus-5-fast": {"input": "7", "output": "8"}})

    assert per_million("claude-opus-5", FAST, prices=PriceList(plain)) is None
    assert ("7", "8", "8.75", "14", "0.7", "10") == per_million("claude-opus-5", FAST, prices=both)
    assert ("1", "2", "1.25", "2", "0.1", "10") == per_million("claude-opus-5", 0, prices=both)


def test_of_several_beginnings_the_longest_decides_and_a_whole_name_before_them() -> None:
    """``claude-x*`` stands for every name that begins so."""
    names = {"claude-*": "1", "claude-x*": "2", "claude-x-1": "3"}
    own = PriceList({name: {"input": price, "output": "9"} for name, price in names.items()})
    found = [per_million(name, prices=own) for name in ("claude-y", "claude-x-2", "claude-x-1-20260101")]

    assert per_million("claude-y", FAST, prices=own) is None
    assert ["1", "2", "3"] == [price[0] for price in found if price]


# --- Explaining ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "at", "kind", "said"),
    [
        ("claude-opus-5", NOW, 0, "claude-opus-5; list price (genai-prices 0.2.1)"),
        (
            "claude-sonnet-4-6",
            quarter("2026-03-01T00:00"),
            2 | US_ONLY,
            "claude-sonnet-4-6, above 200,000 tokens of context, 1.1 x for US-only inference; list price (genai-prices 0.2.1 and published rules)",
        ),
        (
            "claude-opus-4-6",
            NOW,
            BATCH,
            "claude-opus-4-6, since 2026-03-13, half for a batch; list price (genai-prices 0.2.1 and published rules)",
        ),
        (
            "eu.anthropic.claude-haiku-4-5-20251001-v1:0",
            NOW,
            0,
            "claude-haiku-4-5, 1.1 x at a regional endpoint of Amazon Bedrock (LiteLLM 1.108.4 too; client 2.1.325 has the list price); list price (genai-prices 0.2.1 and published rules)",
        ),
        ("claude-sonnet-5", NOW, FAST, "no price: none is published for fast mode of claude-sonnet-5"),
        ("claude-2", NOW, BATCH, "no price: none is published for claude-2 in a batch"),
        ("claude-nightly", NOW, 0, "no price: no model of this name is known"),
        ("<synthetic>", NOW, 0, "made by the client itself: costs nothing"),
        ("mine-20260101", NOW, 2, 'prices."mine" of config.toml, as it stands'),
        ("mine", NOW, FAST, 'no price: config.toml has prices."mine" but no prices."mine-fast"'),
    ],
)
def test_a_price_can_be_explained(model: str, at: int, kind: int, said: str) -> None:
    """Which entry, since when, by which rules, from where; or why there is none."""
    own = PriceList({"mine": {"input": "1", "output": "1"}})

    assert said.replace("0.2.1", prices.SOURCE.split()[1]) == own.describe(model, at, kind)


# --- The table -----------------------------------------------------------------------------------


def test_the_table_is_what_the_package_and_the_tool_say(capsys: pytest.CaptureFixture[str]) -> None:
    """``python tools/build_price_table.py`` writes it; this fails when the package changed without it."""
    assert (0, "") == (build_price_table.main(["--check"]), capsys.readouterr().err)


def test_rules_keep_prices_whole_and_thresholds_are_those_of_variants() -> None:
    """A half and 1.1 times a multiple of 20 are whole; a tier no variant could name would never apply."""
    tiers = [
        tier
        for row in (*prices.MODELS, *prices.others()["models"])
        for periods in row[3:]
        for _, all_tiers in periods
        for tier in all_tiers
    ]

    assert {0} == {rate % 20 for _, rates in tiers for rate in rates if rate is not None}
    assert {0, *CONTEXT_STEPS} == {above for above, _ in tiers}


@pytest.mark.parametrize(
    ("model", "tokens", "expected"),
    [
        # 1,000 tokens of input, output, cache write and cache read, in pico-dollars; None: no price for cache writes.
        ("gpt-5.1-codex", 1_000, 1_250_000 + 10_000_000 + 125_000),
        ("gpt-5.6-sol", 1_000, 4_000_000 + 20_000_000 + 5_000_000 + 400_000),
        ("gpt-5.6-sol", 300_000, 8_000_000 + 30_000_000 + 10_000_000 + 800_000),
        ("gemini-2.5-pro", 1_000, 1_250_000 + 10_000_000 + 125_000),
        ("gemini-2.5-pro", 250_000, 2_500_000 + 15_000_000 + 250_000),
    ],
)
def test_models_of_other_vendors_have_the_price_of_the_package(
    model: str, tokens: int, expected: int
) -> None:
    at = build_price_table.quarter(dt.date(2026, 11, 16))
    price = PriceList().find(model, at, variant(tokens, None, None, None))
    assert price is not None
    written = 1_000 if price.cache_write_5m is not None else 0
    assert price.cost((1_000, 1_000, written, 0, 1_000, 0)) == (expected * 1_000, None)


@pytest.mark.parametrize("model", ["qwen3-coder-plus", "gpt-5.1-codex-unheard-of", "m1"])
def test_a_model_that_no_vendor_names_stays_unpriced(model: str) -> None:
    assert PriceList().find(model, 2_000_000, 0) is None
