"""Forks of other agents: what a turn costs on the page is what `cost` says of its session and its prompt, also where copies are copied."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from recollect import Home
from tests.agents import opencode_forks
from tests.agents.codex_threads import Step, thread
from tests.surfaces.case import Case
from tests.web.pages import Browser, served

ONE, TWO, THREE, OTHER = Step(1, "one", 100), Step(12, "two", 130), Step(23, "three", 140), Step(34, "x", 150)
SAMPLES = (
    "codex/*/*fork*/.codex",
    "codex/*/tui/.codex",
    "codex/*/review/.codex",
    "opencode-*/data/opencode",
    "qwen-*/.qwen",
)


def codex(home: Path) -> str:
    """A thread, a fork of it, a fork of that fork, and another one of the first; gives the first."""
    first = thread(home, 0, [ONE])
    second = thread(home, 11, [TWO], [ONE], first)
    thread(home, 22, [THREE], [ONE, TWO], second)
    thread(home, 33, [OTHER], [ONE], first)
    return first


def opencode(home: Path) -> str:
    """The same."""
    first = opencode_forks.session(home, 0, [ONE])
    opencode_forks.session(home, 11, [TWO], [ONE])
    opencode_forks.session(home, 22, [THREE], [ONE, TWO])
    opencode_forks.session(home, 33, [OTHER], [ONE])
    return first


MADE: tuple[Callable[[Path], str], ...] = (codex, opencode)


def costs(case: Case, *by: str) -> Counter[tuple[str, ...]]:
    """What `cost` says of the main logs: input tokens, which tell the calls of a made home apart."""
    rows = case.document("cost", "--by", ",".join((*by, "agent")))["rows"]
    found: Counter[tuple[str, ...]] = Counter()
    for row in rows:
        if row["agent"] == "main":
            found[tuple(row[key] for key in by)] += row["input_tokens"]
    return +found


def turns(browser: Browser) -> Counter[tuple[str, str]]:
    """What the page says of the turns of all sessions, by session and prompt."""
    found: Counter[tuple[str, str]] = Counter()
    for row in browser.get("/api/sessions")["sessions"]:
        at = f"/api/sessions/{row['id']}"
        told = browser.get(f"{at}/costs?whole=true")["turns"]
        names = {one["index"]: one["uuid"] for one in browser.get(f"{at}/prompts?whole=true")["prompts"]}
        for turn in told:
            # A compaction starts a turn of its own: it works for the prompt before it.
            prompt = max((index for index in names if index <= turn["from"]), default=None)
            found[row["id"], "(none)" if prompt is None else names[prompt]] += turn["input_tokens"]
    return +found


def compared(case: Case) -> Counter[tuple[str, str]]:
    with Browser(served(case.home, case.data)) as browser:
        found = turns(browser)
    sessions: Counter[tuple[str, ...]] = Counter()
    for (session, _), tokens in found.items():
        sessions[session,] += tokens
    assert sessions == costs(case, "session")
    assert found == costs(case, "session", "prompt")
    return found


@pytest.mark.parametrize("make", MADE)
def test_turns_of_forks_cost_what_cost_says_of_them(make: Callable[[Path], str], tmp_path: Path) -> None:
    home = tmp_path / "home"
    make(home)
    found = compared(Case(home, tmp_path))
    assert sorted(found.values()) == [100, 130, 140, 150]


@pytest.mark.parametrize("make", MADE)
def test_so_they_do_without_an_index(make: Callable[[Path], str], tmp_path: Path) -> None:
    """The logs at hand are asked, by the same rule: those of the session, and those that copies come from."""
    home = tmp_path / "home"
    make(home)
    case = Case(home, tmp_path)
    case.document("list", "--no-index")
    page = served(home, case.data, is_built=False)
    page.page.backend.index.refresh = lambda: None  # type: ignore[method-assign]
    with Browser(page) as browser:
        assert browser.get("/api/me")["index"]["state"] == "none"
        found = turns(browser)
    assert found == costs(case, "session", "prompt")


@pytest.mark.parametrize("make", MADE)
@pytest.mark.parametrize("is_known", [False, True])
def test_so_they_do_where_the_original_is_gone(
    make: Callable[[Path], str], is_known: bool, tmp_path: Path
) -> None:
    """One that the index knew still has its calls. One that was never here has none: of the copies one counts."""
    home = tmp_path / "home"
    first = make(home)
    case = Case(home, tmp_path)
    if is_known:
        case.document("cost")
        sessions = Home(home, data=case.data).sessions()
        case.said("rm", next(one.id for one in sessions if first in (one.id, one.title)), "--apply")
    for path in sorted(home.rglob(f"*{first}*"), reverse=True):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    with Browser(served(home, case.data)) as browser:
        found = turns(browser)
    assert sum(found.values()) == (420 if is_known else 520)
    assert len({session for session, _ in found}) == 3
    told = costs(case, "session", "prompt")
    assert found == Counter({key: told[key] for key in told if key[0] in {one for one, _ in found}})


def test_real_forks_and_reviews_cost_what_cost_says_of_them(transcripts: Path, tmp_path: Path) -> None:
    seen = 0
    for pattern in SAMPLES:
        for home in sorted((transcripts / "dialects" / "samples").glob(pattern)):
            seen += 1
            case = Case(home, tmp_path / str(seen))
            with Browser(served(home, case.data)) as browser:
                one_talk = {
                    row["id"]
                    for row in browser.get("/api/sessions")["sessions"]
                    if len(case.document("show", row["id"], "--tree")["leaves"]) == 1
                }
                found = {key: used for key, used in turns(browser).items() if key[0] in one_talk}
            told = {key: used for key, used in costs(case, "session", "prompt").items() if key[0] in one_talk}
            assert found == told, home
    assert seen
