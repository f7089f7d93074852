"""Generated logs: the same bytes for the same options, and a truth that the logs themselves and recollect agree with."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

import recollect
from bench.corpora import Corpus
from bench.recollect_corpus import Options, write_corpus
from bench.recollect_corpus.truth import KINDS
from bench.truth import SOURCES, Asked, Checked, check_costs, check_damage, check_searches
from tests.ask.cost.test_report import reference_rows
from tests.made_corpora import SEEDS, Made, MadeAgents, make, make_agents


def test_the_same_options_write_the_same_bytes(tmp_path: Path) -> None:
    """All files of a home; another seed writes others."""
    options = Options(1, forks=0.3, damage=0.3, largest_mb=0.5)
    digests = []
    for number, seed in enumerate((4, 4, 5)):
        home = tmp_path / str(number)
        write_corpus(home, options._replace(seed=seed))
        files = sorted(path for path in home.rglob("*") if path.is_file())
        texts = [(str(path.relative_to(home)), path.read_bytes(), path.stat().st_mtime) for path in files]
        logs = [text for text in texts if text[0].startswith("projects")]
        digests.append((logs, hashlib.sha256(b"".join(data for _, data, _ in texts)).hexdigest()))

    assert digests[0] == digests[1]
    assert digests[0] != digests[2]


@pytest.fixture(scope="module", params=SEEDS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.mktemp("made") / "home", request.param)


def test_its_truth_is_what_the_logs_say(made: Made) -> None:
    """Sums by rules that are written down a second time, and every line that holds a planted word."""
    rows = reference_rows([made.home])
    assert {name: made.truth["total"][name] for name in KINDS} == {
        name: sum(row[name] for row in rows) for name in KINDS
    }
    assert len(rows) == made.truth["responses"]
    for word, facts in made.truth["words"].items():
        places = {
            (str(log.relative_to(made.home)), number)
            for log in made.home.glob("projects/**/*.jsonl")
            for number, line in enumerate(log.read_bytes().split(b"\n"), 1)
            if word.encode() in line and json.loads(line)["type"] != "progress"
        }
        assert places == {(path, line) for path, line in facts["places"]}, word


def test_all_damage_is_found_where_it_is(made: Made, tmp_path: Path) -> None:
    """Broken lines and torn ends, of sessions and of sub-agents, and no others."""
    checked = Checked()
    check_damage(checked, made.truth, Asked(made.home, tmp_path))
    assert [] == checked.differences
    assert made.truth["damage"]["torn"]
    assert made.truth["damage"]["broken"]


@pytest.mark.long
def test_every_figure_of_the_truth_is_what_the_command_says(made: Made, tmp_path: Path) -> None:
    """As in `make bench`: all views of the cost and all planted words, from the index and from the logs."""
    asked, checked = Asked(made.home, tmp_path), Checked()
    asked.json("search", "the", "--rank")  # waits for the index
    for options in SOURCES.values():
        check_costs(checked, made.truth, asked, options)
        check_searches(checked, made.truth, asked, options)
    assert [] == checked.differences
    assert checked.compared > 500


def test_a_corpus_says_what_it_is_made_of(made: Made) -> None:
    """What `make bench --write` puts at the head of its page."""
    about = Corpus("c10_1", made.home, made.truth).about
    assert f"{made.truth['sessions']} sessions ({made.truth['forks']} forks)" in about


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> MadeAgents:
    return make_agents(tmp_path_factory.mktemp("agents"))


@pytest.mark.parametrize("agent", ["codex", "gemini", "qwen", "opencode", "opencode, with its event log"])
def test_homes_of_other_agents_hold_the_same_sessions(agents: MadeAgents, agent: str, tmp_path: Path) -> None:
    """Sessions, calls and tokens to the last; and every word that was typed."""
    home = recollect.Home(agents.homes[agent], data=tmp_path / "data", index=False)
    totals = home.costs().totals
    assert agents.truth == {
        "sessions": len(list(home.sessions())),
        "responses": totals.responses,
        "input_tokens": totals.tokens.input,
        "cache_read_tokens": totals.tokens.cache_read,
        "output_tokens": totals.tokens.output,
    }
    claude = recollect.Home(agents.homes["claude"], data=tmp_path / "claude", index=False)
    assert _typed(home) == _typed(claude)


def _typed(home: recollect.Home) -> list[str]:
    return sorted(
        message.text
        for session in home.sessions()
        for message in session.messages(branches="all")
        if message.role == "user" and message.text and not message.is_meta
    )
