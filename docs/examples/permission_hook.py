"""A PreToolUse hook with rules of your own: the client asks it before every tool call.

In settings.json:

    {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "python permission_hook.py"}]}]}}

The client writes the call as JSON to standard input and reads the decision from standard output. Deny holds also for
what cannot be analysed; a failure of any kind denies. ``recollect rules hook`` does this with the client's own settings.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from recollect.guard.library import Decision, Engine, Verdict

ALLOW = ["Bash(git status *)", "Bash(git diff *)", "Read(./**)"]
DENY = ["Bash(git push *)", "Read(//etc/**)", "Read(**/.env)"]


def decided(request: dict[str, Any]) -> Decision:
    """The decision for one call, in the directory it would run in."""
    engine = Engine(allow=ALLOW, deny=DENY, cwd=str(request["cwd"]))
    return engine.decide(str(request["tool_name"]), dict(request["tool_input"]))


def reason(decision: Decision) -> str:
    """Why, with the rule that decided, where one did."""
    if decision.rule is None:
        return decision.why
    return f"{decision.why} (rule {decision.rule}, {decision.source})"


def answer(verdict: Verdict, why: str) -> str:
    """In the words the client reads."""
    said = {
        "hookEventName": "PreToolUse",
        "permissionDecision": verdict.value,
        "permissionDecisionReason": why,
    }
    return json.dumps({"hookSpecificOutput": said})


def main() -> int:
    """One call in, one decision out."""
    try:
        decision = decided(json.load(sys.stdin))
    except Exception as problem:  # noqa: BLE001 - a hook that fails must hold the call back
        print(answer(Verdict.DENY, f"not judged: {type(problem).__name__}: {problem}"))
        return 0
    print(answer(decision.verdict, reason(decision)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
