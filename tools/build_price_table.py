"""Write claude_prices.json and other_prices.json in src/recollect/model/cost from genai-prices, or check that they are up to date.

    python tools/build_price_table.py [--check]

The maintained package says what each Claude model costs on Anthropic's own API. What it does not
say stands below, each with its source, and is compared with the package wherever the package has
evidence of it. Whatever this tool does not understand (a new kind of rule, a new threshold) is left out of the table
and named on stderr: the model, or that way of serving it, stays without a price, which every report says. So a new package
never stops the build, and no wrong price comes out of it quietly. Models of other vendors stand in a table of their own.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import re
import sys
from collections.abc import Sequence
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path

from genai_prices.data import providers
from genai_prices.types import (
    ClauseContains,
    ClauseEquals,
    ClauseOr,
    ClauseRegex,
    ClauseStartsWith,
    ModelInfo,
    ModelPrice,
    Provider,
    StartDateConstraint,
    TieredPrices,
)

TABLE = Path(__file__).resolve().parents[1] / "src" / "recollect" / "model" / "cost" / "claude_prices.json"
OTHER_TABLE = TABLE.with_name("other_prices.json")
OTHER_VENDORS = ("openai", "google", "x-ai", "deepseek", "moonshotai", "zai", "mistral", "minimax")
THRESHOLDS = (
    0,
    100_000,
    200_000,
    272_000,
)  # what the bits of a variant can tell apart (prices.CONTEXT_STEPS)
CLASSES = (
    "input_mtok",
    "output_mtok",
    "cache_write_mtok",
    "cache_write_1h_mtok",
    "cache_read_mtok",
    "web_searches_kcount",
)

Rates = tuple[int | None, ...]
Tiers = tuple[tuple[int, Rates], ...]
Periods = tuple[tuple[int, Tiers], ...]
Row = tuple[str, tuple[str, ...], tuple[str, ...], Periods, Periods]

# --- What genai-prices does not say about provider anthropic ------------------------------------

# Web search: $10 per 1,000 searches, whatever the model.
# https://platform.claude.com/docs/en/about-claude/pricing (Web search tool)
WEB_SEARCH = Decimal(10)

# Long context: Sonnet 4 had the 1M-token window in beta too, and every token of a request above 200K
# was charged $6 / $22.50, cache multipliers on top. The pricing page of 2026-02 named "Claude Opus 4.6,
# Sonnet 4.6, Sonnet 4.5, or Sonnet 4"; the package has the tier for the first three only, LiteLLM on Bedrock.
# https://platform.claude.com/docs/en/about-claude/pricing#long-context-pricing
LONG_CONTEXT = {"claude-sonnet-4-0": (200_000, ("6", "22.50", "7.50", "12", "0.60"))}

# Fast mode: a multiple of the standard price over the whole context window, cache multipliers on top.
# Opus 5.5 $8/$40, Opus 5 and 4.8 $10/$50, Opus 4.7 and 4.6 (both withdrawn since) $30/$150.
# https://platform.claude.com/docs/en/build-with-claude/fast-mode#pricing
# https://platform.claude.com/docs/en/about-claude/pricing#fast-mode-pricing
# Not modelled: in the first two weeks of Opus 4.6 (2026-02-07 to about 2026-02-20) there was a launch
# discount of 50 % and a price of $60/$225 above 200K tokens; the day that tier ended is not published.
FAST_MULTIPLES = {
    "claude-opus-4-6": 6,
    "claude-opus-4-7": 6,
    "claude-opus-4-8": 2,
    "claude-opus-5": 2,
    "claude-opus-5-5": 2,
}

# How the package names the two.
BATCH, FAST = {"processing": "batch"}, {"speed": "fast"}

# US-only inference: 1.1 x on all token classes "for Claude 4.6 and later models"; "earlier models retain
# their existing pricing regardless of inference_geo". It stacks with fast mode, batch and long context.
# https://platform.claude.com/docs/en/about-claude/pricing#data-residency-pricing
# Client 2.1.325 multiplies for every model, and so do we: the API refuses the parameter for earlier ones, so
# no bill can tell. These models are the ones for which ``--explain`` need not name the client.
US_ONLY_COSTS_MORE = re.compile(r"claude-(fable|mythos|haiku-5|opus-(4-[6-9]|[5-9])|sonnet-(4-[6-9]|[5-9]))")

# Long context at the list price on Anthropic's own API: client 2.1.325 and LiteLLM 1.108.4 have no higher price
# above 200K tokens for these; on Bedrock and Vertex LiteLLM has the one below.
FLAT_ON_OWN_API = frozenset(("claude-sonnet-4-0", "claude-sonnet-4-5"))

# Models the package does not know: dollars for a million tokens of input, output, cache writes of 5 minutes and
# of 1 hour, cache reads; the rules that apply; who says so. One that the package has got since is taken from there.
OWN_MODELS = {
    "claude-mythos-5": (
        ("10", "50", "12.50", "20", "1"),
        ("batch", "us", "regional"),
        "client 2.1.325 and LiteLLM 1.108.4",
    ),
    "claude-mythos-5-1": (
        ("10", "50", "12.50", "20", "0.25"),
        ("batch", "us", "regional"),
        "client 2.1.325 and LiteLLM 1.108.4",
    ),
}

# Batch: half of every token price. The package has it for the models that were active on 2026-10-14;
# these were on the list of supported models before they were retired. Searches are not discounted.
# https://docs.anthropic.com/en/docs/build-with-claude/batch-processing#pricing (as of 2025)
BATCH_BEFORE = frozenset(
    (
        "claude-3-5-haiku-latest",
        "claude-3-5-sonnet",
        "claude-3-7-sonnet-latest",
        "claude-3-haiku",
        "claude-3-opus-latest",
        "claude-opus-4-0",
        "claude-opus-4-1",
        "claude-sonnet-4-0",
    )
)


class NotUnderstood(Exception):
    """The data package says something this tool has no rule for."""


def leave_out(problem: NotUnderstood) -> None:
    """Note what stays without a price or a name; ``main`` says it once, though the rows are made several times."""
    _left_out[str(problem)] = None


_left_out: dict[str, None] = {}


# --- Names ---------------------------------------------------------------------------------------


def matchers(model: ModelInfo) -> tuple[str, ...]:
    """How a name of this model is recognised: ``=`` is it, ``^`` starts with it, ``*`` contains it,
    ``#`` starts with it and goes on with eight digits, ``~`` with a date as 2026-01-31."""
    clauses = model.match.or_ if isinstance(model.match, ClauseOr) else [model.match]
    found: list[str] = []
    for clause in clauses:
        match clause:
            case ClauseEquals(text):
                found.append("=" + text.lower())
            case ClauseStartsWith(text):
                found.append("^" + text.lower())
            case ClauseContains(text):
                found.append("*" + text.lower())
            case ClauseRegex(pattern):
                try:
                    found += _dated(pattern)
                except NotUnderstood as problem:
                    leave_out(NotUnderstood(f"{model.id}: a name: {problem}"))
            case _:
                leave_out(NotUnderstood(f"{model.id}: a name is matched by {clause!r}"))
    return tuple(found)


