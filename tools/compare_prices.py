"""Compare our price table with genai-prices and LiteLLM, row by row.

    python -m tools.compare_prices [MODEL_PRICES.json]

The file is LiteLLM's ``model_prices_and_context_window.json``; without it the one of an installed litellm is taken,
and without that only genai-prices is compared. Nothing is fetched. Prints a Markdown table of what differs, in
dollars for a million tokens; docs/reference/prices.md holds the last one with the reasons.

Rows of other resellers, of commitments by the hour and of models that charge by the second are left out. A class
that a source gives no price for is not compared.
"""

from __future__ import annotations

import importlib.resources
import json
import sys
import time
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from genai_prices.types import ModelInfo, ModelPrice

from recollect.model.cost.prices import BATCH, CONTEXT_MASK, FAST, QUARTER_SECONDS, US_ONLY, PriceList
from tools.build_price_table import Rates, provider_of, tiers

CLASSES = ("input", "output", "5m write", "1h write", "cache read")
LITELLM_PROVIDERS = (
    "anthropic",
    "bedrock",
    "bedrock_converse",
    "bedrock_mantle",
    "vertex_ai-anthropic_models",
)
LITELLM_FIELDS = (
    "input_cost_per_token",
    "output_cost_per_token",
    "cache_creation_input_token_cost",
    "cache_creation_input_token_cost_above_1hr",
    "cache_read_input_token_cost",
)
# The bits of a variant, what they are called, and the end of LiteLLM's names of fields.
STEPS = ((0, "", ""), (1, "above 100K", "_above_100k_tokens"), (2, "above 200K", "_above_200k_tokens"))


class TheirRow(NamedTuple):
    """What a source says of a model served in one way. ``name`` as a log would have it."""

    source: str
    key: str
    name: str
    variant: int
    served: str
    rates: tuple[int | None, ...]


# --- genai-prices ---------------------------------------------------------------------------------


def genai_rows() -> Iterator[TheirRow]:
    """Claude on Anthropic's own API, on Amazon Bedrock and on Vertex."""
    for provider, spelled in (("anthropic", "{}"), ("aws", "{}"), ("google", "{}@default")):
        for model in provider_of(provider).models:
            if "claude" in model.id:
                name = model.id.removesuffix("-latest").replace("regional.anthropic.", "us.anthropic.")
                yield from _genai_model(f"genai-prices {provider}", model, spelled.format(name))


def _genai_model(source: str, model: ModelInfo, name: str) -> Iterator[TheirRow]:
    latest = model.prices if isinstance(model.prices, ModelPrice) else model.prices[-1].prices
    for step, said, _ in STEPS:
        rates = _at_step(tiers(latest, ""), step)
        yield TheirRow(source, model.id, name, step, said, rates[:5])
    for variant in model.price_variants or ():
        kind, served = (FAST, "fast") if variant.when == {"speed": "fast"} else (BATCH, "batch")
        yield TheirRow(source, model.id, name, kind, served, _at_step(tiers(variant.prices, ""), 0)[:5])


def _at_step(found: Sequence[tuple[int, Rates]], step: int) -> Rates:
    above = (0, 100_000, 200_000)[step]
    return [rates for start, rates in found if start <= above][-1]


# --- LiteLLM --------------------------------------------------------------------------------------


def litellm_rows(data: dict[str, Any], source: str) -> Iterator[TheirRow]:
    """Every Claude of the file that is sold by Anthropic, Amazon or Google."""
    for key, row in data.items():
        if "claude" not in key or row.get("litellm_provider") not in LITELLM_PROVIDERS:
            continue
        if row.get("input_cost_per_token") is None:
            continue
        name = _as_logged(key)
        base = _litellm_rates(row, "")
        known = base
        for step, said, end in STEPS:
            known = tuple(
                one if one is not None else other
                for one, other in zip(_litellm_rates(row, end), known, strict=True)
            )
            yield TheirRow(source, key, name, step, said, known)
        if row.get("input_cost_per_token_batches") is not None:
            yield TheirRow(source, key, name, BATCH, "batch", _litellm_rates(row, "_batches"))
        times = row.get("provider_specific_entry") or {}
        for word, bit in (("fast", FAST), ("us", US_ONLY)):
            if word in times:
                multiple = Decimal(str(times[word]))
                rates = tuple(None if one is None else int(one * multiple) for one in base)
                yield TheirRow(source, key, name, bit, word, rates)


def _as_logged(key: str) -> str:
    """``bedrock/us-gov-east-1/anthropic.x`` is ``us-gov.anthropic.x`` in a log, ``vertex_ai/x`` is ``x@default``."""
    place, _, name = key.rpartition("/")
    if "us-gov" in place and not name.startswith("us-gov."):
        return "us-gov." + (name if name.startswith("anthropic.") else f"anthropic.{name}")
    return f"{name}@default" if place.startswith("vertex_ai") and "@" not in name else name


def _litellm_rates(row: dict[str, Any], end: str) -> tuple[int | None, ...]:
    said = [row.get(name + end) for name in LITELLM_FIELDS]
    return tuple(None if one is None else int(Decimal(str(one)) * 10**12) for one in said)


# --- comparing ------------------------------------------------------------------------------------


def differences(rows: Iterator[TheirRow]) -> Iterator[tuple[TheirRow, str]]:
    """Rows that we price otherwise, and how."""
    prices, now = PriceList(), int(time.time()) // QUARTER_SECONDS
    before = ("", "")
    for row, said in _compared(rows, prices, now):
        # A longer context that differs as the shorter one does says nothing new.
        if not row.variant & CONTEXT_MASK or (row.key, said) != before:
            yield row, said
        before = row.key, said


def _compared(rows: Iterator[TheirRow], prices: PriceList, now: int) -> Iterator[tuple[TheirRow, str]]:
    for row in rows:
        price = prices.find(row.name, now, row.variant)
        if price is None:
            if any(row.rates):
                yield row, f"unpriced / {_dollars(row.rates[0])} and {_dollars(row.rates[1])}"
            continue
        different = [
            f"{what} {_dollars(ours)} / {_dollars(theirs)}"
            for what, ours, theirs in zip(CLASSES, price, row.rates, strict=False)
            if theirs is not None and ours != theirs
        ]
        if different:
            yield row, ", ".join(different)


def _dollars(pico: int | None) -> str:
    return "-" if pico is None else f"{(Decimal(pico) / 10**6).normalize():f}"


def litellm_file(arguments: Sequence[str]) -> Path | None:
    """The file that was named, or that of an installed litellm."""
    if arguments:
        return Path(arguments[0])
    try:
        return Path(str(importlib.resources.files("litellm"))) / "model_prices_and_context_window_backup.json"
    except ModuleNotFoundError:
        return None


def main(arguments: Sequence[str]) -> int:
    """Print what differs."""
    sources = [("genai-prices", list(genai_rows()))]
    path = litellm_file(arguments)
    if path is None:
        print("no litellm is installed and no file was named: only genai-prices is compared", file=sys.stderr)
    else:
        data = json.loads(path.read_text(encoding="utf-8"))
        sources.append(("LiteLLM", list(litellm_rows(data, "LiteLLM"))))
    print("| source | row | served | ours / theirs |\n|---|---|---|---|")
    for _, rows in sources:
        for row, said in differences(iter(rows)):
            print(f"| {row.source} | `{row.key}` | {row.served} | {said} |")
    for name, rows in sources:
        different = sum(1 for _ in differences(iter(rows)))
        print(f"{name}: {len(rows)} prices compared, {different} differ", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
