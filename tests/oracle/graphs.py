"""Random conversations with one thing wrong at a time, for a comparison with the real client.

Each is a plain talk with tools, parallel calls, notes and branches, plus at most one
kind of trouble: an orphan, a circle, a repeated id, a second root, a mark, an explicit mark.
(Several kinds of trouble at once, say a repeated id inside a circle, are decided by accidents
of the client's code that we do not follow.)
"""

from __future__ import annotations

import random
from typing import Any

from tests.talk import Fields, assistant, call, link, mark, result, user

TROUBLE = ("none", "branches", "orphan", "circle", "repeat", "root", "mark", "explicit")


class _Talk:
    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.lines: list[Fields] = []
        self.ends: list[str] = []
        self.at = 0.0
        self.calls = 0

    def chance(self, percent: int) -> bool:
        return self.dice.randrange(100) < percent

    def next_id(self) -> str:
        self.at += self.dice.choice([1, 1, 2, 3])
        return f"n{len(self.lines)}"

    def add(self, line: Fields) -> str:
        self.lines.append(line)
        return str(line["uuid"])

    def say(self, parent: str | None) -> str:
        """One turn of the user and the model's answer to it; returns where the talk goes on."""
        name = self.next_id()
        content: Any = f"Q{name}" if self.chance(70) else [{"type": "text", "text": f"Q{name}"}]
        end = self.add(user(name, parent, self.at, content))
        if self.chance(15):
            end = self.add(
                link(self.next_id(), end, self.at, type="progress", data={"type": "hook_progress"})
            )
        if self.chance(85):
            end = self.answer(end)
        if self.chance(15):
            kind = self.dice.choice(["informational", "turn_duration"])
            end = self.add(link(self.next_id(), end, self.at, type="system", subtype=kind, content="note"))
        return end

    def answer(self, parent: str) -> str:
        message = f"m{len(self.lines)}"
        end = parent
        if self.chance(25):
            thought = [{"type": "thinking", "thinking": "hm", "signature": "s"}]
            end = self.add(assistant(self.next_id(), end, self.at, thought, message))
        if self.chance(60):
            end = self.add(assistant(self.next_id(), end, self.at, f"A{message}", message))
        if not self.chance(45):
            return self.add(assistant(self.next_id(), end, self.at, "done", message))
        return self.use_tools(end, message)

    def use_tools(self, parent: str, message: str) -> str:
        """One to three parallel calls; the results hang off the last call, or each off its own."""
        fan_out = self.chance(60)
        asked: list[tuple[str, str]] = []
        end = parent
        for _ in range(self.dice.randint(1, 3)):
            self.calls += 1
            end = self.add(assistant(self.next_id(), end, self.at, [call(f"t{self.calls}")], message))
            asked.append((f"t{self.calls}", end))
        for name, line in asked:
            failed = {"is_error": True} if self.chance(20) else {}
            block = result(name, f"R{name}", **failed)
            end = self.add(user(self.next_id(), line if fan_out else end, self.at, [block]))
        return self.add(assistant(self.next_id(), end, self.at, "after tools")) if self.chance(80) else end


def conversation(dice: random.Random, trouble: str) -> list[Fields]:
    """The lines of one log with this kind of trouble."""
    talk = _Talk(dice)
    end: str | None = None
    stops: list[str] = []
    for turn in range(dice.randint(2, 4)):
        if trouble == "root" and turn == 2:
            end = None
        if trouble != "none" and stops and talk.chance(35):
            end = dice.choice(stops)  # the user went back and asked something else
        end = talk.say(end)
        stops.append(end)
    return _with_trouble(dice, talk, trouble, stops)


def _with_trouble(dice: random.Random, talk: _Talk, trouble: str, stops: list[str]) -> list[Fields]:
    lines = talk.lines
    prompts = [line for line in lines if line["type"] == "user" and "tool_result" not in str(line["message"])]
    if trouble == "orphan" and len(prompts) > 1:
        dice.choice(prompts[1:])["parentUuid"] = "lost"
    elif trouble == "circle":
        lines[0]["parentUuid"] = stops[-1]
    elif trouble == "repeat":
        lines.append(dict(dice.choice(prompts)))
    elif trouble in ("mark", "explicit"):
        named = dice.choice([*stops, str(prompts[0]["uuid"])])
        lines.append(mark(named, **({"explicit": True} if trouble == "explicit" else {})))
        if talk.chance(40):
            talk.say(dice.choice(stops))
    return lines
