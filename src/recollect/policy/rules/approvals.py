"""The allow rules to save when a person answers "yes, and don't ask again" (R21).

Each rule covers one command, path or host that the person was shown. There are at most five. If any
part of the call cannot be covered by a rule, there are none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from recollect.model.files.edit_tools import EDITING_TOOLS
from recollect.policy.decision import Decision, Verdict
from recollect.policy.paths.pattern import escaped
from recollect.policy.rules.hosts import host_of
from recollect.policy.tool_names import PATH_ARGUMENTS, READING_TOOLS

MOST_RULES = 5


def approval_rules(decision: Decision, tool: str, arguments: Mapping[str, object]) -> tuple[str, ...]:
    """The allow rules that would have permitted this call; empty when rules cannot or must not."""
    held = [part for part in decision.parts if part.verdict is not Verdict.ALLOW]
    if decision.verdict is not Verdict.ASK or decision.unanalysable or any(part.rule for part in held):
        return ()
    if tool == "Bash":
        texts = dict.fromkeys(part.text for part in held)
        return tuple(f"Bash({exact_command(text)})" for text in texts) if len(texts) <= MOST_RULES else ()
    if tool in READING_TOOLS | EDITING_TOOLS:
        return _path_rule(tool, arguments)
    if tool == "WebFetch":
        host = host_of(str(arguments.get("url")))
        return (f"WebFetch(domain:{host})",) if host else ()
    return (tool,)


def exact_command(text: str) -> str:
    """The command as a pattern that matches only itself."""
    return re.sub(r"([\\*])", r"\\\1", text.strip())


def _path_rule(tool: str, arguments: Mapping[str, object]) -> tuple[str, ...]:
    path = next((arguments[name] for name in PATH_ARGUMENTS if arguments.get(name)), None)
    if not isinstance(path, str) or not path.startswith("/"):
        return ()
    return (f"{'Edit' if tool in EDITING_TOOLS else 'Read'}(/{escaped(path)})",)
