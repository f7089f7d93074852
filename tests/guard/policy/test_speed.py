"""T6: a thousand rules do not slow a decision down, counted in comparisons instead of time."""

from __future__ import annotations

from collections import Counter

import pytest

from recollect.guard.policy.command_lines import CommandPattern
from recollect.guard.policy.paths import PathPattern
from tests.guard.policy.worlds import TableWorld, engine


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


@pytest.fixture
def met(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every path pattern that is asked whether it meets a glob."""
    seen: list[str] = []
    plain = PathPattern.meets

    def counting(self: PathPattern, directory: str, glob: str, *, trees: bool) -> bool:
        seen.append(self.text)
        return plain(self, directory, glob, trees=trees)

    monkeypatch.setattr(PathPattern, "meets", counting)
    return seen


MANY_PATHS = [
    *(f"Read(./secret{number}/**)" for number in range(250)),
    *(f"Read(*.key{number})" for number in range(250)),
]


def test_t6_a_glob_is_compared_only_with_rules_of_such_an_ending(met: list[str]) -> None:
    """``cat *.key7`` meets one of five hundred path rules, and that one denies it."""
    found = engine(deny=MANY_PATHS).decide("Bash", {"command": "cat *.key7"})
    assert (found.verdict.value, found.rule, set(met)) == ("deny", "Read(*.key7)", {"*.key7"})


def test_t6_words_of_a_text_nobody_understands_are_compared_only_with_rules_of_such_an_ending(
    met: list[str],
) -> None:
    """Of five hundred path rules, none ends like a word of this text, so none is looked at."""
    found = engine(deny=MANY_PATHS).decide("Bash", {"command": "eval $x *.md notes # and more words"})
    assert (found.verdict.value, met) == ("ask", [])


class CountingWorld(TableWorld):
    """Counts how often each path is looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.looks: Counter[str] = Counter()

    def resolved(self, path: str) -> str:
        self.looks[path] += 1
        return path

    def is_regular_or_missing(self, path: str) -> bool:
        return True


def test_one_decision_looks_at_a_path_once_and_the_next_one_looks_again() -> None:
    """Judging and sealing see the same file; a file changed after that is seen by the next decision."""
    world = CountingWorld()
    made = engine(["Read(./**)"], ["Edit(b)"], ["Read(c)"], world=world)
    world.looks.clear()
    for _ in range(2):
        made.decide("Bash", {"command": "cat a && cat ./a && cat a > out"})
    assert world.looks["/w/repo/a"] == 2


class SwappingWorld(TableWorld):
    """Puts a link to a secret in the place of a file once it has been looked at."""

    def resolved(self, path: str) -> str:
        found = super().resolved(path)
        if path == "/w/repo/notes":
            self.links["/w/repo/notes"] = "/etc/shadow"
        return found


def test_a_file_swapped_while_the_decision_is_made_breaks_its_seal() -> None:
    """What was judged is what was sealed: with the link in its place the decision no longer holds."""
    made = engine(deny=["Read(//etc/**)"], world=SwappingWorld())
    decision = made.decide("Read", {"file_path": "/w/repo/notes"})
    held = made.still_holds(decision, "Read", {"file_path": "/w/repo/notes"})
    assert (decision.verdict.value, held) == ("allow", False)
