"""Sums of usage turned into a report: priced, put under their keys, added up.

Whatever the view, the same sums come together here, so every view has the same total. Prices are linear in tokens, so it does not
matter how coarse the sums are, as long as one sum has one model, one variant and one period of the price list, and either all or none
of its responses use a class of tokens that has no price.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import UNSET, Struct, UnsetType, field, structs

from recollect.model.budget import PICO, BurnRate
from recollect.model.cost.calendar import QUARTER_MS, TIME_KEYS, UNKNOWN, Timeline, moment_name
from recollect.model.cost.money import NO_MODEL, Usd, members_of, usd
from recollect.model.cost.prices import SYNTHETIC_MODEL, UNCERTAIN, PriceList, canonical
from recollect.model.cost.reconcile import RecordedCost
from recollect.model.cost.report import (
    MODES,
    NO_BRANCH,
    NO_PROMPT,
    NO_TOOL,
    TOOL_NOT_RECORDED,
    CostExplanation,
    CostReport,
    CostRow,
    UncertainUsage,
    UnpricedModel,
    UsageGroup,
    UsageLog,
)
from recollect.model.lines.blocks import Tokens

_NOTES_TOOLS = "claude"
_SHOWN_PATHS = 3
_ENOUGH_RESPONSES = 30  # with a final count, to estimate how long the others were


class CostQuery(Struct, frozen=True):
    """What a report is about."""

    by: tuple[str, ...]
    timeline: Timeline
    prices: PriceList
    mode: str = "calculate"
    is_explained: bool = False
    is_timed: bool = False
    now: int = 0  # milliseconds since 1970
    active_since: int | None = None  # when the first response of the running block came


class CostTally(Struct):
    """What has come together under one key, from its first ``quarter`` on."""

    quarter: int
    is_unlogged: bool = False
    responses: int = 0
    tokens: Tokens = Tokens()
    pico: int = 0
    priced_output: int = 0
    unpriced: int = 0
    unrecorded: int = 0
    uncertain: int = 0
    lines: int = 0
    recorded: int = 0
    unsaid: int = 0
    timed: int = 0
    timed_ms: int = 0
    timed_output: int = 0
    logs: set[int] = field(default_factory=set)
    prices: set[str] = field(default_factory=set)

    @property
    def is_shown(self) -> bool:
        """Whether it is a row: copies that were dropped, and money in another mode, only belong to the total."""
        return bool(self.responses or self.pico)

    def merge(self, other: CostTally) -> None:
        """Add what came together elsewhere."""
        for name in _AMOUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.logs |= other.logs
        self.prices |= other.prices


_AMOUNTS = CostTally.__struct_fields__[2:-2]


class CostAggregator:
    """Adds up sums for one report. ``records``: one total a session; ``rests``: what they add to the logs."""

    def __init__(
        self,
        asked: CostQuery,
        logs: Mapping[int, UsageLog],
        records: Sequence[RecordedCost] = (),
        rests: Sequence[RecordedCost] = (),
    ) -> None:
        self._asked = asked
        self._logs = logs
        self._records = records
        self._rests = rests
        self._covered = {owner_of(logs[record.log]) for record in records}
        self._covered_models = {
            (owner_of(logs[record.log]), canonical(record.model or "")) for record in records
        }
        self._key = _key_maker(asked.by, asked.timeline, logs)
        self._rows: dict[tuple[str, ...], CostTally] = {}
        self._unlogged: dict[tuple[str, ...], CostTally] = {}
        self._unpriced: dict[str, list[int]] = {}
        self._uncertain: dict[str, list[int]] = {}
        self._certain: dict[str, list[int]] = {}
        # Whether a sum held tokens of a class without a price: it must be taken apart to be exact.
        self.has_gap = False

    def report(self, sums: Iterable[UsageGroup], **about: Any) -> CostReport:
        """The report on these sums; ``about`` are members that no sum has a part in."""
        for one in sums:
            self._add(one)
        for record in self._records:
            if record.is_booked:
                self._add_record(record)
        for rest in self._rests:
            if rest.is_booked:
                self._add_rest(rest)
        by = self._asked.by
        total = CostTally(0)
        parts = (*self._rows.items(), *self._unlogged.items())
        for _, tally in parts:
            total.merge(tally)
        ranks = ranks_of(by, [(key, tally.pico, tally.tokens.total) for key, tally in parts])
        rows = [
            self._row(dict(zip(by, key, strict=True)), tally)
            for key, tally in sorted(parts, key=lambda part: (*ranks(part[0]), part[1].is_unlogged))
            if tally.is_shown
        ]
        totals = self._row({}, total)
        is_unknown = about.get("unrecorded_sessions") and not total.responses
        return CostReport(
            by=by,
            mode=self._asked.mode,
            rows=tuple(rows),
            totals=structs.replace(totals, usd=None) if is_unknown else totals,
            unpriced=tuple(
                UnpricedModel(model=model, responses=responses, **members_of(Tokens(*counts)))
                for model, (responses, *counts) in sorted(self._unpriced.items())
            ),
            uncertain=tuple(
                UncertainUsage(
                    model,
                    responses,
                    output,
                    usd(pico),
                    estimated_more_usd=self._estimated_more(model, *rated),
                )
                for model, (responses, output, pico, *rated) in sorted(self._uncertain.items())
            ),
            **about,
        )

    # --- adding -------------------------------------------------------------------------------------

    def _add(self, one: UsageGroup) -> None:
        asked = self._asked
        if not one.responses and not asked.is_explained:
            return
        key = self._key(one)
        tally = self._rows.get(key)
        if tally is None:
            tally = self._rows[key] = CostTally(one.quarter)
        counts = one.counts
        pico, missing, unrecorded = self._money(one, counts, asked.mode)
        tally.responses += one.responses
        tally.pico += pico
        tally.tokens += Tokens(*counts)
        if missing is None:
            tally.priced_output += one.output
        else:
            tally.unpriced += one.responses
            tally.priced_output += one.output - missing[1]
            _grow(self._unpriced, one.model or NO_MODEL, (one.responses, *missing))
        if unrecorded:
            tally.unrecorded += unrecorded
        if one.variant & UNCERTAIN and one.responses:
            tally.uncertain += one.responses
            price = asked.prices.find(one.model or "", max(one.quarter, 0), one.variant)
            rate = 0 if price is None else price[1] or 0
            amounts = (one.responses, one.output, pico, one.responses * rate, one.output * rate)
            _grow(self._uncertain, one.model or NO_MODEL, amounts)
        elif one.responses:
            _grow(self._certain, one.model or NO_MODEL, (one.responses, one.output))
        if one.timed:
            tally.timed += one.timed
            tally.timed_ms += one.timed_ms
            tally.timed_output += one.timed_output
        if asked.is_explained:
            self._explain(tally, one)

    def _estimated_more(self, model: str, responses: int, output: int) -> Usd | UnsetType:
        """``responses`` and ``output`` times the price of a token of output, in pico-dollars."""
        known, length = self._certain.get(model, (0, 0))
        if known < _ENOUGH_RESPONSES:
            known, length = map(sum, zip((0, 0), *self._certain.values(), strict=True))
        if self._asked.mode != "calculate" or known < _ENOUGH_RESPONSES:
            return UNSET
        return usd(max(responses * length // known - output, 0))

    def _explain(self, tally: CostTally, one: UsageGroup) -> None:
        tally.lines += one.lines
        if one.log is not None:
            tally.logs.add(one.log)
        if not one.responses:
            return
        what = self._asked.prices.describe(one.model or "", max(one.quarter, 0), one.variant)
        tally.prices.add(f"{one.model or NO_MODEL}: {what}")
        recorded, _, unrecorded = self._money(one, one.counts, "display")
        tally.recorded += recorded
        tally.unsaid += unrecorded

    def _add_record(self, record: RecordedCost) -> None:
        counts = self._asked.mode == "display"
        if not counts and not self._asked.is_explained:
            return
        tally = self._rows.setdefault(self._key_of(record), CostTally(record.quarter))
        tally.pico += record.pico_usd * counts
        tally.recorded += record.pico_usd

    def _add_rest(self, rest: RecordedCost) -> None:
        rows = self._unlogged if rest.is_unlogged else self._rows
        tally = rows.setdefault(self._key_of(rest), CostTally(rest.quarter))
        tally.is_unlogged = rest.is_unlogged
        tally.tokens += Tokens(*rest.counts)
        tally.pico += rest.pico_usd
        tally.priced_output += rest.counts[1]

    def _key_of(self, record: RecordedCost) -> tuple[str, ...]:
        return self._key(
            UsageGroup(record.quarter, record.log, record.model, None, None, 0, 0, 0, 0, 0, 0, 0, 0)
        )

    def _money(
        self, one: UsageGroup, counts: tuple[int, int, int, int, int, int], mode: str
    ) -> tuple[int, Sequence[int] | None, int]:
        """Pico-dollars, the counts without a price unless all have one, responses without a record."""
        if mode == "display":
            if self._owner(one) in self._covered or one.model == SYNTHETIC_MODEL:
                return 0, None, 0
            return one.recorded, None, one.unrecorded
        pico, missing = self._asked.prices.cost(one.model or "", one.quarter, one.variant, counts)
        if missing is None:
            return pico, None, 0
        # Of a model with a price for other tokens: a finer sum may lack fewer.
        self.has_gap = self.has_gap or missing is not counts
        if mode == "auto":
            if (self._owner(one), canonical(one.model or "")) in self._covered_models:
                return pico, None, 0
            if not one.unrecorded:
                return one.recorded, None, 0
        return pico, missing, 0

    def _owner(self, one: UsageGroup) -> str | None:
        return None if one.log is None else owner_of(self._logs[one.log])

    # --- rows ---------------------------------------------------------------------------------------

    def _row(self, keys: dict[str, str], tally: CostTally) -> CostRow:
        asked = self._asked
        more: dict[str, Any] = {} if asked.mode == MODES[0] else {"unrecorded_responses": tally.unrecorded}
        if asked.is_timed:
            more |= _speed(tally)
        if asked.is_explained:
            more["explain"] = self._explanation(tally)
        if tally.is_unlogged:
            more["is_unlogged"] = True
        row = CostRow.of(keys, tally.responses, tally.tokens, tally.pico, tally.unpriced, **more)
        return (
            structs.replace(row, **self._block(tally, is_unknown=row.usd is None)) if "block" in keys else row
        )

    def _block(self, tally: CostTally, *, is_unknown: bool) -> dict[str, Any]:
        """A five-hour window; of the running one also how it goes on."""
        asked = self._asked
        block = asked.timeline.block(tally.quarter)
        if block is None:
            return {}
        is_active = asked.active_since is not None and block[0] <= asked.now // QUARTER_MS < block[1]
        more: dict[str, Any] = {
            "start": moment_name(block[0]),
            "end": moment_name(block[1]),
            "is_active": is_active,
        }
        if asked.active_since is None or not is_active:
            return more
        burn = BurnRate(tally.tokens.total, tally.pico, asked.active_since, asked.now, block[1])
        more |= {
            "minutes_left": burn.minutes_left,
            "tokens_per_minute": burn.tokens_per_minute,
            "projected_tokens": burn.projected_tokens,
        }
        if not is_unknown:
            more["cost_usd_per_hour"] = usd(burn.pico_usd_per_hour or 0)
            more["projected_cost_usd"] = usd(burn.projected_pico_usd or 0)
        return more

    def _explanation(self, tally: CostTally) -> CostExplanation:
        paths = sorted(self._logs[log].path for log in tally.logs)
        return CostExplanation(
            logs=len(paths),
            paths=tuple(paths[:_SHOWN_PATHS]),
            copies_dropped=tally.lines - tally.responses,
            prices=tuple(sorted(tally.prices)),
            uncertain_responses=tally.uncertain,
            recorded_cost_usd=usd(tally.recorded),
            unrecorded_responses=tally.unsaid,
            difference_usd=usd(tally.pico - tally.recorded),
        )


def _speed(tally: CostTally) -> dict[str, Any]:
    duration, output = tally.timed_ms, tally.timed_output
    return {
        "timed_responses": tally.timed,
        "duration_ms": duration,
        "tokens_per_second": round(output * 1000 / duration, 2) if duration else None,
        "tokens_per_dollar": round(tally.priced_output * PICO / tally.pico, 1) if tally.pico > 0 else None,
    }


def one_total_a_session(records: Sequence[RecordedCost], logs: Mapping[int, UsageLog]) -> list[RecordedCost]:
    """Copies of a log repeat its running total: the largest of a session stands, then that of the smallest path."""
    by_log: dict[int, list[RecordedCost]] = {}
    for record in records:
        if record.log in logs:
            by_log.setdefault(record.log, []).append(record)
    best: dict[str, tuple[int, str, list[RecordedCost]]] = {}
    for log, total in by_log.items():
        rank = (-sum(record.pico_usd for record in total), logs[log].path, total)
        owner = owner_of(logs[log])
        if owner not in best or rank[:2] < best[owner][:2]:
            best[owner] = rank
    return [record for _, _, total in best.values() for record in total]


def owner_of(log: UsageLog) -> str:
    """Whose running total covers a log: its session's, or where none is known, its own."""
    return log.path if log.session == UNKNOWN else log.session


