"""Write the sample home that ships with the package, with our own writer and fixed ids and times.

    python tools/build_sample_home.py [DIRECTORY]

Run twice, it writes the same bytes. The talks are invented. They show what the
commands have to show: tools, parallel calls, thinking, a failed call, a sub-agent,
a title, a tag, a torn line.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from recollect.model.lines import draft
from recollect.model.lines.blocks import Block, CacheCreation, ToolUseBlock, Usage
from recollect.model.lines.draft import Draft, Stamp, claude_line
from recollect.model.lines.ids import derived_id, derived_uuid
from recollect.model.project_key import project_key
from recollect.sample import sample_home

VERSION = "2.1.325"
SHOP, NOTES = "/home/sam/shop", "/home/sam/field notes"
SONNET, OPUS, HAIKU = "claude-sonnet-4-5-20250929", "claude-opus-4-6", "claude-haiku-4-5-20251001"


class Talk:
    """One log in the making: a clock that only runs forward and a chain of ids."""

    def __init__(
        self, name: str, cwd: str, start: str, branch: str = "main", agent: str | None = None
    ) -> None:
        self.session = derived_uuid(name, 0)
        self.cwd, self.branch, self.agent = cwd, branch, agent
        self.name = name
        self.at = dt.datetime.fromisoformat(start)
        self.parent: str | None = None
        self.lines: list[bytes] = []

    def say(self, *drafts: Draft, seconds: float = 4) -> Talk:
        """Append drafts, one after the other."""
        for one in drafts:
            self.at += dt.timedelta(seconds=seconds)
            stamp = Stamp(
                uuid=derived_uuid(f"{self.name}/{self.agent}", len(self.lines) + 1),
                parent_uuid=self.parent,
                session_id=self.session,
                timestamp=self.at,
                cwd=self.cwd,
                version=VERSION,
                git_branch=self.branch,
                is_sidechain=self.agent is not None,
                agent_id=self.agent,
            )
            line = claude_line(one, stamp)
            self.lines.append(line)
            self.parent = json.loads(line).get("uuid", self.parent)
        return self

    def answer(self, blocks: Sequence[Block], model: str, tokens: tuple[int, int, int, int, int]) -> Talk:
        """One response, a line a block, all with the same ids and usage as the client writes them."""
        fresh, out, write_5m, write_1h, read = tokens
        seed = f"{self.name}/{self.agent}/{len(self.lines)}"
        usage = Usage(
            input_tokens=fresh,
            output_tokens=out,
            cache_creation_input_tokens=write_5m + write_1h,
            cache_read_input_tokens=read,
            cache_creation=CacheCreation(write_5m, write_1h),
        )
        calls = any(isinstance(block, ToolUseBlock) for block in blocks)
        return self.say(
            *(
                draft.assistant(
                    [block],
                    model=model,
                    usage=usage,
                    message_id=derived_id("msg_", seed),
                    request_id=derived_id("req_", seed),
                    stop_reason="tool_use" if calls else "end_turn",
                )
                for block in blocks
            ),
            seconds=2,
        )


def shop_talk() -> Talk:
    """Tools, parallel calls and a failure, with a title."""
    talk = Talk("shop-rounding", SHOP, "2026-11-12T09:14:00+00:00", "fix/rounding")
    talk.say(draft.user("The basket total is a cent off for some orders. Can you find out why?"))
    talk.answer(
        [
            draft.thinking("Money as floats, perhaps. Look at the basket and its tests.", "c2lnbmF0dXJl"),
            draft.text("I will look at the basket code and run its tests."),
            draft.tool_use("toolu_basket", "Read", {"file_path": f"{SHOP}/basket.py"}),
            draft.tool_use("toolu_tests", "Bash", {"command": "pytest -q tests/test_basket.py"}),
        ],
        SONNET,
        (1_204, 356, 8_000, 0, 0),
    )
    source = "def total(items):\n    return round(sum(i.price * i.count for i in items), 2)\n"
    talk.say(
        draft.tool_result("toolu_basket", source),
        draft.tool_result("toolu_tests", "E  assert 10.07 == 10.08\n1 failed, 6 passed", is_error=True),
    )
    talk.answer(
        [
            draft.text("Prices are floats; `1.005 * 2` loses half a cent. I will count in integer cents."),
            draft.tool_use(
                "toolu_edit",
                "Edit",
                {
                    "file_path": f"{SHOP}/basket.py",
                    "old_string": source.splitlines()[1],
                    "new_string": "    return sum(i.cents * i.count for i in items)",
                },
            ),
        ],
        SONNET,
        (312, 488, 1_050, 0, 8_000),
    )
    talk.say(draft.tool_result("toolu_edit", f"The file {SHOP}/basket.py has been updated."))
    talk.answer(
        [draft.text("Done: totals are integers of cents, rounded nowhere.")], SONNET, (96, 41, 620, 0, 9_050)
    )
    talk.say(draft.custom_title("Basket totals off by a cent"), draft.tag("money"))
    return talk


def review_talk() -> tuple[Talk, Talk]:
    """A session that sends a sub-agent, and the sub-agent's own log."""
    talk = Talk("shop-review", SHOP, "2026-11-13T16:02:00+00:00")
    agent = Talk("shop-review", SHOP, "2026-11-13T16:02:10+00:00", agent="a1b2c3d4e5f607182")
    task = {
        "description": "Find unsafe SQL",
        "prompt": "List every query built from strings.",
        "subagent_type": "Explore",
    }
    talk.say(draft.user("Review the order module for SQL injection."))
    talk.answer([draft.tool_use("toolu_agent", "Agent", task)], OPUS, (2_400, 120, 0, 12_000, 0))
    agent.say(draft.user(task["prompt"]))
    agent.answer(
        [draft.tool_use("toolu_grep", "Grep", {"pattern": "execute\\(f", "path": SHOP})],
        HAIKU,
        (900, 80, 4_000, 0, 0),
    )
    agent.say(
        draft.tool_result("toolu_grep", 'orders.py:41: cursor.execute(f"select * from orders where id={id}")')
    )
    agent.answer(
        [draft.text("One query is built from a string: orders.py, line 41.")], HAIKU, (60, 25, 0, 0, 4_000)
    )
    talk.at = agent.at
    talk.say(
        draft.tool_result(
            "toolu_agent",
            "One query is built from a string: orders.py, line 41.",
            tool_use_result={"status": "completed", "agentId": agent.agent, "totalToolUseCount": 1},
        )
    )
    talk.answer(
        [draft.text("orders.py:41 puts the id into the SQL text. Use a parameter instead.")],
        OPUS,
        (140, 66, 0, 900, 12_000),
    )
    return talk, agent


