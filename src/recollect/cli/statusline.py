"""``limits statusline`` and ``limits --hook``: an answer to the client within milliseconds.

Both load little and never fail. tests/cli/test_statusline.py lists the modules that a line may load.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import apsw

from recollect.ask.cost.local_day import today
from recollect.index import glimpse
from recollect.index.schema import index_file, refreshed_at
from recollect.model.budget import BLOCK_QUARTERS, BURN, dollars
from recollect.model.cost.prices import PriceList
from recollect.system import paths
from recollect.system.paths import absolute, config_file

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

_T = TypeVar("_T")

FRESH_SECONDS = 15
OLD_SECONDS = 60
_QUARTER = 900
_OPTIONS = ("--json", "--no-refresh")
# Seconds to wait for the client's JSON, and the most bytes of it that are read.
_PATIENCE, _PATIENCE_AFTER_ALL = 3.0, 0.05
_MOST_BYTES = 1 << 20
_LONGEST_NAME = 40
_LATEST_TIME = 10**11  # the year 5138; later dates overflow
_LIMITS = (("five_hour", "5h"), ("seven_day", "7d"))
_USAGE = "context_window.current_usage"
_PATHS = (
    "session_id",
    "transcript_path",
    "model.display_name",
    "model.id",
    "cost.total_cost_usd",
    "context_window.used_percentage",
    "context_window.context_window_size",
    f"{_USAGE}.input_tokens",
    f"{_USAGE}.cache_creation_input_tokens",
    f"{_USAGE}.cache_read_input_tokens",
    *(f"rate_limits.{name}.{what}" for name, _ in _LIMITS for what in ("used_percentage", "resets_at")),
)


class Amount:
    """Money in pico-dollars, and the models it leaves out because they have no price."""

    def __init__(self, pico: int, unpriced: frozenset[str] = frozenset()) -> None:
        self.pico, self.unpriced = pico, unpriced


class StatusFigures:
    """Everything the line may show; None if unknown. Times are seconds since 1970."""

    def __init__(self, now: float) -> None:
        self.now = now
        self.session: str | None = None
        self.model: str | None = None
        self.client_usd: float | None = None
        self.session_cost: Amount | None = None
        self.today_cost: Amount | None = None
        self.block_cost: Amount | None = None
        self.block_end = 0
        self.context: float | None = None  # tokens
        self.window: float | None = None
        self.percent: float | None = None
        self.limits: list[tuple[str, str, float, float | None]] = []  # name, short name, per cent, reset
        self.budget: list[tuple[str, int]] = []  # the tightest budget, and its per cent
        self.age: float | None = None  # of the figures from the index
        self.notes: list[str] = []


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON document")
    parser.add_argument("--no-refresh", action="store_true", help="do not update the index")


def run(options: Namespace) -> int:
    chosen = [name for name in _OPTIONS if getattr(options, name[2:].replace("-", "_"))]
    return main(chosen, options.homes, options.data)


def main(arguments: list[str], homes: list[str], data: str | None) -> int:
    """The command without an argument parser, which would take longer to load than the line."""
    if "-h" in arguments or "--help" in arguments:
        from recollect.cli.main import command_parser

        command_parser("limits statusline").parse_args(["--help"])
    figures = StatusFigures(time.time())
    figures.notes += [f"no option {_shown(one)}" for one in arguments if one not in _OPTIONS]
    payload = attempt(_input) or b""
    attempt(_read_payload, figures, payload)
    places = attempt(index_place, homes, data)
    if places is not None:
        attempt(_look_up, figures, *places, data)
    answer = attempt(_document if "--json" in arguments else _line, figures)
    attempt(_print_statusline, answer or ("{}" if "--json" in arguments else "recollect"))
    if places is not None and "--no-refresh" not in arguments and _is_due(figures.age):
        attempt(_refresh, *places)
    return 0


def attempt(action: Callable[..., _T], *values: object) -> _T | None:
    """The result of an action; None if it fails. The client hides the line of a command that fails."""
    try:
        return action(*values)
    except Exception:  # noqa: BLE001 - typed, but importing the type takes longer than the rest
        return None


def _is_due(age: float | None) -> bool:
    # A time in the future comes from a clock that was set back.
    return age is None or abs(age) >= FRESH_SECONDS


# --- input from the client ----------------------------------------------------------------


def _input() -> bytes:
    """The bytes on stdin that arrive in time; nothing if stdin is a terminal."""
    if os.isatty(0):
        return b""

    gathered = b""
    while len(gathered) < _MOST_BYTES:
        # Some clients keep the pipe open after the last brace.
        patience = _PATIENCE_AFTER_ALL if gathered.rstrip().endswith(b"}") else _PATIENCE
        if sys.platform != "win32" and not select.select([0], [], [], patience)[0]:
            break
        more = os.read(0, _MOST_BYTES)
        if not more:
            break
        gathered += more
    return gathered


def _read_payload(figures: StatusFigures, payload: bytes) -> None:

    text = payload.decode("utf-8", "replace").strip("\ufeff \t\r\n")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    values = {path: _value_at(document, path) for path in _PATHS}
    if text and all(value is None for value in values.values()):
        figures.notes.append("no known input on stdin")
    transcript = _text(values["transcript_path"]) or ""
    stem = transcript.replace("\\", "/").rpartition("/")[2].removesuffix(".jsonl")
    figures.session = _text(values["session_id"]) or stem or None
    figures.model = _text(values["model.display_name"]) or _text(values["model.id"])
    figures.client_usd = _number(values["cost.total_cost_usd"])
    _hear_context(figures, values, _text(values["model.id"]) or "")
    for name, short in _LIMITS:
        percent = _number(values[f"rate_limits.{name}.used_percentage"])
        resets = _number(values[f"rate_limits.{name}.resets_at"])
        # The usage of a window that has ended does not apply to the next.
        if percent is not None and (resets is None or figures.now < resets < _LATEST_TIME):
            figures.limits.append((name, short, percent, resets))


def _hear_context(figures: StatusFigures, values: dict[str, object], model: str) -> None:

    counts = [_number(values[path]) for path in _PATHS if path.startswith(_USAGE)]
    percent = _number(values["context_window.used_percentage"])
    if percent is None and not any(counts):
        return
    used = sum(count or 0 for count in counts)
    window = _number(values["context_window.context_window_size"]) or glimpse.window_of(model, int(used))
    figures.window = window
    figures.context = used if any(counts) else (percent or 0) * window / 100
    figures.percent = percent if percent is not None else 100 * used / window


def _value_at(value: object, path: str) -> object:
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _number(value: object) -> float | None:
    """A finite number that is not negative and not absurdly large."""
    return value if isinstance(value, int | float) and 0 <= value < 10**15 else None


# --- figures from the index ---------------------------------------------------------------


def index_place(homes: Sequence[str], data: str | None) -> tuple[str, list[str]]:
    """The index, and the homes it is of."""

    environ = {**os.environ, "RECOLLECT_DATA": data} if data else os.environ
    found = paths.existing(map(_home_path, homes)) if homes else paths.existing_homes(environ)
    return index_file(found, paths.cache_dir(environ)), found


def _home_path(named: str) -> str:
    """The path for a ``--home`` value. A missing home is skipped: the line shows what is known."""

    if named != ":sample":
        return absolute(named, os.environ)
    from recollect.sample import sample_home

    return str(sample_home())


def _look_up(figures: StatusFigures, index: str, homes: list[str], data: str | None) -> None:

    if not os.path.exists(index):  # noqa: PTH110 - pathlib is slow to import
        figures.notes.append("no index yet" if homes else "no Claude home")
        return
    try:
        opened = glimpse.opened(index)
        opened.execute("BEGIN")  # all figures are from one moment
        if not glimpse.is_complete(opened):
            figures.notes.append("the index is being built")
            return
        figures.age = figures.now - (refreshed_at(index) or 0)
        prices = lean_prices(figures)
        _read(figures, opened, prices)
        attempt(_check_budgets, figures, opened, prices, data)
    except apsw.BusyError:
        figures.notes.append("the index is busy")
    except apsw.Error:
        figures.notes.append("the index cannot be read")


def _read(figures: StatusFigures, index: apsw.Connection, prices: PriceList) -> None:

    session, quarter = figures.session, int(figures.now) // _QUARTER
    first, end = today(figures.now)
    figures.today_cost = Amount(*glimpse.priced(glimpse.usage_between(index, first, end), prices))
    start = glimpse.block_start(index, quarter)
    if start is not None:
        end = start + BLOCK_QUARTERS
        figures.block_cost = Amount(*glimpse.priced(glimpse.usage_between(index, start, end), prices))
        figures.block_end = end * _QUARTER
    if session is None or not glimpse.knows(index, session):
        return
    figures.session_cost = Amount(*glimpse.priced(glimpse.session_usage(index, session), prices))
    is_told = figures.percent is not None and figures.model is not None
    context = None if is_told else glimpse.newest_context(index, session)
    if context is not None:
        tokens, model, most = context
        figures.model = figures.model or model
        if figures.percent is None:
            figures.context, figures.window = tokens, glimpse.window_of(model, most)
            figures.percent = 100 * tokens / figures.window


def _check_budgets(
    figures: StatusFigures, index: apsw.Connection, prices: PriceList, data: str | None
) -> None:
    """What is left of the budgets. Nothing more is loaded where there are none."""

    if not may_hold(config_file(os.environ), b"budget"):
        return
    from recollect.ask.budget import quick
    from recollect.store.config_file import budget_settings
    from recollect.store.turns import record_limits

    config, own = quick.config_and_data(data)
    try:
        settings = budget_settings(config)
    except Exception:  # noqa: BLE001 - typed, but importing the type takes longer than the rest
        figures.notes.append("[budget] cannot be used")
        return
    if settings is None:
        return
    if figures.limits:
        attempt(record_limits, own, [(one[0], one[2], one[3]) for one in figures.limits], figures.now)
    states, given = quick.warned(index, settings, prices, figures.now, own)
    figures.notes += [one.text for one in given if one.kind == BURN]
    nearest = quick.tightest(states, settings.thresholds[0])
    if nearest is not None:
        figures.budget.append((nearest.rule.label, nearest.percent))


def may_hold(settings: str, word: bytes) -> bool:
    """Whether a word is in the settings; also True if they cannot be read. Parsing them takes longer than the whole line."""
    try:
        with open(settings, "rb") as file:  # noqa: PTH123 - pathlib is slow to import
            text = file.read()
            # A key may be written with escapes: then the full parser decides.
            return word in text or b"\\" in text
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True


def lean_prices(figures: StatusFigures) -> PriceList:
    """The effective prices; the parser of TOML is loaded only where the user has some."""

    if not may_hold(config_file(os.environ), b"prices"):
        return PriceList()
    from recollect.errors import RecollectError
    from recollect.store.own_settings import price_list

    try:
        return price_list()
    except RecollectError:
        figures.notes.append("config.toml cannot be used")
        return PriceList()


def _refresh(index: str, homes: list[str]) -> None:
    from recollect.index.background import start_refresh

    start_refresh(index, homes)


# --- the line -----------------------------------------------------------------------------


def _line(figures: StatusFigures) -> str:
    parts = [_shown(figures.model)] if figures.model else []
    if figures.session_cost is not None:
        parts.append(f"session {_amount(figures, figures.session_cost)}")
    elif figures.client_usd is not None:
        parts.append(f"session {dollars(int(figures.client_usd * 10**12))}")
    if figures.today_cost is not None:
        parts.append(f"today {_amount(figures, figures.today_cost)}")
    if figures.block_cost is not None:
        left = int(figures.block_end - figures.now) // 60
        parts.append(f"block {_amount(figures, figures.block_cost)}, {left} min left")
    if figures.context is not None and figures.percent is not None:
        parts.append(f"ctx {_thousands(figures.context)} ({figures.percent:.0f}%)")
    parts += [_limit(figures, *limit[1:]) for limit in figures.limits]
    parts += [f"budget {_shown(label)} {percent}%" for label, percent in figures.budget]
    return " | ".join([*parts, *figures.notes]) or "recollect"


def _amount(figures: StatusFigures, amount: Amount) -> str:
    is_old = figures.age is not None and abs(figures.age) > OLD_SECONDS
    return f"{'~' if is_old else ''}{dollars(amount.pico)}{'+' if amount.unpriced else ''}"


def _thousands(tokens: float) -> str:
    return f"{tokens / 1000:.0f}k" if tokens < 999_500 else f"{tokens / 10**6:.1f}M"


def _limit(figures: StatusFigures, short: str, percent: float, resets: float | None) -> str:
    if resets is None:
        return f"{short} {percent:.0f}%"
    is_far = resets - figures.now > 86_400
    return f"{short} {percent:.0f}% resets {time.strftime('%a %H:%M' if is_far else '%H:%M', time.localtime(resets))}"


def _shown(text: str) -> str:
    """A name without control characters, cut to a few characters."""
    if not (text.isascii() and text.isprintable()):
        from recollect.cli.terminal.text import visible

        text = visible(text)
    return text[:_LONGEST_NAME]


def _document(figures: StatusFigures) -> str:

    amounts = (figures.session_cost, figures.today_cost, figures.block_cost)
    context = {"tokens": int(figures.context or 0), "window": figures.window, "percent": figures.percent}
    document = {
        "session": figures.session,
        "model": figures.model,
        "session_cost_usd": _exact(figures.session_cost),
        "client_cost_usd": figures.client_usd,
        "today_cost_usd": _exact(figures.today_cost),
        "block": _block(figures),
        "context": None if figures.percent is None else context,
        "rate_limits": {
            name: {"used_percentage": percent, "resets_at": resets}
            for name, _, percent, resets in figures.limits
        },
        "budget": [{"label": label, "percent": percent} for label, percent in figures.budget],
        "index_age_seconds": figures.age,
        "unpriced": sorted({model for one in amounts if one for model in one.unpriced}),
        "notes": figures.notes,
    }
    return json.dumps(document)


def _block(figures: StatusFigures) -> dict[str, object] | None:
    if figures.block_cost is None:
        return None

    return {
        "start": _utc(figures.block_end - BLOCK_QUARTERS * _QUARTER),
        "end": _utc(figures.block_end),
        "minutes_left": int(figures.block_end - figures.now) // 60,
        "cost_usd": _exact(figures.block_cost),
    }


def _exact(amount: Amount | None) -> str | None:
    from recollect.model.cost.money import exact

    return None if amount is None else exact(amount.pico)


def _utc(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _print_statusline(answer: str) -> None:
    if sys.stdout is None:
        return
    try:
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()
    except (OSError, ValueError):
        # No reader is left. The buffer must not make the interpreter fail at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


# --- the hook of budgets ------------------------------------------------------------------


def answer_hook(homes: Sequence[str], data: str | None) -> int:
    """Print ``{"systemMessage": …}`` where this call gave a warning, else ``{}``. A budget warns and never stops the work."""
    words = attempt(_warnings, homes, data) or []
    attempt(_print_budget_hook, words)
    return 0


def _warnings(homes: Sequence[str], data: str | None) -> list[str]:
    from recollect.ask.budget import quick
    from recollect.store.config_file import budget_settings

    config, own = quick.config_and_data(data)
    settings = budget_settings(config)
    if settings is None:
        return []

    index, found = index_place(homes, data)
    age = time.time() - (refreshed_at(index) or 0)
    if abs(age) >= FRESH_SECONDS:
        from recollect.index.background import start_refresh

        start_refresh(index, found)
    opened = glimpse.opened(index)
    if not glimpse.is_complete(opened):
        return []
    prices = lean_prices(StatusFigures(time.time()))
    given = quick.warned(opened, settings, prices, time.time(), own)[1]
    return [one.text for one in given]


def _print_budget_hook(words: list[str]) -> None:
    text = "{}"
    if words:
        text = json.dumps({"systemMessage": "recollect: " + "; ".join(words)})
    sys.stdout.write(f"{text}{os.linesep}")
    sys.stdout.flush()
