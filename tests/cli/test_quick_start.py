"""Commands that are asked often load little, also where a line is new, and leave nothing broken for others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.talk import assistant, encoded, log_at, user

SESSION = "11111111-1111-4111-8111-111111111111"
# typing_extensions brings inspect and dis along; the codec makes decoders for all that a line may be.
HEAVY = (
    "typing_extensions",
    "inspect",
    "hashlib",
    "recollect.model.codec",
    "recollect.model.line_views.odd_lines",
)


def printed(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


@pytest.fixture
def log() -> Path:
    """A session with a title, and an index that knows it."""
    title = {"type": "ai-title", "aiTitle": "The title", "sessionId": SESSION}
    lines = [user("u", None, 0, "some words"), assistant("a", "u", 1, "more words"), title]
    made = log_at(Path.home() / ".claude" / "projects" / "-srv" / f"{SESSION}.jsonl", lines)
    printed("from recollect.cli.main import main\nmain(['cost', '--json'])")
    return made


@pytest.mark.parametrize(
    "command", [["cost", "--json"], ["search", "words"], ["list"], ["list", "--json"], ["overview"]]
)
@pytest.mark.parametrize("is_new", [False, True])
def test_little_is_imported(command: list[str], is_new: bool, log: Path) -> None:
    """Nor where an answer has been added since, which is what every second question meets."""
    if is_new:
        with log.open("ab") as end:
            end.write(encoded([assistant("b", "a", 2, "new words")]))
    program = (
        "import sys\n"
        "from recollect.cli.main import main\n"
        f"main({command})\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )

    assert "[]" == printed(program)


def test_what_msgspec_goes_without_is_there_for_others() -> None:
    """Only its own import of typing_extensions is passed over."""
    program = (
        "import recollect.cli.spend.cost\n"
        "import importlib.util\n"
        "if importlib.util.find_spec('typing_extensions'):\n"
        "    import typing_extensions\n"
        "print('fine')"
    )

    assert "fine" == printed(program)


def test_whoever_had_it_loaded_keeps_it() -> None:
    """A module that is there already is not taken away."""
    program = (
        "import sys, types\n"
        "mine = sys.modules['typing_extensions'] = types.ModuleType('typing_extensions')\n"
        "import recollect.cli.spend.cost\n"
        "print(sys.modules['typing_extensions'] is mine)"
    )

    assert "True" == printed(program)
