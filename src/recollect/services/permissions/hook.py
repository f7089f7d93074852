"""Answer the client's PreToolUse hook: one call in, one decision out.

The answer can only narrow: it is deny or ask, and where the rules allow the call there is no answer, so that the
client decides by its own rules (R19). Only with ``may_allow`` does a call that an allow rule covers run without the
client's own question. Every failure is a deny: input that is not JSON, settings that cannot be loaded, an error of
our own. The mode is the one the client reports; its argument cannot disable anything (E07).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from recollect.policy.decision import Decision, Verdict
from recollect.policy.engine import RuleSet
from recollect.policy.tool_names import INTERACTIVE_TOOLS
from recollect.services.permissions.engine import permit, rules_from
from recollect.storage.home import ClaudeHome

EVENT = "PreToolUse"
_LONGEST = 2_000


def answered(
    home: ClaudeHome,
    request: bytes,
    *,
    rules: Path | None = None,
    managed: Path | None = None,
    may_allow: bool = False,
) -> dict[str, Any]:
    """The output for one request of the client; empty where the client decides."""
    try:
        decision = _decided(home, request, rules, managed)
        if decision is None or (decision.verdict is Verdict.ALLOW and not (may_allow and decision.rule)):
            return {}
        return answer(decision.verdict, reason(decision))
    except _BadRequest as problem:
        return answer(Verdict.DENY, f"recollect: {problem}")
    except Exception as problem:  # noqa: BLE001 - a hook that fails must hold the call back, whatever failed
        return answer(
            Verdict.DENY, f"recollect could not judge this call: {type(problem).__name__}: {problem}"
        )


class _BadRequest(ValueError):
    """The request is not one that the client makes."""


def _decided(home: ClaudeHome, request: bytes, rules: Path | None, managed: Path | None) -> Decision | None:
    """The engine's decision; None for a tool that is itself a question to the person."""
    found = json.loads(request)
    if not isinstance(found, dict):
        raise _BadRequest("the hook's input is not an object")
    if found.get("hook_event_name", EVENT) != EVENT:
        raise _BadRequest(f"this hook is for {EVENT} only")
    tool, arguments, cwd = found.get("tool_name"), found.get("tool_input"), found.get("cwd")
    if not isinstance(tool, str) or not isinstance(arguments, dict) or not isinstance(cwd, str) or not cwd:
        raise _BadRequest("tool_name, tool_input or cwd is missing")
    if tool in INTERACTIVE_TOOLS:
        return None
    mode = found.get("permission_mode")
    chosen: RuleSet | None = rules_from(rules) if rules is not None else None
    here = permit(home, cwd, mode=mode if isinstance(mode, str) else None, managed=managed, rules=chosen)
    return here.decide(tool, arguments)


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
