"""Sessions that our agent wrote, with the real client as judge: it resumes them and rewinds their files.

The agent runs against the scripted API beside the project; the client against the short one of this
directory, which only remembers what it was asked.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from recollect.ask.library import Home
from recollect.guard.agent import Agent, AgentResult, SubAgents, ToolRunner, new_session, resumed_session
from recollect.guard.agent.model import ApiClient, ModelResponse, tool_list
from recollect.guard.permissions.engine import permit
from recollect.guard.sandbox import Confinement
from recollect.store.home import ClaudeHome
from tests.guard.agent.workshop import needs_sandbox, scripted_api
from tests.oracle.client_runner import ANSWER, RUN_SECONDS, Client
from tests.oracle.conftest import TORTURE
from tests.oracle.what_is_sent import NEW_PROMPT, Messages, as_blocks, before_the_prompt

pytestmark = [needs_sandbox]


class _StopsAfterTheAnswer(ApiClient):
    """Somebody presses Ctrl-C when the answer is there and its calls are about to be made."""

    def __init__(self, api: ApiClient) -> None:
        super().__init__(api._client)

    def ask(self, request: Mapping[str, Any], cancelled: threading.Event) -> ModelResponse:
        answer = super().ask(request, cancelled)
        cancelled.set()
        return answer


class AgentAtWork:
    """Our agent in the client's directory, writing into the client's home."""

    def __init__(self, client: Client, data: Path, api: ApiClient) -> None:
        self.client, self.data, self.api = client, data, api
        self.home = ClaudeHome(client.config)
        client.config.mkdir(parents=True, exist_ok=True)

    def run(
        self,
        steps: list[dict[str, Any]],
        resume: str | None = None,
        *,
        stopped: bool = False,
        compact_at: int | None = None,
        prompt: str | None = None,
    ) -> AgentResult:
        cwd = self.client.cwd
        session = (
            new_session(self.home, cwd, data=self.data)
            if resume is None
            else resumed_session(self.home, resume, cwd, data=self.data)
        )
        rules = json.dumps({"permissions": {"allow": ["Bash(echo:*)"], "deny": ["Bash(rm:*)"]}})
        made = permit(self.home, cwd, mode="acceptEdits", command_line=rules)
        runner = ToolRunner(session.log, made, home=self.home, confinement=Confinement())
        model = "claude-sonnet-5-5"
        runner.delegate = SubAgents(session, self.api, model=model, first_wait=0.0).run
        agent = Agent(
            session,
            runner,
            _StopsAfterTheAnswer(self.api) if stopped else self.api,
            model=model,
            tools=tool_list(runner.names),
            first_wait=0.0,
            compact_at=compact_at,
        )
        with session.log:
            return agent.run(prompt or f"Go. STUB:{json.dumps(steps)}")

    def session(self, result: AgentResult) -> Any:
        return Home(self.client.config, data=self.data).session(result.session_id)

    def rewind(self, session: str, prompt: str) -> None:
        done = subprocess.run(
            [*self.client._command, "--resume", session, "--rewind-files", prompt],
            cwd=self.client.cwd,
            env={**self.client._environment(), "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
        assert 0 == done.returncode, done.stdout + done.stderr


@pytest.fixture
def at_work(client: Client, tmp_path: Path) -> Iterator[AgentAtWork]:
    import anthropic  # takes a second, in every process that only collects this file

    with scripted_api() as stub:
        address = f"http://127.0.0.1:{stub.port}"
        api = ApiClient(anthropic.Anthropic(api_key="dummy-key", base_url=address, max_retries=0))
        yield AgentAtWork(client, tmp_path / "data", api)
        api.close()


def everything(cwd: Path) -> list[dict[str, Any]]:
    """Parallel calls, refusals, failures, an edit, a retry and a final answer."""
    new = str(cwd / "new.txt")
    todos = [{"content": "Step", "status": "pending", "activeForm": "Doing"}]
    return [
        {
            "thinking": "Look first.",
            "text": "I look.",
            "tools": [
                {"name": "Bash", "input": {"command": "ls; pwd"}},
                {"name": "Read", "input": {"file_path": str(cwd / "old.txt")}},
                {"name": "Bash", "input": {"command": "rm old.txt"}},
            ],
        },
        {
            "tools": [
                {
                    "name": "Edit",
                    "input": {"file_path": str(cwd / "old.txt"), "old_string": "one", "new_string": "1"},
                },
                {"name": "Write", "input": {"file_path": new, "content": "made\n"}},
                {"name": "Bash", "input": {"command": "echo out; echo err >&2; exit 3"}},
                {"name": "TodoWrite", "input": {"todos": todos}},
                {"name": "Nothing", "input": {}},
            ]
        },
        {"error": {"status": 529, "type": "overloaded_error", "message": "Overloaded", "times": 1}},
    ]


def sessions_of(client: Client) -> list[Path]:
    found = client.config.glob("projects/*/*.jsonl")
    return [path for path in found if not path.name.startswith("agent-")]


def said(messages: Messages) -> Messages:
    """Without the reminders that 2.1.197 puts before the first prompt, which it does not write down."""
    return [
        {**one, "content": [block for block in one["content"] if not is_reminder(block)]} for one in messages
    ]


def is_reminder(block: dict[str, Any]) -> bool:
    return str(block.get("text", "")).startswith("<system-reminder>")


def test_the_client_goes_on_with_what_the_agent_wrote(at_work: AgentAtWork) -> None:
    """Every message of the agent's session is sent, as ``to_api`` says, and the file only grows."""
    client = at_work.client
    (client.cwd / "old.txt").write_text("one\ntwo\n")
    result = at_work.run(everything(client.cwd))
    log = at_work.session(result).path
    before, expected = log.read_bytes(), at_work.session(result).conversation().to_api()

    done = client.ask(NEW_PROMPT, "--resume", result.session_id)

    assert (0, ANSWER) == (done.returncode, done.stdout.strip()), done.stderr
    assert as_blocks(expected) == said(before_the_prompt(client.stub.conversations()[-1]))
    assert log.read_bytes().startswith(before)
    assert 6 == len(expected)


