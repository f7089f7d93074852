"""A Claude home with a secret in every place where one can lie, each place its own."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from tests.model.secrets.samples import SAMPLES, Dice, private_key
from tests.small_home import ONE, TWO, call, link, prompt, put, reply, said, uuid_of

AGENT = "a0123456789abcdef"
FLAT_AGENT = "1f2e3d4"


def token(place: str, kind: str = "github-pat") -> str:
    """The secret of one place: another for every place, the same at every call."""
    return SAMPLES[kind].make(Dice(f"secret home {place} {kind}"))


PEM = private_key(Dice("secret home"))


def result_line(number: int, after: int, text: str, more: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": "toolu_1", "content": text}
    return link(number, after, type="user", message={"role": "user", "content": [block]}, toolUseResult=more)


def talk() -> list[dict[str, Any]]:
    """Prompt, thought, call, result with its copy, a patch, metadata."""
    patch = [
        {
            "oldStart": 1,
            "oldLines": 0,
            "newStart": 1,
            "newLines": 9,
            "lines": ["+" + one for one in PEM.splitlines()],
        }
    ]
    thought = {"type": "thinking", "thinking": f"They said {token('thought')}", "signature": "c2lnbmF0dXJl"}
    secret_call = call("toolu_1") | {
        "name": "Bash",
        "input": {"command": f"login {token('input')}", "env": {"API_KEY": token("env", "secret")}},
    }
    printed = f"ok\n{token('result', 'aws-access-key-id')}\n"
    return [
        prompt(1, None, f"Use {token('prompt')} for it"),
        reply(2, 1, thought, answer="msg_a"),
        reply(3, 2, secret_call, answer="msg_a"),
        result_line(4, 3, printed, {"stdout": printed, "stderr": "", "structuredPatch": patch}),
        reply(5, 4, said("Done")),
        {
            "type": "last-prompt",
            "lastPrompt": f"Use {token('prompt')} for it",
            "leafUuid": uuid_of(5),
            "sessionId": ONE,
        },
    ]


def agent_line(session: str, agent: str, text: str) -> dict[str, Any]:
    return {**prompt(1, None, text), "sessionId": session, "agentId": agent, "isSidechain": True}


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def make(home: Path) -> Path:
    """The home; its log is handed back. ``SECRETS`` lists what was put where."""
    log = put(home, ONE, talk())
    put(home, TWO, [prompt(1, None, "Nothing here"), reply(2, 1, said("Indeed"))])
    side = log.with_suffix("")
    nested = agent_line(ONE, AGENT, f"Look at {token('agent')}")
    write(side / "subagents" / f"agent-{AGENT}.jsonl", json.dumps(nested) + "\n")
    write(
        side / "subagents" / f"agent-{AGENT}.meta.json", json.dumps({"description": f"with {token('meta')}"})
    )
    flat = agent_line(ONE, FLAT_AGENT, f"And at {token('flat agent')}")
    write(log.parent / f"agent-{FLAT_AGENT}.jsonl", json.dumps(flat) + "\n")
    write(side / "tool-results" / "toolu_1.txt", f"line one\nline two {token('tool result')}\n")
    write(side / "custom-title.json", json.dumps({"customTitle": f"About {token('title')}"}))
    write(home / "file-history" / ONE / "0123456789abcdef@v1", f"TOKEN={token('backup')}\n")
    write(
        home / "tasks" / ONE / "1.json",
        json.dumps({"id": "1", "subject": f"Rotate {token('task')}"}, indent=2),
    )
    write(home / "todos" / f"{ONE}-agent-{ONE}.json", json.dumps([{"content": f"Hide {token('todo')}"}]))
    pasted = f"pasted\n{token('paste')}\n"
    name = hashlib.sha256(pasted.encode()).hexdigest()[:16]
    write(home / "paste-cache" / f"{name}.txt", pasted)
    history = [
        {
            "display": f"Use {token('prompt')} for it",
            "pastedContents": {},
            "timestamp": 1,
            "project": "/srv/app",
            "sessionId": ONE,
        },
        {
            "display": "[Pasted text #1 +2 lines]",
            "pastedContents": {"1": {"id": 1, "type": "text", "contentHash": name}},
            "timestamp": 2,
            "project": "/srv/app",
            "sessionId": ONE,
        },
        {
            "display": f"Other {token('other prompt')}",
            "pastedContents": {},
            "timestamp": 3,
            "project": "/srv/app",
            "sessionId": TWO,
        },
    ]
    write(home / "history.jsonl", "".join(json.dumps(line) + "\n" for line in history))
    write(home / "settings.json", json.dumps({"env": {"GITHUB_TOKEN": token("settings")}}, indent=2))
    write(home / "plans" / "brave-new-plan.md", f"# Plan\n\nUse {token('plan')}\n")
    write(home / "shell-snapshots" / "snapshot.sh", f"export X={token('shell')}\n")
    write(
        home / "backups" / ".claude.json.backup.1",
        json.dumps({"mcpServers": {"a": {"env": {"K": token("config copy")}}}}),
    )
    write(home / "projects" / "-srv-app" / "memory" / "notes.md", f"remember {token('memory')}\n")
    write(
        home / ".credentials.json",
        json.dumps({"claudeAiOauth": {"accessToken": token("credentials", "anthropic-oauth-token")}}),
    )
    project = home.parent / "work"
    write(project / ".claude" / "settings.local.json", json.dumps({"env": {"K": token("project settings")}}))
    write(
        project / ".mcp.json",
        json.dumps(
            {"mcpServers": {"b": {"headers": {"Authorization": f"Bearer {token('header', 'bearer-token')}"}}}}
        ),
    )
    write(
        home / ".claude.json",
        json.dumps({"primaryApiKey": token("config", "anthropic-api-key"), "projects": {str(project): {}}}),
    )
    return log


# What `redact` takes out of the session, and where it stands.
OF_THE_SESSION = {
    "prompt": "github-pat",
    "thought": "github-pat",
    "input": "github-pat",
    "env": "secret",
    "result": "aws-access-key-id",
    "agent": "github-pat",
    "meta": "github-pat",
    "flat agent": "github-pat",
    "tool result": "github-pat",
    "title": "github-pat",
    "backup": "github-pat",
    "task": "github-pat",
    "todo": "github-pat",
    "paste": "github-pat",
}
ELSEWHERE = {
    "other prompt": "github-pat",
    "settings": "github-pat",
    "plan": "github-pat",
    "shell": "github-pat",
    "config copy": "github-pat",
    "memory": "github-pat",
    "project settings": "github-pat",
    "header": "bearer-token",
    "config": "anthropic-api-key",
}
