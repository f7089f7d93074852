"""What a session is: one type for the library, the command, the page, exports and the team server."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

from msgspec import Struct

from recollect.model.budget import PICO
from recollect.model.cost.money import Spending, tokens_of
from recollect.model.lines.blocks import Tokens


class SessionSummary(Struct, frozen=True, kw_only=True, gc=False):
    """A session as every list shows it. Null means not known, never 0: counts where a log cannot be read or was not yet,
    money where it was not asked for; on a team's page also what only its transcript tells, as whose session it is (``agent``).

    ``cost_usd`` is null where a model has no price or no usage was recorded; ``known_cost_usd`` is the cost of the others.
    ``is_archive_only``: its log is no longer in a home, so it does not expire; ``is_archived``: the archive has its current
    state, which only the page looks up. ``continued_in``: the session that took over; ``copied_from``: the one it is a fork
    or a repaired copy of; ``lost_beginning``: the one that has the history it goes on from, and is not here. ``repo`` comes
    with ``--by repo``, ``person`` (who sent it) on a team's page.
    """

    id: str
    agent: str | None
    project: str
    cwd: str | None
    title: str
    tag: str | None = None
    branch: str | None = None
    first_prompt: str | None = None
    first_at: dt.datetime | None = None
    last_at: dt.datetime | None = None
    modified_at: dt.datetime
    messages: int | None = None
    responses: int | None = None
    lines: int | None = None
    bytes: int
    agents: int | None = None
    damaged: int | None = None
    cost_usd: str | None = None
    known_cost_usd: str | None = None
    unpriced: list[str] = []
    models: list[str] = []
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_write_5m_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    cache_read_tokens: int | None = None
    web_searches: int | None = None
    live: bool = False
    expires_at: dt.datetime | None = None
    is_archive_only: bool = False
    is_archived: bool = False
    is_indexed: bool = True
    continued_in: str | None = None
    copied_from: str | None = None
    lost_beginning: str | None = None
    repo: str | None = None
    person: str | None = None
    home: str
    path: str

    @property
    def shown_at(self) -> dt.datetime:
        """The time a list shows: when it was last spoken in, or else when its file was written."""
        return self.last_at or self.modified_at

    @property
    def order(self) -> tuple[bool, dt.datetime, dt.datetime, str, str]:
        """What sessions are sorted by, descending: by the times in their lines (S11), without a conversation last."""
        return self.last_at is not None, self.shown_at, self.modified_at, self.id, self.path

    @property
    def is_unrecorded(self) -> bool:
        """Whether its client wrote down no usage at all: what it cost is unknown, not 0."""
        return self.responses is not None and self.known_cost_usd is None

    @property
    def pico_usd(self) -> int:
        """What it cost, as far as that is known."""
        return 0 if self.known_cost_usd is None else int(Decimal(self.known_cost_usd) * PICO)

    @property
    def spending(self) -> Spending:
        """Tokens and money together; nothing where it was not asked for."""
        return Spending(
            Tokens() if self.input_tokens is None else tokens_of(self),
            self.pico_usd,
            frozenset(self.unpriced),
            self.is_unrecorded,
            self.responses or 0,
            frozenset(self.models),
        )
