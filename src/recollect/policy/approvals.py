"""The rules that a person's "yes, and don't ask again" stands for (R21).

Each means only what was shown: one command, one path, one host. At most five, or none at all:
a part that no rule can cover makes a saved answer worthless.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from recollect.policy.decision import Decision, Verdict
from recollect.policy.host_rules import host_of
from recollect.policy.path_pattern import escaped
from recollect.policy.tool_names import EDITING_TOOLS, PATH_ARGUMENTS, READING_TOOLS

MOST_RULES = 5


def approval_rules(decision: Decision, tool: str, arguments: Mapping[str, object]) -> tuple[str, ...]:
    """Allow rules which would have let this call through, or none when rules cannot or must not."""
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
    """A command as a pattern that means only itself."""
    return re.sub(r"([\\*])", r"\\\1", text.strip())


def _path_rule(tool: str, arguments: Mapping[str, object]) -> tuple[str, ...]:
    path = next((arguments[name] for name in PATH_ARGUMENTS if arguments.get(name)), None)
    if not isinstance(path, str) or not path.startswith("/"):
        return ()
    return (f"{'Edit' if tool in EDITING_TOOLS else 'Read'}(/{escaped(path)})",)
