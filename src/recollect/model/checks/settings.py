"""Settings files that a client would ignore as a whole.

Client 2.1.325 drops a settings file with a single wrongly typed key, and its deny rules with it (a malformed
rule alone is only skipped). ``model.settings`` finds what is wrong.
"""

from __future__ import annotations

from recollect.model.checks import RuleViolation
from recollect.model.settings.settings import SettingsProblem, layer_of


def settings_fault(data: bytes) -> RuleViolation | None:
    """Why the client would ignore this settings file; None where it reads it."""
    wrong = [problem for problem in layer_of("user", None, data).problems if problem.whole_file]
    return _ignored(wrong[0], data) if wrong else None


def _ignored(problem: SettingsProblem, data: bytes) -> RuleViolation:
    denied = " Its deny rules do not count either." if b'"deny"' in data else ""
    what = f"{why(problem)} (line {problem.line}); the client ignores the whole file.{denied}"
    return RuleViolation("ignored-settings", what, line=problem.line)


def why(problem: SettingsProblem) -> str:
    """What is wrong, briefly and without any value from the file."""
    if problem.key:
        return f"{problem.key} is not {problem.expected}"
    return f"it is not JSON: {problem.found}" if problem.expected == "JSON" else "it is not an object"