def test_the_agent_goes_on_where_the_client_left_off(at_work: AgentAtWork) -> None:
    """Agent, client, agent, client: one session, one file, and the last request holds all of it."""
    client = at_work.client
    first = at_work.run([{"text": "First answer."}])
    done = client.ask("From the client", "--resume", first.session_id)
    assert 0 == done.returncode, done.stderr

    second = at_work.run([{"text": "Third answer."}], resume=first.session_id)
    done = client.ask(NEW_PROMPT, "--resume", second.session_id)

    assert (0, first.session_id) == (done.returncode, second.session_id), done.stderr
    sent = json.dumps(client.stub.conversations()[-1])
    assert [] == [
        text for text in ("First answer.", "From the client", ANSWER, "Third answer.") if text not in sent
    ]
    # 2.0.76 leaves files with nothing but bookkeeping beside it.
    talks = [path.stem for path in sessions_of(client) if b"First answer." in path.read_bytes()]
    assert [first.session_id] == talks


def test_a_session_of_the_client_is_continued_in_a_copy(at_work: AgentAtWork) -> None:
    """The client's own file keeps its bytes; the client resumes the copy with everything in it (law 5)."""
    client = at_work.client
    done = client.ask("From the client")
    assert 0 == done.returncode, done.stderr
    (theirs,) = sessions_of(client)
    bytes_before = theirs.read_bytes()

    result = at_work.run([{"text": "Answer of the agent."}], resume=theirs.stem)
    done = client.ask(NEW_PROMPT, "--resume", result.session_id)

    assert (0, bytes_before) == (done.returncode, theirs.read_bytes()), done.stderr
    sent = json.dumps(client.stub.conversations()[-1])
    assert [] == [text for text in ("From the client", ANSWER, "Answer of the agent.") if text not in sent]


@pytest.mark.parametrize("client", ["2.1.325"], indirect=True)
def test_the_client_rewinds_files_the_agent_changed(at_work: AgentAtWork) -> None:
    """``--rewind-files`` to the agent's prompt: the edited file is as it was, the new one is gone."""
    client = at_work.client
    (client.cwd / "old.txt").write_text("one\ntwo\n")
    result = at_work.run(everything(client.cwd))
    assert "1\ntwo\n" == (client.cwd / "old.txt").read_text()
    prompt = next(
        entry.uuid for entry in at_work.session(result).conversation().entries() if entry.kind == "user"
    )

    at_work.rewind(result.session_id, prompt)

    assert ("one\ntwo\n", False) == ((client.cwd / "old.txt").read_text(), (client.cwd / "new.txt").exists())


@pytest.mark.parametrize("client", ["2.1.325"], indirect=True)
def test_the_client_rewinds_files_a_sub_agent_changed(at_work: AgentAtWork) -> None:
    """What an agent below did belongs to the turn: ``--rewind-files`` takes it back too."""
    client = at_work.client
    made = client.cwd / "made.txt"
    inner = [
        {"tools": [{"name": "Write", "input": {"file_path": str(made), "content": "x"}}]},
        {"text": "Made."},
    ]
    task = {"description": "Make it", "prompt": f"Make it. STUB:{json.dumps(inner)}"}
    result = at_work.run([{"tools": [{"name": "Agent", "input": task}]}, {"text": "Done."}])
    assert made.exists()
    prompt = next(
        entry.uuid for entry in at_work.session(result).conversation().entries() if entry.kind == "user"
    )

    at_work.rewind(result.session_id, prompt)

    assert not made.exists()