def _grow(sums: dict[str, list[int]], name: str, amounts: Sequence[int]) -> None:
    known = sums.setdefault(name, [0] * len(amounts))
    for place, amount in enumerate(amounts):
        known[place] += amount


def _key_maker(
    by: Sequence[str], timeline: Timeline, logs: Mapping[int, UsageLog]
) -> Callable[[UsageGroup], tuple[str, ...]]:
    """A function from a sum to its key, one name for each part of ``by``."""
    times = [key for key in by if key in TIME_KEYS]
    if times == list(by):
        return lambda one: timeline.names(one.quarter)

    def of_log(name: str) -> Callable[[UsageGroup], str]:
        return lambda one: UNKNOWN if one.log is None else getattr(logs[one.log], name)

    parts: dict[str, Callable[[UsageGroup], str]] = {
        "model": lambda one: one.model or NO_MODEL,
        "branch": lambda one: one.branch or NO_BRANCH,
        "tool": lambda one: one.tool or (NO_TOOL if one.log is None else _without_tool(logs[one.log])),
        "prompt": lambda one: one.prompt or NO_PROMPT,
        **{key: of_log(key) for key in ("session", "project", "agent", "client", "repo")},
        **{key: _time_name(timeline, place) for place, key in enumerate(times)},
    }
    wanted = [parts[key] for key in by]
    return lambda one: tuple([part(one) for part in wanted])


