"""What a sub-agent was given of the conversation of who sent it is no prompt of the sub-agent, as for `agents` and `cost --by prompt`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recollect import Home
from recollect.ask.sessions.messages import agents_of
from tests import small_home
from tests.agents.codex_threads import Step, sub_agent, thread
from tests.small_home import lines, prompt, put, reply, said
from tests.surfaces.case import Case
from tests.web.pages import Browser, served

SAMPLES = ("0.98.0/agents_slow", "0.130.0/agents_twins", "0.142.5/agents_nested", "0.166.0/agents_v2")
ONE, TWO, TASK = Step(1, "one", 100), Step(2, "two", 130), Step(4, "the task", 140)


def test_copied_context_of_a_sub_agent_is_neither_a_prompt_nor_a_turn(tmp_path: Path) -> None:
    home = tmp_path / "home"
    parent = thread(home, 0, [ONE, TWO])
    agent = sub_agent(home, 3, [TASK], [ONE, TWO], parent)
    case = Case(home, tmp_path)
    with Browser(served(home, case.data)) as browser:
        at = f"/api/sessions/{parent}"
        shown = browser.get(f"{at}/messages?agent={agent}")
        prompts = browser.get(f"{at}/prompts?agent={agent}")
        costs = browser.get(f"{at}/costs?agent={agent}")
        mapped = browser.get(f"{at}/map?agent={agent}")
    assert [one["text"] for one in prompts["prompts"]] == ["the task"]
    assert [turn["input_tokens"] for turn in costs["turns"]] == [140]
    assert mapped["turns"] == [costs["turns"][0]["from"]]
    copied = [one for one in shown["messages"] if one["is_copied"]]
    assert [one["kind"] for one in copied] == ["other", "answer", "other", "answer"]
    assert shown["total"] == case.document("show", parent, "--sub-agent", agent)["total"] == 6


def test_a_sub_agent_is_asked_on_the_page_what_it_is_asked_elsewhere(
    transcripts: Path, tmp_path: Path
) -> None:
    """No typed prompt of `cost --by prompt`, in whichever session, is one of a sub-agent."""
    for name in SAMPLES:
        home = transcripts / "dialects" / "samples" / "codex" / name / ".codex"
        case = Case(home, tmp_path / name.replace("/", "-"))
        typed = {row["prompt"] for row in case.document("cost", "--by", "prompt")["rows"]}
        with Browser(served(home, case.data)) as browser:
            for session in Home(home, data=case.data).sessions():
                for agent in agents_of(session):
                    found = prompts_of(browser, session.id, agent.id)
                    assert " ".join(agent.prompt.split())[:120] == found[0]["text"], (name, agent.id)
                    assert not typed & {one["uuid"] for one in found}, (name, agent.id)


def prompts_of(browser: Browser, session: str, agent: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = browser.get(f"/api/sessions/{session}/prompts?agent={agent}")["prompts"]
    return found


def test_a_sub_agent_that_was_copied_with_its_session_keeps_its_prompt(tmp_path: Path) -> None:
    home = tmp_path / "claude"
    copied: dict[str, Any] = {"forkedFrom": {"sessionId": small_home.TWO}}
    session, agent = small_home.ONE, {**copied, "isSidechain": True, "agentId": "a1"}
    log = put(home, session, [prompt(1, None, "Q", **copied), reply(2, 1, said("A"), **copied)])
    task = [prompt(3, None, "the task", **agent), reply(4, 3, said("done"), **agent)]
    (log.with_suffix("") / "subagents").mkdir(parents=True)
    (log.with_suffix("") / "subagents" / "agent-a1.jsonl").write_bytes(lines(task))
    with Browser(served(home, tmp_path / "data")) as browser:
        assert [one["text"] for one in prompts_of(browser, session, "a1")] == ["the task"]
