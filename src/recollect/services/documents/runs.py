"""What a command in the sandbox, and a run of the headless agent, came to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct


class RunDocument(Struct, frozen=True, kw_only=True):
    """What ``run --json`` prints. ``put_back`` are protected names that were changed and restored."""

    exit_code: int | None
    stdout: str
    stderr: str
    interrupted: bool
    truncated: bool
    sandbox: Any
    timed_out: bool
    ended_by: str | None
    seconds: float
    put_back: Sequence[str]
    not_held: Sequence[str]


class AgentUsageDocument(Struct, frozen=True):
    """Tokens by kind, with the names of the API."""

    input_tokens: int
    output_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int


class AgentRunDocument(Struct, frozen=True, kw_only=True):
    """What ``agent --json`` prints, with the client's names for the same."""

    type: Literal["result"] = "result"
    subtype: str
    is_error: bool
    result: str
    stop_reason: str | None
    session_id: str
    log: str
    num_turns: int
    duration_ms: int
    total_cost_usd: float | None
    unpriced: list[str]
    usage: AgentUsageDocument
    permission_denials: list[Any]
