"""Sessions of OpenCode in files, and forks of them: a fork copies messages with their times and gives them new ids."""

from __future__ import annotations

import json
from pathlib import Path

from tests.agents.codex_threads import Step, millisecond


def session(home: Path, second: int, own: list[Step], copied: list[Step] | None = None) -> str:
    """A session that begins then, with a copy of some turns of another one; gives the client's id of it."""
    name = f"ses_{second:02}"
    about = {"id": name, "directory": "/w", "title": name, "version": "1.1.34", "time": _time(second)}
    _write(home / "storage" / "session" / "p" / f"{name}.json", about)
    steps = [*((one, second) for one in copied or []), *((one, one.second) for one in own)]
    for number, (step, written) in enumerate(steps):
        _turn(home, name, number, step, written)
    return name


def _turn(home: Path, session: str, number: int, step: Step, written: int) -> None:
    """One turn, whose records were written in a second that may be later than what they tell of."""
    tokens = {"input": step.used, "output": 1, "reasoning": 0, "cache": {"read": 0, "write": 0}}
    answered = {
        "modelID": "gpt-5",
        "providerID": "openai",
        "path": {"cwd": "/w"},
        "tokens": tokens,
        "cost": 0,
    }
    told: dict[str, object] = {"type": "step-finish", "tokens": tokens, "cost": 0}
    for place, (role, about, text) in enumerate(
        (("user", {}, step.words), ("assistant", answered, f"{step.words}!"))
    ):
        made = _id(written, 2 * number + place)
        message = f"msg_{made}{session}"
        fields = {"id": message, "sessionID": session, "role": role, "time": _time(step.second, place)}
        _write(home / "storage" / "message" / session / f"{message}.json", fields | about)
        bodies: list[dict[str, object]] = [{"type": "text", "text": text}, *([told] if about else [])]
        for count, body in enumerate(bodies):
            part = {"id": f"prt_{made}{count}", "sessionID": session, "messageID": message, **body}
            _write(home / "storage" / "part" / message / f"{part['id']}.json", part)


def _id(second: int, number: int) -> str:
    return f"{(millisecond(second) << 12) % (1 << 48) + number:012x}"


def _time(second: int, later: int = 0) -> dict[str, int]:
    return {"created": millisecond(second) + later}


def _write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