def test_the_client_goes_on_after_an_interruption(at_work: AgentAtWork) -> None:
    """The calls that were not made have their results, and the client sends them and the note behind them."""
    client = at_work.client
    tools = [{"name": "Bash", "input": {"command": f"echo {n}"}, "id": f"toolu_{n}"} for n in range(2)]
    result = at_work.run([{"text": "I try.", "tools": tools}], stopped=True)
    expected = at_work.session(result).conversation().to_api()

    done = client.ask(NEW_PROMPT, "--resume", result.session_id)

    assert (0, "interrupted") == (done.returncode, result.ending), done.stderr
    sent = said(before_the_prompt(client.stub.conversations()[-1]))
    assert as_blocks(expected) == sent
    assert "[Request interrupted by user for tool use]" in json.dumps(sent)


def test_the_client_goes_on_after_an_error(at_work: AgentAtWork) -> None:
    """A failed run leaves an error line the client drops, and a prompt it still sends."""
    client = at_work.client
    failed = at_work.run(
        [{"error": {"status": 400, "type": "invalid_request_error", "message": "stub says no"}}]
    )
    assert "error_api" == failed.ending

    done = client.ask(NEW_PROMPT, "--resume", failed.session_id)

    assert 0 == done.returncode, done.stderr
    sent = json.dumps(client.stub.conversations()[-1])
    assert ("Go. STUB" in sent, "API Error" in sent) == (True, False)


def delegated(prompt: str, text: str, **more: Any) -> dict[str, Any]:
    """A call of the Agent tool whose prompt carries the agent's own script."""
    steps = [{"tools": [{"name": "Bash", "input": {"command": "echo inner"}}]}, {"text": text}]
    arguments = {"description": prompt, "prompt": f"{prompt}. STUB:{json.dumps(steps)}", **more}
    return {"name": "Agent", "input": arguments}


@pytest.mark.parametrize("client", ["2.1.325"], indirect=True)
def test_the_client_goes_on_after_agents_and_background_commands(at_work: AgentAtWork) -> None:
    """Planner, executor, an agent and a command in the background: every message is sent as ``to_api`` says."""
    client = at_work.client
    result = at_work.run(
        [
            {"tools": [delegated("Plan it", "The plan.", subagent_type="Plan")]},
            {
                "tools": [
                    delegated("Do it", "Done."),
                    delegated("Later", "Late report.", run_in_background=True),
                    {"name": "Bash", "input": {"command": "echo slow", "run_in_background": True}},
                ]
            },
            {"text": "Waiting."},
            {"text": "Heard one."},
            {"text": "Heard all."},
        ]
    )
    session = at_work.session(result)
    expected = session.conversation().to_api()

    done = client.ask(NEW_PROMPT, "--resume", result.session_id)

    assert (0, "success") == (done.returncode, result.ending), done.stderr
    sent = before_the_prompt(client.stub.conversations()[-1])
    assert as_blocks(expected) == sent
    told = json.dumps(client.stub.conversations()[-1])
    assert [] == [text for text in ("The plan.", "Late report.", "Background command") if text not in told]
    assert 3 == len(session.agents())


@pytest.mark.parametrize("client", ["2.1.325", "2.1.197"] if TORTURE else ["2.1.325"], indirect=True)
@pytest.mark.parametrize("how", ["auto", "manual"])
def test_the_client_goes_on_behind_a_compaction(at_work: AgentAtWork, how: str) -> None:
    """The client sends our summary and what followed it, and nothing from before."""
    client = at_work.client
    steps: list[dict[str, Any]] = [
        {"tools": [{"name": "Bash", "input": {"command": "echo before"}}]},
        {"text": "Behind it."},
    ]
    result = at_work.run(steps, compact_at=1 if how == "auto" else None)
    if how == "manual":
        at_work.run([], resume=result.session_id, prompt="/compact keep the numbers")
        at_work.run([{"text": "Behind it."}], resume=result.session_id)
    expected = at_work.session(result).conversation().to_api()

    done = client.ask(NEW_PROMPT, "--resume", result.session_id)

    assert 0 == done.returncode, done.stderr
    sent = said(before_the_prompt(client.stub.conversations()[-1]))
    assert as_blocks(expected) == sent
    told = json.dumps(sent)
    assert (True, False) == ("stub summary of the talk so far" in told, "echo before" in told)