def _dated(pattern: str) -> list[str]:
    for end, kind in ((r"\d{8}$", "#"), (r"\d{4}-\d{2}-\d{2}$", "~")):
        stem = pattern.removeprefix("^").removesuffix(end)
        if f"^{stem}{end}" != pattern:
            continue
        stem = stem.replace(r"\.", ".")
        one, *more = stem.split("[-@]")
        stems = [one + "-", one + "@"] if more == [""] else [stem]
        if all(re.fullmatch(r"[a-z0-9.-]+[-@]", text) for text in stems):
            return [kind + text for text in stems]
    raise NotUnderstood(f"the pattern {pattern!r}")


# --- Prices --------------------------------------------------------------------------------------


def pico(dollars: Decimal, per: int) -> int:
    """Dollars for ``per`` tokens as whole pico-dollars for one; half of it, and 1.1 times, are whole too."""
    exact = dollars * 10**12 / per
    if exact != int(exact) or int(exact) % 20:
        raise NotUnderstood(f"${dollars} per {per} is too fine for whole pico-dollars")
    return int(exact)


def tiers(price: ModelPrice, name: str) -> Tiers:
    """Prices by the size of the context. Above a threshold all tokens of the response cost more."""
    known = {key: value for key, value in vars(price).items() if value is not None}
    if known.keys() - set(CLASSES):
        raise NotUnderstood(f"{name}: prices of {sorted(known.keys() - set(CLASSES))}")
    known.setdefault("web_searches_kcount", WEB_SEARCH)
    starts = sorted(
        {tier.start for one in known.values() if isinstance(one, TieredPrices) for tier in one.tiers}
    )
    found = [(start, tuple(_rate(known.get(key), start, key) for key in CLASSES)) for start in (0, *starts)]
    if name in LONG_CONTEXT and not starts:
        start, dollars = LONG_CONTEXT[name]
        found.append((start, (*(pico(Decimal(one), 10**6) for one in dollars), found[0][1][-1])))
    if not {start for start, _ in found} <= set(THRESHOLDS):
        raise NotUnderstood(f"{name}: prices change above {starts} tokens, which no variant can say")
    return tuple(found)