def notes_talk() -> Talk:
    """Words beyond ASCII, in a directory with a space, and a last line that a crash cut short."""
    talk = Talk("notes", NOTES, "2026-11-14T07:45:00+00:00", "")
    talk.say(draft.user("Translate the headings to Japanese: Weather, Birds, Tide."))
    talk.answer([draft.text("天気、鳥、潮 🌊")], HAIKU, (420, 18, 0, 0, 0))
    talk.say(draft.user("And to Greek?"))
    talk.answer([draft.text("Καιρός, Πουλιά, Παλίρροια")], HAIKU, (460, 22, 0, 0, 0))
    talk.lines[-1:] = [talk.lines[-1][:-60], talk.lines[-1]]  # torn, healed, written again
    return talk


def files() -> dict[str, bytes]:
    """Every file of the home by its relative path."""
    talks = [shop_talk(), notes_talk()]
    review, agent = review_talk()
    talks.append(review)
    contents = {
        f"projects/{project_key(talk.cwd)}/{talk.session}.jsonl": b"".join(
            line + b"\n" for line in talk.lines
        )
        for talk in talks
    }
    side = f"projects/{project_key(SHOP)}/{review.session}/subagents/agent-{agent.agent}"
    contents[f"{side}.jsonl"] = b"".join(line + b"\n" for line in agent.lines)
    meta = {
        "agentType": "Explore",
        "description": "Find unsafe SQL",
        "toolUseId": "toolu_agent",
        "spawnDepth": 1,
    }
    contents[f"{side}.meta.json"] = json.dumps(meta).encode() + b"\n"
    contents["history.jsonl"] = b"".join(map(history_line, talks))
    return contents


def history_line(talk: Talk) -> bytes:
    """A line of the prompt history for the first prompt of a talk."""
    first = json.loads(talk.lines[0])
    at = dt.datetime.fromisoformat(first["timestamp"])
    fields = {
        "display": first["message"]["content"],
        "pastedContents": {},
        "timestamp": int(at.timestamp() * 1000),
        "project": talk.cwd,
        "sessionId": talk.session,
    }
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def build(root: Path) -> None:
    """Replace what is at ``root`` by the sample home."""
    shutil.rmtree(root, ignore_errors=True)
    for name, content in files().items():
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def digest(root: Path) -> str:
    """One hash over names and contents."""
    total = hashlib.sha256()
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        total.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return total.hexdigest()


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else sample_home()
    build(target)
    print(f"{target}: {digest(target)[:16]}")
