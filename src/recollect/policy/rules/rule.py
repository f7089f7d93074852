"""Parses one rule of a settings file: ``Tool`` or ``Tool(specifier)``.

A line that the client would skip becomes a :class:`RuleProblem`, never a rule with another meaning. A
deny or ask that can be read in two ways means both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from recollect.model.files.edit_tools import EDITING_TOOLS
from recollect.policy.decision import RuleSource, Verdict
from recollect.policy.paths.pattern import PathPattern, path_pattern
from recollect.policy.rules.command_pattern import CommandPattern
from recollect.policy.rules.hosts import DomainPattern, canonical_host
from recollect.policy.tool_names import (
    NAMING_ARGUMENTS,
    PRIMARY_ARGUMENTS,
    READING_TOOLS,
    SAME_TOOL,
    is_mcp,
)

_FORM = re.compile(r"([^\s()]+)(?:\((.*)\))?", re.DOTALL)
_PARAMETER = re.compile(r"\s*([A-Za-z_][\w-]*)\s*:\s*(.*?)\s*", re.DOTALL)
_MCP_TOOL_GLOB = re.compile(r"mcp__[^*]+?__[^*]*\*.*")

SKIPPED = "the client skips this rule"


@dataclass(frozen=True)
class ParameterPattern:
    """``Tool(name:value)``: one scalar argument, exact or with stars, compared as written (R3)."""

    names: tuple[str, ...]
    value: str

    def matches(self, arguments: Mapping[str, object]) -> bool:
        """Whether one of the named arguments is a plain value that the pattern covers."""
        values = (_literal(arguments[name]) for name in self.names if name in arguments)
        return any(value is not None and self._pattern.fullmatch(value) for value in values)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(".*".join(map(re.escape, self.value.split("*"))), re.DOTALL)


def _literal(value: object) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > 4096:
        return None
    return str(value) if isinstance(value, str | int | float) else None


Specifier = CommandPattern | PathPattern | DomainPattern | ParameterPattern


@dataclass(frozen=True)
class Rule:
    """A rule in force. Without a specifier it covers every use of the tool (R2)."""

    text: str
    verdict: Verdict
    source: RuleSource
    tool: str
    specifiers: tuple[Specifier, ...] = ()
    """More than one only in deny and ask: each is a reading of the same text."""


@dataclass(frozen=True, slots=True)
class RuleProblem:
    """A line that is not a valid rule, why, and what the client does about it."""

    text: str
    verdict: Verdict
    source: RuleSource
    why: str
    consequence: str = SKIPPED


def parse_rule(text: str, verdict: Verdict, source: RuleSource) -> Rule | RuleProblem:
    """The rule for this text in the allow, ask or deny list of that source."""
    if not isinstance(text, str):
        return RuleProblem(repr(text), verdict, source, "a rule is a text")
    # Blanks at the ends stop an allow from matching anything; a deny or ask is read without them.
    form = _FORM.fullmatch(text if verdict is Verdict.ALLOW else text.strip())
    if not form:
        return RuleProblem(text, verdict, source, "it does not have the form Tool or Tool(specifier)")
    tool, inner = SAME_TOOL.get(form.group(1), form.group(1)), form.group(2)
    why = _bad_name(tool, verdict)
    if why:
        return RuleProblem(text, verdict, source, why)
    if inner is None or inner.strip() == "*":
        return Rule(text, verdict, source, tool)
    if not inner.strip():
        if verdict is Verdict.ALLOW:
            return RuleProblem(text, verdict, source, "the brackets are empty")
        return Rule(text, verdict, source, tool)
    found = _specifiers(tool, inner, verdict)
    if isinstance(found, str):
        return RuleProblem(text, verdict, source, found)
    return Rule(text, verdict, source, tool, found)


def _bad_name(tool: str, verdict: Verdict) -> str | None:
    if "*" in tool and verdict is Verdict.ALLOW and not _MCP_TOOL_GLOB.fullmatch(tool):
        return "an allow rule may use * in a tool's name only after mcp__server__"
    if is_mcp(tool) and tool.strip("_") == "mcp":
        return "it names no MCP server"
    return None


def _specifiers(tool: str, inner: str, verdict: Verdict) -> tuple[Specifier, ...] | str:
    readings: list[Specifier] = []
    main = _main_reading(tool, inner, verdict)
    if main is not None and not isinstance(main, str):
        readings.append(main)
    parameter = _PARAMETER.fullmatch(inner)
    is_prefix = isinstance(main, CommandPattern) and inner.rstrip().endswith(":*")
    if parameter and not isinstance(main, DomainPattern) and not is_prefix:
        name, value = parameter.groups()
        if name in PRIMARY_ARGUMENTS:
            return f"{name} is the tool's main argument, which its own rules cover; it cannot be named as a parameter"
        if verdict is not Verdict.ALLOW:
            readings.append(ParameterPattern((name,), value))
        elif not readings:
            return "a parameter can be named only in deny and ask"
    if readings:
        return tuple(readings)
    return main if isinstance(main, str) else f"{tool} has no rules of this form, so it would never match"


def _main_reading(tool: str, inner: str, verdict: Verdict) -> Specifier | str | None:
    """The reading specific to the tool, an error message, or None when the tool has none."""
    if tool == "Bash":
        blanks = verdict is Verdict.ALLOW and inner != inner.strip()
        return "blanks at the ends of the pattern never match" if blanks else CommandPattern(inner)
    if tool in ("Read", "Edit"):
        return path_pattern(inner)
    if tool in READING_TOOLS | EDITING_TOOLS:
        covering = "Edit" if tool in EDITING_TOOLS else "Read"
        return f"{tool}(path) never matches; write {covering}({inner})"
    if tool == "WebFetch":
        return _domain(inner)
    name = inner.strip().removesuffix(":*")
    if tool in NAMING_ARGUMENTS and not _PARAMETER.fullmatch(name):
        return ParameterPattern(NAMING_ARGUMENTS[tool], name)
    return None


def _domain(inner: str) -> DomainPattern | str | None:
    key, colon, host = inner.partition(":")
    if key.strip() != "domain" or not colon:
        return None if colon and re.fullmatch(r"\s*[A-Za-z_]\w*\s*", key) else "write WebFetch(domain:HOST)"
    host = host.strip()
    if not host or (canonical_host(host.replace("*", "x")) is None):
        return "it names no host"
    return DomainPattern(host)
