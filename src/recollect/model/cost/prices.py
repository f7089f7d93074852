"""What a response costs, by model, time and the way it was served.

The list comes with the package (``claude_prices.json`` and ``other_prices.json``, made from the data package genai-prices); the user's
own prices from config.toml go before it. Money is whole pico-dollars (10**-12 USD), so that half of
$0.125 per million tokens is still a whole number and nothing is rounded before it is shown (law 6).

Nothing is guessed. A model is *unpriced* when the list does not know its name, or when it was served in
a way that has no published price (fast mode of a model without one, a batch of a model that was never
offered in batches). Where tokens of one class have no price (Claude 2 had no cache), the others of the response are priced, and
reports count the response among the unpriced with those tokens. Unpriced is None, and never 0.

Names are matched as genai-prices matches those of provider anthropic. What stands around such a name is
looked through, because the same model is meant, and only then: the client's ``[1m]`` says which context
window was asked for, which costs nothing by itself; ``us.anthropic.`` and ``-v1:0`` are Amazon Bedrock's
spelling, ``@20250929`` is that of Vertex. Bedrock's regional endpoints cost 1.1 times the list price from
Sonnet 4.5 on and those of GovCloud 1.2 times; a name that says neither is at the list price. A name that
only resembles a known one stays unpriced.

Where sources disagree, ``describe`` names the one that is followed; docs/reference/prices.md lists them all.

In the files a row is a model: its name; how its names are recognised (= is, ^ starts with, * contains, # starts with and then
eight digits, ~ and then a date); the published rules that apply to it (half price for a batch; 1.1 times for US-only inference;
1.1 times at a regional endpoint of Amazon Bedrock; no higher price for long contexts on Anthropic's own API); its prices; those
of fast mode. Prices: (first quarter of an hour since 1970, ((above how many tokens of context, rates), ...)). Rates: pico-dollars
for a token of input, output, cache write of 5 minutes, of 1 hour, cache read, and for a web search.

The status line starts this module at every turn: it imports next to nothing.
"""

import datetime as dt
import json
from bisect import bisect_right
from collections import namedtuple
from operator import mul

TYPE_CHECKING = False  # see recollect/__init__.py
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

Rates = tuple[int | None, ...]
Periods = tuple[tuple[int, tuple[tuple[int, Rates], ...]], ...]
_Row = tuple[str, tuple[str, ...], tuple[str, ...], Periods, Periods]


def _frozen(value: "Any") -> "Any":
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _table(name: str) -> "dict[str, Any]":
    """A file beside this module."""
    text = __loader__.get_data(__file__.removesuffix("prices.py") + name)  # type: ignore[name-defined]
    return {key: _frozen(value) for key, value in json.loads(text).items()}


_claude = _table("claude_prices.json")
_others: "dict[str, Any]" = {}
SOURCE: str = _claude["source"]
OWN_SOURCES: dict[str, str] = _claude["own_sources"]
# The quarters at which a price of another vendor's model changes.
OTHER_CHANGES: tuple[int, ...] = _claude["other_changes"]
MODELS: tuple[_Row, ...] = _claude["models"]


def others() -> "dict[str, Any]":
    """``models`` of other vendors, and the ``tiers`` of service that have a price of their own; read when a name is no Claude model's."""
    if not _others:
        _others.update(_table("other_prices.json"))
    return _others


# Made by the client on this machine (fillers, error notes) and never billed.
SYNTHETIC_MODEL = "<synthetic>"
# In the name of a Claude model, wherever it is served; prices of no other vendor apply to such a name.
CLAUDE_NAME = "claude"

# A variant says in one small number how a response was served, so that sums can be kept by it.
CONTEXT_STEPS = (100_000, 200_000, 272_000)
_LONG_CONTEXT = 200_000
CONTEXT_MASK = 3
FAST, US_ONLY, BATCH, UNCERTAIN, FLEX, PRIORITY = 4, 8, 16, 32, 64, 128
# OpenAI's service tiers. Claude's "priority" is another thing, and charged by contract.
_TIERS = {"flex": FLEX, "fast": PRIORITY}
_TIER_NAMES = {FLEX: "flex", PRIORITY: "priority"}

# Published multiples of the input price, for own prices that leave these classes out; searches cost $10 a thousand.
# https://platform.claude.com/docs/en/about-claude/pricing#prompt-caching
CACHE_MULTIPLES = {"cache_write_5m": (5, 4), "cache_write_1h": (2, 1), "cache_read": (1, 10)}
WEB_SEARCH_PER_THOUSAND = "10"

