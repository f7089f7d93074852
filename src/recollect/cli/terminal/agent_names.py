"""The names that ``--agent`` takes: whose homes are read."""

from __future__ import annotations

from recollect.errors import UsageError
from recollect.system.paths import known_agents


def agents_named(given: str) -> list[str]:
    """Agents with commas between them, as typed: spaces and capitals do not matter."""
    return [name.strip().lower() for name in given.split(",")]


def are_agents(given: str) -> bool:
    """Whether all of these are agents; some commands take a sub-agent by the same option."""
    return set(agents_named(given)) <= {*known_agents()}


def no_such_agent(command: str, given: str) -> UsageError:
    """Which of the names is wrong, for which command, and what it may have been meant to be."""
    from recollect.cli.terminal.text import near_miss

    known = known_agents()
    choices = f"write one or more of {', '.join(known)}, with commas"
    wrong = [name for name in agents_named(given) if name not in known]
    if not any(wrong):
        return UsageError(f"{command} --agent: needs the name of an agent".strip(), hint=choices)
    meant = near_miss(wrong[0], known) if len(wrong) == 1 else ""
    return UsageError(f"{command} --agent {', '.join(wrong)}: no such agent{meant}".strip(), hint=choices)
