"""The steps, by number and name. A released step is never edited, because its results are on users' disks.

An improvement is a new step with a new number; a test holds the hash of each released one.
"""

from __future__ import annotations

import re

from msgspec import Struct

from recollect.errors import NotFound
from recollect.storage.migrations import (
    step_001_flat_to_claude,
    step_002_claude_to_flat,
    step_003_flat_agents_to_subagents,
    step_004_todos_to_tasks,
    step_005_side_chains_to_agent_files,
)
from recollect.storage.migrations.migration import Planner


class MigrationStep(Struct, frozen=True):
    """One step: its source and target layout, and the function that plans it.

    Undoing the change reverses it. ``version`` is the first client version that has the target layout; None
    where no client has it.
    """

    number: int
    name: str
    source: str
    target: str
    about: str
    planned: Planner
    version: str | None = None


class MigrationPlan(Struct, frozen=True):
    """The steps that lead to the layout of a target, in order."""

    target: str
    steps: tuple[MigrationStep, ...]


STEPS = (
    MigrationStep(
        1,
        "flat-to-claude",
        "flat or events dialect",
        "claude 2.0.76 and later",
        "write a log of another dialect as a session that Claude Code resumes",
        step_001_flat_to_claude.planned,
        "2.0.76",
    ),
    MigrationStep(
        2,
        "claude-to-flat",
        "claude",
        "flat dialect",
        "write a session as flat lines; what they cannot hold is listed",
        step_002_claude_to_flat.planned,
    ),
    MigrationStep(
        3,
        "flat-agents-to-subagents",
        "claude 2.0",
        "claude 2.1.325",
        "move sub-agents' logs into their session's directory, with meta files",
        step_003_flat_agents_to_subagents.planned,
        "2.1.325",
    ),
    MigrationStep(
        4,
        "todos-to-tasks",
        "claude up to 2.1.30",
        "claude 2.1.197 and later",
        "turn a session's todo list into a task list",
        step_004_todos_to_tasks.planned,
        "2.1.197",
    ),
    MigrationStep(
        5,
        "side-chains-to-agent-files",
        "claude 1.0",
        "claude 2.1.325",
        "move sub-agents inside a session's log into their own logs",
        step_005_side_chains_to_agent_files.planned,
        "2.1.325",
    ),
)


def step_named(name: str) -> MigrationStep:
    """A step by its number, or by its name."""
    for step in STEPS:
        if name == step.name or name.lstrip("0") == str(step.number):
            return step
    raise NotFound(f"migration step {name!r}: not found", hint="`recollect migrate --list` shows them")


def plan_to(target: str) -> MigrationPlan | None:
    """The plan for a client version, or for ``flat``; None where the target is neither.

    A version gets every step to a layout that it has, the oldest first. ``flat`` has no sub-agents inside a log, so
    these are taken out before.
    """
    if target == "flat":
        return MigrationPlan(target, (step_named("5"), step_named("2")))
    if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,4}){1,2}", target, re.ASCII):
        return None
    steps = [step for step in STEPS if step.version and _numbers(step.version) <= _numbers(target)]
    return MigrationPlan(
        target, tuple(sorted(steps, key=lambda step: (_numbers(step.version or ""), step.number)))
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