QUARTER_SECONDS = 900
_QUARTERS_A_DAY = 96
_USUAL_SPEED = (None, "", "standard")
_USUAL_GEO = (None, "", "global", "not_available")
_USUAL_TIER = (None, "", "standard")
_MOST_REMEMBERED = 4_096

# Where a response was served, as far as its model's name says so.
_OWN_API, _VERTEX, _BEDROCK, _GLOBAL, _REGIONAL, _GOVERNMENT = range(6)
_ENDPOINTS = {"": _BEDROCK, "global.": _GLOBAL, "us-gov.": _GOVERNMENT}
_CLIENT, _LITELLM = "client 2.1.325", "LiteLLM 1.108.4"


def variant(
    context_tokens: int, speed: str | None, geo: str | None, tier: str | None, uncertain: bool = False
) -> int:
    """How one response was served. ``context_tokens``: its input, cache writes and cache reads together.

    A speed, place or tier this version does not know (or one that is charged by contract, as
    ``priority`` is) gets the usual price, and UNCERTAIN says that it may be another.
    """
    first, second, third = CONTEXT_STEPS
    kind = (context_tokens > first) + (context_tokens > second) + (context_tokens > third)
    if not uncertain and speed in _USUAL_SPEED and geo in _USUAL_GEO and tier in _USUAL_TIER:
        return kind
    if speed == "fast":
        kind |= FAST
    if geo == "us":
        kind |= US_ONLY
    if tier == "batch":
        kind |= BATCH
    kind |= _TIERS.get(tier or "", 0)
    is_known = (
        (kind & FAST or speed in _USUAL_SPEED)
        and (kind & US_ONLY or geo in _USUAL_GEO)
        and (kind & BATCH or tier in _USUAL_TIER or tier in _TIERS)
    )
    return kind | UNCERTAIN if uncertain or not is_known else kind


class Price(namedtuple("Rates", "input output cache_write_5m cache_write_1h cache_read web_search")):
    """Pico-dollars per token of each class, and per web search; None where no price is known."""

    __slots__ = ()

    def cost(self, counts: "Sequence[int]") -> "tuple[int, Sequence[int] | None]":
        """Pico-dollars for counts of these classes, and the counts that have no price and are not in them; None where all have one."""
        if None not in self:
            return sum(map(mul, counts, self)), None
        pairs = list(zip(counts, self, strict=True))
        missing = tuple(0 if rate is not None else count for count, rate in pairs)
        pico_usd = sum(count * rate for count, rate in pairs if rate is not None)
        return pico_usd, missing if any(missing) else None