def _without_tool(log: UsageLog) -> str:
    """Other agents note the usage of a call apart from what it said: that says nothing about tools."""
    return NO_TOOL if log.client in (_NOTES_TOOLS, UNKNOWN) else TOOL_NOT_RECORDED


def _time_name(timeline: Timeline, place: int) -> Callable[[UsageGroup], str]:
    return lambda one: timeline.names(one.quarter)[place]


def ranks_of(
    by: Sequence[str], rows: Iterable[tuple[tuple[str, ...], int, int]]
) -> Callable[[tuple[str, ...]], tuple[object, ...]]:
    """The order of rows with these keys, amounts and tokens: times rise; everything else goes from the dearest to the
    cheapest, in the same order under every time."""
    spent: list[dict[str, tuple[int, int]]] = [{} for _ in by]
    for key, amount, used in rows:
        for place, name in enumerate(key):
            pico, tokens = spent[place].get(name, (0, 0))
            spent[place][name] = (pico + amount, tokens + used)

    def ranks(key: tuple[str, ...]) -> tuple[object, ...]:
        found: list[object] = []
        for place, name in enumerate(key):
            if by[place] in TIME_KEYS:
                found.append(name)
            else:
                pico, tokens = spent[place][name]
                found.append((-pico, -tokens, name))
        return tuple(found)

    return ranks
