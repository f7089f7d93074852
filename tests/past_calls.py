"""Sessions full of tool calls, for tests of permission history."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

from tests.permission_home import Place

NOW = dt.datetime.now(dt.UTC)


def session(place: Place, name: str, calls: list[tuple[str, dict[str, Any]]], **more: Any) -> None:
    """One log with those calls, answered; ``refused`` holds positions that somebody said no to."""
    cwd, days_ago = str(more.get("cwd", place.project)), more.get("days_ago", 1)
    at = (NOW - dt.timedelta(days=days_ago)).isoformat().replace("+00:00", "Z")
    lines = []
    for number, (tool, arguments) in enumerate(calls):
        key = more.get("prefix", name) + f"-{number}"
        block = {"type": "tool_use", "id": key, "name": tool, "input": arguments}
        head = {"sessionId": name, "cwd": cwd, "timestamp": at}
        lines.append({**head, "type": "assistant", "message": {"role": "assistant", "content": [block]}})
        refused = number in more.get("refused", ())
        answer = {
            "type": "tool_result",
            "tool_use_id": key,
            "content": "The user doesn't want to proceed with this tool use." if refused else "done",
            "is_error": refused,
        }
        lines.append({**head, "type": "user", "message": {"role": "user", "content": [answer]}})
    log = place.home.projects_dir / "-x" / f"{name}.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))


def bash(*commands: str) -> list[tuple[str, dict[str, Any]]]:
    return [("Bash", {"command": command}) for command in commands]
