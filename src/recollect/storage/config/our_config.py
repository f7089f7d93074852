"""The sections ``[prices]`` of config.toml: models that are not in the list or cost this user a different amount.

::

    [prices."claude-nightly"]        # and its dated releases; "claude-nightly*": all names that begin so
    input = "3.00"                   # dollars per million tokens: text, or a number
    output = 15
    cache_write_5m = "3.75"          # left out: 1.25 x input, 2 x input and 0.1 x input,
    cache_write_1h = "6.00"          # Anthropic's published multiples
    cache_read = "0.30"
    web_search = 10                  # dollars per thousand searches; left out: 10

    [prices."claude-nightly-fast"]   # fast mode has a price of its own or none
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from recollect.model.cost.prices import CACHE_MULTIPLES, PriceList
from recollect.storage.config.config_file import config_section, refuse
from recollect.system import locations

if TYPE_CHECKING:
    from decimal import Decimal

_REQUIRED = ("input", "output")
_KEYS = (*_REQUIRED, *CACHE_MULTIPLES, "web_search")
_EXAMPLE = 'write dollars per million tokens, such as input = "3.00"'
# The last list: a command asks for it once per session, and the file rarely changes.
_last: tuple[tuple[Path, int, int], PriceList] | None = None


def price_list(environ: Mapping[str, str] | None = None) -> PriceList:
    """The effective prices: the built-in list with the user's own taking precedence."""
    global _last  # noqa: PLW0603 - one remembered value, replaced as a whole
    file = locations.config_file(environ)
    try:
        there = file.stat()
        key = (file, there.st_mtime_ns, there.st_size)
    except OSError:  # missing or unreadable: reading reports which
        key = (file, -1, -1)
    if _last is None or _last[0] != key:
        _last = (key, PriceList(price_overrides(environ)))
    return _last[1]


def price_overrides(environ: Mapping[str, str] | None = None) -> dict[str, dict[str, str]]:
    """The user's own prices, checked, in the form that ``model.prices.PriceList`` takes."""
    file = locations.config_file(environ)
    sections = config_section(file, "prices")
    return {
        model.lower(): _checked(file, model, prices_section) for model, prices_section in sections.items()
    }


def _checked(file: Path, model: str, prices_section: object) -> dict[str, str]:
    section = f'prices."{model}"'
    if not isinstance(prices_section, dict):
        refuse(file, f"{section} is not a section", f"write [{section}] and the prices below it")
    if not model.strip("* "):
        refuse(file, f"{section} names no model", 'write [prices."name of the model"]')
    for key, value in prices_section.items():
        if isinstance(value, dict):
            quoted = f'put the whole name in quotes, as in [prices."{model}.{key}"]'
            refuse(file, f"{section}.{key} is a section inside a section", quoted)
        if key not in _KEYS:
            refuse(file, f"{section}.{key} is not a price", f"the prices are {', '.join(_KEYS)}")
    for key in _REQUIRED:
        if key not in prices_section:
            refuse(file, f"{section}.{key} is missing", _EXAMPLE)
    prices = {key: _amount(file, f"{section}.{key}", value) for key, value in prices_section.items()}
    for key, (numerator, denominator) in CACHE_MULTIPLES.items():
        derived = prices["input"] * 10**6 * numerator
        if key not in prices_section and derived % denominator:
            refuse(file, f"{section}.{key} does not follow exactly from input", f"give {key} itself")
    return {key: format(value, "f") for key, value in prices.items()}


def _amount(file: Path, key: str, value: object) -> Decimal:
    from decimal import Decimal, InvalidOperation

    if isinstance(value, bool) or not isinstance(value, str | int):
        refuse(file, f"{key} is a {type(value).__name__}, not a price", _EXAMPLE)
    try:
        amount = Decimal(value)
    except InvalidOperation:
        refuse(file, f"{key} {value!r} is not a number", _EXAMPLE)
    if not amount.is_finite() or amount.is_signed() or amount >= 10**9:
        refuse(file, f"{key} {amount:.9g} is not a price", _EXAMPLE)
    # A millionth of a dollar per million tokens is one pico-dollar per token: the unit of all sums.
    if amount != amount.quantize(Decimal("0.000001")):
        refuse(file, f"{key} {amount} has more than six decimals", "give at most six")
    return amount
