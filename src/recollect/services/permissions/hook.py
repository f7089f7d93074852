"""Answer the client's PreToolUse hook: one call in, one decision out.

Every failure is a deny: input that is not JSON, settings that cannot be loaded, an error of our own. The mode
is the one the client reports; its argument cannot disable anything (E07).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from recollect.policy.decision import Decision, Verdict
from recollect.policy.engine import RuleSet
from recollect.services.permissions.engine import permit, rules_from
from recollect.storage.home import ClaudeHome

EVENT = "PreToolUse"
_LONGEST = 2_000


def answered(
    home: ClaudeHome, request: bytes, *, rules: Path | None = None, managed: Path | None = None
) -> dict[str, Any]:
    """The output for one request of the client."""
    try:
        return _answered(home, request, rules, managed)
    except Exception as problem:  # noqa: BLE001 - a hook that fails must hold the call back, whatever failed
        return answer(
            Verdict.DENY, f"recollect could not judge this call: {type(problem).__name__}: {problem}"
        )


def _answered(home: ClaudeHome, request: bytes, rules: Path | None, managed: Path | None) -> dict[str, Any]:
    found = json.loads(request)
    if not isinstance(found, dict):
        return answer(Verdict.DENY, "recollect: the hook's input is not an object")
    if found.get("hook_event_name", EVENT) != EVENT:
        return answer(Verdict.DENY, f"recollect: this hook is for {EVENT} only")
    tool, arguments, cwd = found.get("tool_name"), found.get("tool_input"), found.get("cwd")
    if not isinstance(tool, str) or not isinstance(arguments, dict) or not isinstance(cwd, str) or not cwd:
        return answer(Verdict.DENY, "recollect: tool_name, tool_input or cwd is missing")
    mode = found.get("permission_mode")
    chosen: RuleSet | None = rules_from(rules) if rules is not None else None
    here = permit(home, cwd, mode=mode if isinstance(mode, str) else None, managed=managed, rules=chosen)
    decision = here.decide(tool, arguments)
    return answer(decision.verdict, reason(decision))


def reason(decision: Decision) -> str:
    """The reason, with the rule and its location, for the person who is asked."""
    words = decision.why
    if decision.rule is not None:
        source = decision.source
        place = f", {source.path}:{source.line}" if source is not None and source.path else ""
        words = f"{words} (rule {decision.rule}{place})"
    if decision.unanalysable:
        words = f"{words}; not analysed: {', '.join(decision.unanalysable[:3])}"
    return words


def answer(verdict: Verdict, why: str) -> dict[str, Any]:
    """A decision in the client's format."""
    return {
        "hookSpecificOutput": {
            "hookEventName": EVENT,
            "permissionDecision": verdict.value,
            "permissionDecisionReason": why[:_LONGEST],
        }
    }