class PriceList:
    """The list prices, and before them the user's own.

    ``overrides``: prices by model, in dollars per million tokens (searches: per thousand), checked by
    ``store.own_settings``; ``input`` and ``output`` are there, the rest follows from them if it is not.
    A name stands for the model and its dated releases; with ``*`` at its end for every name that begins
    so; with ``-fast`` at its end for fast mode, which the price of the usual speed does not cover. Such
    a price is taken as it stands: contexts of every size, batches and US-only inference cost what it says.
    """

    def __init__(self, overrides: "Mapping[str, Mapping[str, object]] | None" = None) -> None:
        self._own = {name.lower(): Price(*_own_rates(given)) for name, given in (overrides or {}).items()}
        starts = {start for row in MODELS for periods in row[3:] for start, _ in periods}
        self._claude_changes = tuple(sorted(starts - {0}))
        # The quarters at which prices of other models may change, and Claude's do not.
        self.other_changes = tuple(sorted(set(OTHER_CHANGES) - starts))
        self._changes = tuple(sorted(starts - {0} | set(OTHER_CHANGES)))
        self._remembered: dict[tuple[str, int, int], Price | None] = {}

    def find(self, model: str, quarter: int, variant: int) -> Price | None:
        """The price of a model in a quarter of an hour since 1970 (UTC), or None where we know none."""
        changes = self._claude_changes if CLAUDE_NAME in model else self._changes
        key = (model, bisect_right(changes, quarter), variant)
        if key not in self._remembered:
            if len(self._remembered) >= _MOST_REMEMBERED:  # model names are hostile input too (law 8)
                self._remembered.clear()
            self._remembered[key] = self._explained(model, quarter, variant)[0]
        return self._remembered[key]

    def cost(
        self, model: str, quarter: int, variant: int, counts: "Sequence[int]"
    ) -> "tuple[int, Sequence[int] | None]":
        """Pico-dollars, and the counts that have no price and are not in them; None where all have one."""
        price = self.find(model, max(quarter, 0), variant)
        return (0, counts) if price is None else price.cost(counts)

    def describe(self, model: str, quarter: int, variant: int) -> str:
        """Which price ``find`` gives, and by which rules; or why it gives none."""
        return self._explained(model, quarter, variant)[1]

    def changes(self, models: "Iterable[str] | None" = None) -> tuple[int, ...]:
        """The quarters at which a price of these models may change; without any, of Claude's."""
        if models is None or all(CLAUDE_NAME in name or name == SYNTHETIC_MODEL for name in models):
            return self._claude_changes
        return self._changes

    def _explained(self, model: str, quarter: int, variant: int) -> tuple[Price | None, str]:
        if model == SYNTHETIC_MODEL:
            return _FREE, "made by the client itself: costs nothing"
        name = model.lower().removesuffix("[1m]")
        if name.endswith("-fast"):
            name, variant = name.removesuffix("-fast"), variant | FAST
        spellings = _spellings(name)
        pattern = self._pattern_for([spelling for spelling, _ in spellings], variant & FAST)
        if pattern:
            return self._own[pattern], f'prices."{pattern}" of config.toml, as it stands'
        if variant & FAST and (pattern := self._pattern_for([one for one, _ in spellings], 0)):
            return None, f'no price: config.toml has prices."{pattern}" but no prices."{pattern}-fast"'
        found = _row_of(spellings)
        return (
            _listed(*found, quarter, variant) if found else (None, "no price: no model of this name is known")
        )

    def _pattern_for(self, names: list[str], fast: int) -> str | None:
        """The key of the user's own price that fits best: the name, its undated form, the longest beginning."""
        end = "-fast" if fast else ""
        for name in names:
            for whole in (name, _undated(name)):
                if whole + end in self._own:
                    return whole + end
        beginnings = [
            (len(beginning), pattern)
            for pattern in self._own
            if (beginning := pattern.removesuffix(end)).endswith("*") and (not end or pattern.endswith(end))
            if any(name.startswith(beginning[:-1]) for name in names)
        ]
        return max(beginnings)[1] if beginnings else None


def canonical(model: str) -> str:
    """The name of a model whatever it is called where it was served; a name that is not known as it stands."""
    name = model.lower().removesuffix("[1m]").removesuffix("-fast")
    found = _row_of(_spellings(name))
    return found[0][0] if found else name


def _row_of(spellings: list[tuple[str, int]]) -> tuple[_Row, int] | None:
    for spelling, place in spellings:
        found = _first_match(spelling, MODELS)
        if found is not None:
            return found, place
    name = spellings[0][0]
    if CLAUDE_NAME in name:
        return None

    found = _first_match(name.rpartition("/")[2], others()["models"])
    return None if found is None else (found, _OWN_API)


def _first_match(name: str, rows: tuple[_Row, ...]) -> _Row | None:
    for row in rows:
        if any(_matches(matcher, name) for matcher in row[1]):
            return row
    return None