def _rate(price: Decimal | TieredPrices | None, start: int, key: str) -> int | None:
    if price is None:
        return None
    if isinstance(price, TieredPrices):
        fitting = [tier.price for tier in price.tiers if tier.start <= start]
        price = fitting[-1] if fitting else price.base
    return pico(price, 1_000 if key == "web_searches_kcount" else 10**6)


def periods(model: ModelInfo) -> Periods:
    """Prices by date, in quarters of an hour since 1970 (UTC), the first of them from ever."""
    if isinstance(model.prices, ModelPrice):
        return ((0, tiers(model.prices, model.id)),)
    found: dict[int, Tiers] = {}
    for conditional in model.prices:
        found[_start(conditional.constraint, model.id)] = tiers(conditional.prices, model.id)
    if 0 not in found or list(found) != sorted(found):
        raise NotUnderstood(f"{model.id}: prices without a first, or not in the order of their dates")
    return tuple(found.items())


def quarter(day: dt.date) -> int:
    """The quarter of an hour since 1970 with which a day begins (UTC)."""
    return (day - dt.date(1970, 1, 1)).days * 96


def fast_periods(model: ModelInfo, standard: Periods) -> Periods:
    """The price of fast mode, for contexts of every size: what the package says, or a multiple of what short contexts cost today."""
    multiple = FAST_MULTIPLES.get(model.id)
    *tokens, search = standard[-1][1][0][1]
    multiplied = multiple and (*(None if rate is None else rate * multiple for rate in tokens), search)
    for variant in model.price_variants or ():
        if variant.when == FAST:
            start, ((above, rates), *more) = (
                _start(variant.constraint, model.id),
                tiers(variant.prices, model.id),
            )
            if above or more:
                raise NotUnderstood(f"{model.id}: fast mode has prices by the size of the context")
            if multiplied and rates != multiplied:
                raise NotUnderstood(
                    f"{model.id}: fast mode does not cost {multiple} times the usual price: {rates}"
                )
            return ((start, ((0, rates),)),)
    if not multiplied:
        return ()
    _check_fast(model.id, multiplied)
    return ((0, ((0, multiplied),)),)


def _start(constraint: object, name: str) -> int:
    """The quarter from which on a price holds."""
    if not isinstance(constraint, StartDateConstraint | None):
        raise NotUnderstood(f"{name}: a price that depends on {constraint!r}")
    return 0 if constraint is None else quarter(constraint.start_date)


def rules(model: ModelInfo, standard: Periods, regional: dict[str, bool]) -> tuple[str, ...]:
    """Which published rules change this model's prices."""
    found = []
    try:
        if _has_batch_price(model, standard) or model.id in BATCH_BEFORE:
            found.append("batch")
    except NotUnderstood as problem:
        leave_out(problem)
    if US_ONLY_COSTS_MORE.match(model.id):
        found.append("us")
    if regional.get(model.id):
        found.append("regional")
    if model.id in FLAT_ON_OWN_API:
        found.append("flat")
    return tuple(found)


def own_row(name: str) -> Row:
    """A model that the package does not know."""
    dollars, applied, _ = OWN_MODELS[name]
    rates = (*(pico(Decimal(one), 10**6) for one in dollars), pico(WEB_SEARCH, 1_000))
    return name, ("=" + name, f"#{name}-"), applied, ((0, ((0, rates),)),), ()


# --- Evidence: other parts of the package must not contradict what is said above ----------------


