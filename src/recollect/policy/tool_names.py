"""The known tools: which read, which edit, and which argument says what they touch.

An unknown name is still a tool, but path, host and command rules do not apply to it.
"""

from __future__ import annotations

import re
from functools import lru_cache

from recollect.model.files.edit_tools import EDITING_TOOLS

READING_TOOLS = frozenset({"Read", "NotebookRead", "Grep", "Glob", "LS"})
HARMLESS_TOOLS = frozenset(
    {
        "Agent",
        "BashOutput",
        "EnterPlanMode",
        "KillBash",
        "KillShell",
        "TaskCreate",
        "TaskGet",
        "TaskList",
        "TaskOutput",
        "TaskStop",
        "TaskUpdate",
        "TodoRead",
        "TodoWrite",
        "ToolSearch",
    }
)
"""They touch nothing outside the session, or only start calls that are decided separately."""

SAME_TOOL = {"Task": "Agent"}
"""The old names of tools; rules and calls under either name are the same."""

INTERACTIVE_TOOLS = frozenset({"AskUserQuestion", "ExitPlanMode"})
"""They need a person at the terminal; a run without one does not have them."""

KNOWN_TOOLS = (
    READING_TOOLS
    | EDITING_TOOLS
    | HARMLESS_TOOLS
    | INTERACTIVE_TOOLS
    | {
        "Bash",
        "PowerShell",
        "WebFetch",
        "WebSearch",
        "Skill",
        "SlashCommand",
        "Task",
        "Monitor",
        "LSP",
    }
)

PATH_ARGUMENTS = ("file_path", "path", "notebook_path")
PRIMARY_ARGUMENTS = frozenset({"command", "url", *PATH_ARGUMENTS})

NAMING_ARGUMENTS = {
    "Agent": ("subagent_type",),
    "Skill": ("skill", "command", "name"),
    "SlashCommand": ("command",),
}
"""Tools whose rules name one thing: ``Agent(Explore)``, ``Skill(commit)``."""


def is_mcp(tool: str) -> bool:
    return tool.startswith("mcp__")


def covers(rule_name: str, tool: str) -> bool:
    """Whether a bare rule of that name covers the tool: by name, by glob, or by MCP server (R17)."""
    if rule_name == tool:
        return True
    if "*" in rule_name:
        return _glob(rule_name).fullmatch(tool) is not None
    return is_mcp(rule_name) and tool.startswith(rule_name + "__")


@lru_cache(maxsize=1024)
def _glob(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