def _listed(row: _Row, place: int, quarter: int, variant: int) -> tuple[Price | None, str]:
    name, _, rules, standard, fast = row
    if variant & FAST and (not fast or variant & BATCH or place >= _BEDROCK):
        where = " in a batch" if variant & BATCH else " on Amazon Bedrock" if place >= _BEDROCK else ""
        return None, f"no price: none is published for fast mode of {name}{where}"
    if variant & BATCH and "batch" not in rules:
        return None, f"no price: none is published for {name} in a batch"
    tier = _TIER_NAMES.get(variant & (FLEX | PRIORITY), "")
    periods = _tier_periods(name, tier) if tier else fast if variant & FAST else standard
    # A clock before 1970 is a broken one, and still gets the first price.
    dated = [period for period in periods if period[0] <= max(quarter, 0)]
    if not dated:
        when = f" before {_day(periods[0][0])}" if periods else ""
        return None, f"no price: none is known for {name} at service tier {tier}{when}"
    since, tiers = dated[-1]
    step = (0, *CONTEXT_STEPS)[min(variant & CONTEXT_MASK, len(CONTEXT_STEPS))]
    is_flat = "flat" in rules and place == _OWN_API
    above, (*tokens, search) = [tier for tier in tiers if tier[0] <= (0 if is_flat else step)][-1]
    notes = [
        name,
        f"since {_day(since)}" if since else "",
        f"above {above:,} tokens of context" if above else "",
        "fast mode" if variant & FAST else "",
        f"service tier {tier}" if tier else "",
    ]
    if is_flat and step >= _LONG_CONTEXT:
        notes.append(
            f"no more above {_LONG_CONTEXT:,} tokens of context ({_CLIENT}, {_LITELLM}; genai-prices has double)"
        )
    numerator, denominator, changes = _changed_by(rules, variant, place)
    # Exact: every rate of the table is a multiple of 20. A search costs the same however it is served.
    rates = (None if rate is None else rate * numerator // denominator for rate in tokens)
    source = OWN_SOURCES.get(name) or (
        f"{SOURCE} and published rules" if changes or variant & FAST else SOURCE
    )
    text = ", ".join(filter(None, notes + changes))
    return Price._make([*rates, search]), f"{text}; list price ({source})"


def _tier_periods(name: str, tier: str) -> Periods:
    return next(
        (periods for model, named, periods in others()["tiers"] if (model, named) == (name, tier)), ()
    )


def _changed_by(rules: tuple[str, ...], variant: int, place: int) -> tuple[int, int, list[str]]:
    """By what the token prices are multiplied, and why; the published multipliers stack."""
    numerator, denominator, notes = 1, 1, []
    if place == _GOVERNMENT:
        numerator, denominator = 12, 10
        notes.append(f"1.2 x in AWS GovCloud ({_LITELLM}; {_CLIENT} has the list price)")
    elif variant & US_ONLY:
        numerator, denominator = 11, 10
        doubt = "" if "us" in rules else f" ({_CLIENT}; the published page names 4.6 and later models)"
        notes.append(f"1.1 x for US-only inference{doubt}")
    elif place == _REGIONAL and "regional" in rules:
        numerator, denominator = 11, 10
        notes.append(
            f"1.1 x at a regional endpoint of Amazon Bedrock ({_LITELLM} too; {_CLIENT} has the list price)"
        )
    elif place == _BEDROCK and "regional" in rules:
        notes.append(f"at the list price on Amazon Bedrock without a region ({_CLIENT}, {_LITELLM})")
    if variant & BATCH:
        denominator *= 2
        notes.append("half for a batch")
    return numerator, denominator, notes


def _matches(matcher: str, name: str) -> bool:
    kind, text = matcher[0], matcher[1:]
    if kind == "=":
        return name == text
    if kind == "*":
        return text in name
    if not name.startswith(text):
        return False
    rest = name[len(text) :]
    if kind == "#":
        return len(rest) == 8 and _is_digits(rest)
    if kind == "~":
        return len(rest) == 10 and rest[4] == rest[7] == "-" and _is_digits(rest.replace("-", ""))
    return True


def _spellings(name: str) -> list[tuple[str, int]]:
    """The name, and what it says without the words of Amazon and Google; with the place it names."""
    found = [(name, _OWN_API)]
    endpoint, brand, rest = name.partition("anthropic.")
    if brand and (not endpoint or endpoint.endswith(".")):
        place = _ENDPOINTS.get(endpoint, _REGIONAL)
        found += [(rest, place), (_unversioned(rest), place)]
    plain, at, release = name.partition("@")
    if at and (release == "default" or _is_digits(release)):
        found.insert(0, (plain, _VERTEX))
    return found


def _unversioned(name: str) -> str:
    """Without Bedrock's ``-v1:0`` or ``-v1``."""
    stem, _, version = name.rpartition("-v")
    return stem if stem and _is_digits(version.replace(":", "")) else name


def _undated(name: str) -> str:
    """Without a release date such as ``-20250929``."""
    stem, _, date = name.rpartition("-")
    return stem if stem and len(date) == 8 and _is_digits(date) else name


def _is_digits(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _own_rates(given: "Mapping[str, object]") -> Rates:
    rates = {one: _scaled(given[one], 6) for one in ("input", "output")}
    for one, (numerator, denominator) in CACHE_MULTIPLES.items():
        derived = rates["input"] * numerator // denominator
        rates[one] = _scaled(given[one], 6) if one in given else derived
    return (*rates.values(), _scaled(given.get("web_search", WEB_SEARCH_PER_THOUSAND), 9))


def _scaled(number: object, digits: int) -> int:
    """A decimal number times 10**digits, without a float in between."""
    text = number if isinstance(number, str) else format(number, "f")
    whole, _, fraction = text.partition(".")
    return int(whole + fraction[:digits].ljust(digits, "0"))


def _day(quarter: int) -> str:
    """The UTC date of a quarter of an hour."""
    return (dt.date(1970, 1, 1) + dt.timedelta(days=quarter // _QUARTERS_A_DAY)).isoformat()


_FREE = Price(0, 0, 0, 0, 0, 0)