def _has_batch_price(model: ModelInfo, standard: Periods) -> bool:
    is_there = False
    for variant in model.price_variants or ():
        if variant.when == BATCH:
            halves = [
                (start, tuple((rate or 0) // 2 for rate in rates[:5])) for start, rates in standard[-1][1]
            ]
            said = [(start, rates[:5]) for start, rates in tiers(variant.prices, model.id)]
            if halves != said:
                raise NotUnderstood(f"{model.id}: a batch does not cost half: {said}")
            is_there = True
        elif variant.when != FAST:
            leave_out(NotUnderstood(f"{model.id}: prices for {variant.when}"))
    return is_there


def _check_fast(name: str, rates: Rates) -> None:
    dotted = re.sub(r"(\d)-(\d)", r"\1.\2", name)
    for fast in (f"anthropic/{dotted}-fast", f"{dotted}-fast"):
        for provider in (provider_of("openrouter"), provider_of("github-copilot")):
            for model in provider.models:
                if model.id == fast and isinstance(model.prices, ModelPrice):
                    ((_, said),) = tiers(model.prices, fast)
                    if any(one not in (None, other) for one, other in zip(said, rates, strict=True)):
                        raise NotUnderstood(f"{provider.id} has {fast} for {said}, not {rates}")


def regional_premiums(rows: Sequence[tuple[ModelInfo, Periods]]) -> dict[str, bool]:
    """For which models Amazon Bedrock charges 1.1 times the list price outside its global endpoint."""
    found: dict[str, bool] = {}
    for there in provider_of("aws").models:
        if not there.id.startswith("regional.anthropic."):
            continue
        name = there.id.removeprefix("regional.anthropic.").partition("-v")[0]
        for model, standard in rows:
            if model.is_match(name):
                try:
                    found[model.id] = _is_dearer(there, standard)
                except NotUnderstood as problem:
                    leave_out(problem)
    return found


def _is_dearer(there: ModelInfo, standard: Periods) -> bool:
    base, said = standard[-1][1][0][1], periods(there)[-1][1][0][1]
    ratio = Decimal(said[0] or 0) / Decimal(base[0] or 1)
    if ratio not in (1, Decimal("1.1")):
        raise NotUnderstood(f"{there.id} costs {ratio} times the list price")
    return ratio != 1


def provider_of(name: str) -> Provider:
    """A provider of the package."""
    return next(provider for provider in providers if provider.id == name)


# --- The file ------------------------------------------------------------------------------------


def rows() -> list[Row]:
    """One row for every Claude model, in the order in which names are tried."""
    models = []
    for model in provider_of("anthropic").models:
        try:
            models.append((model, periods(model)))
        except NotUnderstood as problem:
            leave_out(problem)
    regional = regional_premiums(models)
    found = []
    for model, standard in models:
        fast: Periods = ()
        try:
            fast = fast_periods(model, standard)
        except NotUnderstood as problem:
            leave_out(problem)
        found.append((model.id, matchers(model), rules(model, standard, regional), standard, fast))
    return found + [own_row(name) for name in _own_names()]


def _own_names() -> list[str]:
    known = {model.id for model in provider_of("anthropic").models}
    return [name for name in OWN_MODELS if name not in known]


def other_rows() -> list[Row]:
    """Models of other vendors, each vendor's in the order in which its names are tried."""
    found: dict[str, Row] = {}
    for vendor in OTHER_VENDORS:
        for model in provider_of(vendor).models:
            try:
                standard = _other_periods(model)
            except NotUnderstood:
                continue
            names = _other_names(model)
            # Nothing is free: a price of 0 stands for one that is not published.
            if "claude" not in model.id and all(
                tier[1][0] and tier[1][1] for _, prices in standard for tier in prices
            ):
                found.setdefault(model.id, (model.id, names, (), standard, ()))
    return list(found.values())


def other_tiers() -> list[tuple[str, str, Periods]]:
    """Prices of service tiers, from the day on which they were looked at; "fast" must be "priority" under another name."""
    found: list[tuple[str, str, Periods]] = []
    known = {row[0] for row in other_rows()}
    for vendor in OTHER_VENDORS:
        for model in provider_of(vendor).models:
            said: dict[str, Periods] = {}
            for variant in model.price_variants or ():
                tier = variant.when.get("service_tier")
                if model.id not in known or tier in (None, "default") or len(variant.when) != 1:
                    continue
                day = variant.constraint
                if tier not in ("flex", "priority", "fast") or not isinstance(
                    day, StartDateConstraint | None
                ):
                    leave_out(NotUnderstood(f"{model.id}: prices for {variant.when}"))
                    continue
                with contextlib.suppress(NotUnderstood):
                    start = 0 if day is None else quarter(day.start_date)
                    usual = model.prices[-1].prices if isinstance(model.prices, list) else model.prices
                    said[tier] = ((start, _text_tiers(model, variant.prices, usual.web_searches_kcount)),)
            if said.pop("fast", said.get("priority")) != said.get("priority"):
                leave_out(NotUnderstood(f"{model.id}: fast is not priority"))
            found += [(model.id, tier, periods) for tier, periods in said.items()]
    return found


def _other_names(model: ModelInfo) -> tuple[str, ...]:
    """The names that are understood, and the model's own; what a name may merely contain is too little."""
    found = ["=" + model.id.lower()]
    found += [name for name in matchers(model) if name[0] != "*"]
    return tuple(dict.fromkeys(found))


def _other_periods(model: ModelInfo) -> Periods:
    """Prices by date, of text tokens and searches only; a class that has none stays without."""
    dated = model.prices if isinstance(model.prices, list) else [None]
    found: dict[int, Tiers] = {}
    for conditional in dated:
        prices = model.prices if conditional is None else conditional.prices
        constraint = None if conditional is None else conditional.constraint
        if not isinstance(prices, ModelPrice) or not isinstance(constraint, StartDateConstraint | None):
            raise NotUnderstood(f"{model.id}: prices that depend on {constraint!r}")
        start = 0 if constraint is None else quarter(constraint.start_date)
        found[start] = _text_tiers(model, prices)
    if 0 not in found or list(found) != sorted(found):
        raise NotUnderstood(f"{model.id}: prices without a first, or not in the order of their dates")
    return tuple(found.items())


def _text_tiers(model: ModelInfo, prices: ModelPrice, search: object = None) -> Tiers:
    """``search``: what a search costs where these prices do not say so; it is the same at every tier."""
    known = {key: value for key, value in vars(prices).items() if value is not None and key in CLASSES}
    if search is not None:
        known.setdefault("web_searches_kcount", search)
    starts = sorted(
        {tier.start for one in known.values() if isinstance(one, TieredPrices) for tier in one.tiers}
    )
    if not set(starts) <= set(THRESHOLDS):
        raise NotUnderstood(f"{model.id}: prices change above {starts} tokens")
    return tuple(
        (above, tuple(_rate(known.get(key), above, key) for key in CLASSES)) for above in (0, *starts)
    )


def claude_table() -> str:
    """The whole file of Claude's models."""
    head: dict[str, object] = {
        "source": _source(),
        "own_sources": {name: OWN_MODELS[name][2] for name in _own_names()},
        "other_changes": _other_changes(),
    }
    return _written(head, {"models": rows()})


def other_table() -> str:
    """The whole file of models of other vendors."""
    return _written({"source": _source()}, {"models": other_rows(), "tiers": other_tiers()})


def _source() -> str:
    return "genai-prices " + version("genai-prices")


def _written(head: dict[str, object], lists: dict[str, Sequence[object]]) -> str:
    """JSON with one row of a list a line."""
    parts = [f'"{name}": {json.dumps(value)}' for name, value in head.items()]
    parts += [f'"{name}": [\n' + ",\n".join(map(json.dumps, rows)) + "\n]" for name, rows in lists.items()]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _other_changes() -> tuple[int, ...]:
    dated = [row[3] for row in other_rows()] + [periods for _, _, periods in other_tiers()]
    return tuple(sorted({start for periods in dated for start, _ in periods} - {0}))


def main(arguments: Sequence[str]) -> int:
    """Write or check the file."""
    for path, text in ((TABLE, claude_table()), (OTHER_TABLE, other_table())):
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            print(
                f"{path.name} is not what genai-prices says: run tools/build_price_table.py", file=sys.stderr
            )
            return 1
    if "--check" not in arguments:
        print(*(f"left out: {problem}" for problem in _left_out), sep="\n", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
