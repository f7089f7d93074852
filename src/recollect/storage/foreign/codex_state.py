"""What reading on in a rollout of Codex needs to know of what was read before."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from recollect.storage.foreign.growth import Growth
from recollect.storage.foreign.lines import LineFields, Voice


class RolloutState(Struct, kw_only=True):
    """What reading on needs to know."""

    growth: Growth = msgspec.field(default_factory=Growth)
    voice: Voice = msgspec.field(default_factory=Voice)
    source: str = ""  # where it lay when it was first read; the client moves and compresses rollouts
    thread: str = ""
    forked_from: str | None = None
    origin: str = ""  # the thread whose meta line stands last above
    copy_of: str = ""  # the first other one: what was copied
    model: str | None = None
    turn: str | None = None
    models: dict[str, str | None] = {}
    recorded: list[str] = []  # turns whose calls have records of their own
    total: tuple[int, ...] | None = None
    is_reviewer: bool = False
    in_review: bool = False
    searches: int = 0
    tier: str | None = None  # of the service, where the client says it
    prompts: list[str | None] = []  # the entry before each prompt, for rolling back
    carried: int = 0  # bytes of prompts that compactions without a list of what they left carried over
    calls: dict[str, str] = {}  # open calls by id: the tool
    edits: dict[str, list[LineFields]] = {}  # what open calls are to change
