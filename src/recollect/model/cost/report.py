"""What things cost: the sums that a report is made of, its rows, and the answer, which is its own JSON.

Three modes say how cost is determined. ``calculate``: tokens times price. ``display``: what the client recorded,
as a session's running total where there is one (it covers the session's agents, and is booked at the
time it was written), else response by response. ``auto``: tokens times price; the record where there is no
price; and in rows of their own what a client recorded that its logs lack (``model.cost.reconcile``), so that the
total is the client's. What has no price, or no record, is counted and named, and is never zero silently
(laws 6 and 11).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, Struct, UnsetType, structs

from recollect.model.budget import dollars
from recollect.model.cost.calendar import UNKNOWN
from recollect.model.cost.money import (
    NO_MODEL,
    Spending,
    TokenMembers,
    Usd,
    members_of,
    priced,
    tokens_of,
    usd,
)
from recollect.model.cost.prices import PriceList
from recollect.model.lines.blocks import Tokens, counts_of

KEYS = (
    "day", "week", "month", "session", "project", "repo", "model", "branch", "agent", "tool", "prompt", "block",
    "client",
)  # fmt: skip
TOTAL = "total"  # alone: everything in one row
MODES = ("calculate", "display", "auto")
# The label of a row of ``auto``: compaction, aborted streams, side questions.
UNLOGGED = "recorded by the client, not in the log"
NO_BRANCH, NO_TOOL, NO_PROMPT, MAIN_AGENT = "(none)", "(no tool)", "(no prompt)", "main"
TOOL_NOT_RECORDED = "(not recorded)"


class UsageLog(Struct, frozen=True, gc=False):
    """A log that usage was read from. ``origins``: where the worktrees it worked in were made from, a line each; None: not known."""

    path: str
    session: str = UNKNOWN
    agent: str = MAIN_AGENT
    project: str = UNKNOWN
    is_gone: bool = False
    client: str = UNKNOWN  # whose home it lies in: claude, codex
    repo: str = UNKNOWN  # looked up only if a report is about repositories
    home: str = ""
    origins: str | None = None


class UsageGroup(Struct, frozen=True, gc=False):
    """Usage of responses that are alike. What no view asked for is None; so is what the log did not say.

    ``responses`` are those that count; ``lines`` all lines that spoke, copies included.
    ``recorded`` is what the client wrote down for them, ``unrecorded`` how many it wrote nothing for.
    ``timed`` are those whose duration is known: ``timed_ms`` together, for ``timed_output`` tokens.
    """

    quarter: int
    log: int | None
    model: str | None
    branch: str | None
    tool: str | None
    variant: int
    responses: int
    input: int
    output: int
    cache_write_5m: int
    cache_write_1h: int
    cache_read: int
    web_searches: int
    recorded: int = 0
    unrecorded: int = 0
    lines: int = 0
    timed: int = 0
    timed_ms: int = 0
    timed_output: int = 0
    prompt: str | None = None

    @property
    def counts(self) -> tuple[int, int, int, int, int, int]:
        """Tokens of each class and searches, in the order of ``counts_of``."""
        return counts_of(self)


class CostExplanation(Struct, frozen=True, kw_only=True):
    """Where the figures of a row come from. ``recorded_cost_usd``: the same row as the client recorded it."""

    logs: int
    paths: tuple[str, ...]
    copies_dropped: int
    prices: tuple[str, ...]
    uncertain_responses: int
    recorded_cost_usd: Usd
    unrecorded_responses: int
    difference_usd: Usd


class CostRow(Struct, frozen=True, kw_only=True, rename={"usd": "cost_usd"}):
    """One row, with the keys that were asked for, ``person`` and ``machine`` on a team's page. A block has a start and an end, the current one a
    projection.

    ``cost_usd`` leaves out the tokens without a price of ``unpriced_responses`` and what ``unrecorded_responses`` count, and is null if they are all
    there is, or no usage was recorded. ``is_unlogged`` is there where the row is what a client recorded and its log lacks (mode auto); such a row
    stands beside the row of the same keys.
    """

    day: str | UnsetType = UNSET
    week: str | UnsetType = UNSET
    month: str | UnsetType = UNSET
    session: str | UnsetType = UNSET
    title: str | UnsetType = UNSET
    project: str | UnsetType = UNSET
    client: str | UnsetType = UNSET
    repo: str | UnsetType = UNSET
    model: str | UnsetType = UNSET
    branch: str | UnsetType = UNSET
    agent: str | UnsetType = UNSET
    tool: str | UnsetType = UNSET
    prompt: str | UnsetType = UNSET
    typed: str | UnsetType = UNSET
    block: str | UnsetType = UNSET
    person: str | UnsetType = UNSET
    machine: str | UnsetType = UNSET
    responses: int
    input_tokens: int
    output_tokens: int
    cache_write_5m_tokens: int
    cache_write_1h_tokens: int
    cache_read_tokens: int
    web_searches: int
    usd: Usd | None
    unpriced_responses: int = 0
    unrecorded_responses: int | UnsetType = UNSET
    start: str | UnsetType = UNSET
    end: str | UnsetType = UNSET
    is_active: bool | UnsetType = UNSET
    minutes_left: int | UnsetType | None = UNSET
    tokens_per_minute: int | UnsetType | None = UNSET
    cost_usd_per_hour: Usd | UnsetType = UNSET
    projected_tokens: int | UnsetType | None = UNSET
    projected_cost_usd: Usd | UnsetType = UNSET
    timed_responses: int | UnsetType = UNSET
    duration_ms: int | UnsetType = UNSET
    tokens_per_second: float | UnsetType | None = UNSET
    tokens_per_dollar: float | UnsetType | None = UNSET
    explain: CostExplanation | UnsetType = UNSET
    is_unlogged: bool | UnsetType = UNSET

    @classmethod
    def of(
        cls,
        keys: Mapping[str, Any],
        responses: int,
        tokens: Tokens,
        pico_usd: int,
        unpriced_responses: int = 0,
        **more: Any,
    ) -> CostRow:
        """A row; its cost is unknown if no response has a price, or a record where records count."""
        missing = unpriced_responses + (more.get("unrecorded_responses") or 0)
        return cls(
            responses=responses,
            **members_of(tokens),
            usd=None if not pico_usd and 0 < responses <= missing else usd(pico_usd),
            unpriced_responses=unpriced_responses,
            **keys,
            **more,
        )

    @property
    def keys(self) -> dict[str, str]:
        """The values of the keys that were asked for."""
        values = ((key, getattr(self, key)) for key in KEYS)
        return {key: value for key, value in values if value is not UNSET}

    @property
    def tokens(self) -> Tokens:
        """Its tokens and searches."""
        return tokens_of(self)

    @property
    def pico_usd(self) -> int:
        """Its cost in pico-dollars; 0 where it is unknown."""
        return 0 if self.usd is None else self.usd.pico


class UnpricedModel(TokenMembers, frozen=True, kw_only=True):
    """A model without a price, or without one for some tokens: how many responses have such tokens, and which."""

    model: str
    responses: int


class UncertainUsage(Struct, frozen=True, rename={"usd": "cost_usd"}):
    """Responses whose counts may be too low (or whose price may be another). Versions are looked up to explain.

    ``cost_usd`` is what is in the totals for them: a lower bound. ``estimated_more_usd`` is what they cost beyond it if their
    answers were as long as the others of their model on average, or of all models where those are few; absent where all are few.
    """

    model: str
    responses: int
    output_tokens: int
    usd: Usd
    versions: tuple[str, ...] | UnsetType = UNSET
    estimated_more_usd: Usd | UnsetType = UNSET


class CostReport(Struct, frozen=True, kw_only=True):
    """The answer to what things cost. ``gone`` counts sessions that were deleted and are still in the totals.

    ``unrecorded_sessions`` are those of other agents whose clients wrote down no usage: nothing here says what they cost.
    """

    by: tuple[str, ...]
    mode: str
    timezone: str = "local"
    rows: tuple[CostRow, ...]
    totals: CostRow
    unpriced: tuple[UnpricedModel, ...] = ()
    uncertain: tuple[UncertainUsage, ...] = ()
    gone: int = 0
    notes: tuple[str, ...] = ()
    unrecorded_sessions: tuple[str, ...] = ()

    def __repr__(self) -> str:
        by, amount = ", ".join(self.by) or TOTAL, dollars(self.totals.pico_usd)
        return f"<CostReport by {by}: {len(self.rows):,} rows, {self.totals.responses:,} responses, {amount}>"

    @property
    def is_unknown(self) -> bool:
        """Whether nothing is known: there were sessions, and none has a record of usage."""
        return bool(self.unrecorded_sessions) and not self.totals.responses

    @property
    def uncertain_responses(self) -> int:
        """How many responses may have cost more than the logs say."""
        return sum(one.responses for one in self.uncertain)


def group_spending(group: UsageGroup, prices: PriceList) -> Spending:
    """What the responses of a sum cost."""
    spent = priced(Tokens(*group.counts), group.model, group.quarter, group.variant, prices)
    return structs.replace(spent, responses=group.responses, models=frozenset([group.model or NO_MODEL]))
