"""T6: a thousand rules do not slow a decision down, counted in comparisons instead of time."""

from __future__ import annotations

import pytest

from recollect.policy.command_pattern import CommandPattern
from tests.policy.worlds import engine


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every text that a command pattern is compared with."""
    seen: list[str] = []
    plain = CommandPattern.matches

    def counting(self: CommandPattern, command: str) -> bool:
        seen.append(command)
        return plain(self, command)

    monkeypatch.setattr(CommandPattern, "matches", counting)
    return seen


def test_t6_only_rules_for_the_same_program_are_compared(compared: list[str]) -> None:
    """Of a thousand rules for other programs none is looked at."""
    many = [f"Bash(tool{number} sub *)" for number in range(500)]
    engine([*many, "Bash(npm *)"], deny=[f"Bash(evil{number} *)" for number in range(500)]).decide(
        "Bash", {"command": "npm test"}
    )
    assert len(compared) <= 5
