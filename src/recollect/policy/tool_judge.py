"""Applies the rules to one call, by kind of tool: files, hosts, shell texts, and others.

A judge serves one decision: each file is looked up once (see ``glance``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from recollect.model.files.edit_tools import EDITING_TOOLS
from recollect.policy.bash_judge import BashJudge
from recollect.policy.decision import Verdict
from recollect.policy.findings import BUILT_IN, PolicyFinding, by_nature, by_rule
from recollect.policy.modes import Mode
from recollect.policy.paths.judge import PathJudge
from recollect.policy.rules.documentation_hosts import is_documentation
from recollect.policy.rules.hosts import host_of, hosts_suspected, is_private_host, is_single_label
from recollect.policy.rules.index import RuleIndex
from recollect.policy.tool_names import (
    HARMLESS_TOOLS,
    INTERACTIVE_TOOLS,
    PATH_ARGUMENTS,
    READING_TOOLS,
    SAME_TOOL,
    is_mcp,
)


@dataclass(frozen=True, slots=True)
class ToolJudgement:
    """The parts of a call with their findings, what was not understood, and the files it names."""

    parts: tuple[tuple[str, PolicyFinding], ...]
    unanalysable: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


class ToolJudge:
    """The rules of an engine, for one decision."""

    def __init__(self, indexes: dict[Verdict, RuleIndex], paths: PathJudge, cwd: str, mode: Mode) -> None:
        self._indexes = indexes
        self._paths = paths
        self._cwd = cwd
        self._mode = mode

    def judged(self, tool: str, arguments: Mapping[str, object]) -> ToolJudgement:
        tool = SAME_TOOL.get(tool, tool)
        for verdict in (Verdict.DENY, Verdict.ASK):
            index = self._indexes[verdict]
            rule = index.whole_tool(tool)
            if not rule and (tool, verdict) != (
                "Agent",
                Verdict.ASK,
            ):  # the client asks about all agents or none
                rule = index.parameter(tool, arguments)
            if not rule and tool in EDITING_TOOLS:
                rule = index.whole_tool("Read")  # a file that may not be read may not be written either (R13)
            if rule and verdict is Verdict.DENY:
                return ToolJudgement(((tool, by_rule(rule, "the tool is denied")),))
            if rule:
                inner = self._by_kind(tool, arguments)
                return replace(inner, parts=((tool, by_rule(rule, "the tool is asked about")), *inner.parts))
        return self._by_kind(tool, arguments)

    def _by_kind(self, tool: str, arguments: Mapping[str, object]) -> ToolJudgement:
        if tool == "Bash":
            return self._shell(arguments)
        if tool in READING_TOOLS | EDITING_TOOLS:
            return self._file_tool(tool, arguments)
        if tool == "WebFetch":
            return ToolJudgement((self._fetch(arguments),))
        return ToolJudgement(((tool, self._plain_tool(tool, arguments)),))

    # Kinds of tools

    def _shell(self, arguments: Mapping[str, object]) -> ToolJudgement:
        text = arguments.get("command")
        if not isinstance(text, str):
            return ToolJudgement((("Bash", _malformed("command")),))
        judged = BashJudge(self._indexes, self._paths, self._mode).judge(text)
        return ToolJudgement(judged.parts, judged.unanalysable, judged.files)

    def _file_tool(self, tool: str, arguments: Mapping[str, object]) -> ToolJudgement:
        values = [arguments[name] for name in PATH_ARGUMENTS if arguments.get(name) is not None]
        if not values and tool in ("Grep", "Glob", "LS"):
            values = [self._cwd]
        if not values or not all(isinstance(path, str) and path for path in values):
            return ToolJudgement(((tool, _malformed("path")),))
        paths = [str(path) for path in values] + _searched(tool, arguments)
        parts = tuple((path, self._file(tool, path)) for path in paths)
        return ToolJudgement(parts, files=tuple(self._paths.file(path).written for path in paths))

    def _file(self, tool: str, path: str) -> PolicyFinding:
        editing = tool in EDITING_TOOLS
        file = self._paths.file(path)
        kinds = ("Edit", "Read") if editing else ("Read",)
        for verdict in (Verdict.DENY, Verdict.ASK):
            rule = self._paths.forbids(verdict, file.forms, kinds)
            if not rule and not editing and any(char in path for char in "*?["):
                rule = self._paths.forbids_glob(verdict, path, self._cwd, kinds)
            if rule:
                return by_rule(rule, f"the rule covers {path}")
            if file.special and verdict is Verdict.DENY and tool not in ("Grep", "Glob", "LS"):
                return by_nature(Verdict.DENY, "not a file", f"{path}: {file.special}")
        found = self._write_finding(tool, path) if editing else self._read_finding(tool, path)
        return found or PolicyFinding(self._mode.unspoken(), self._default_reason())

    def _read_finding(self, tool: str, path: str) -> PolicyFinding | None:
        whole = self._indexes[Verdict.ALLOW].whole_tool(tool)
        return (
            by_rule(whole, "the tool is allowed") if whole else self._paths.readable(self._paths.file(path))
        )

    def _write_finding(self, tool: str, path: str) -> PolicyFinding | None:
        file = self._paths.file(path)
        guarded = self._paths.guarded(file)
        if guarded and self._mode is not Mode.BYPASS:
            return guarded
        if self._mode is Mode.PLAN:
            return PolicyFinding(Verdict.ASK, "nothing is changed in plan mode")
        permitted = self._paths.writable(file, edits_run=self._mode.edits_run)
        whole = self._indexes[Verdict.ALLOW].whole_tool(tool)
        if not whole:
            return permitted
        if not permitted and self._mode is not Mode.BYPASS and self._paths.leads_out(file):
            why = f"{path} leads to {file.forms[-1]}"
            return by_nature(Verdict.ASK, "link out of the working directories", why)
        return by_rule(whole, "the tool is allowed")

    def _fetch(self, arguments: Mapping[str, object]) -> tuple[str, PolicyFinding]:
        url = arguments.get("url")
        if not isinstance(url, str):
            return "WebFetch", _malformed("url")
        hosts = hosts_suspected(url)
        for verdict in (Verdict.DENY, Verdict.ASK):
            for _, rule, pattern in self._indexes[verdict].domains:
                if any(map(pattern.matches, hosts)):
                    return url, by_rule(rule, "the host matches")
        return url, self._private(hosts, host_of(url)) or self._host(url, host_of(url))

    def _private(self, hosts: frozenset[str], plain: str | None) -> PolicyFinding | None:
        named = {pattern.named for _, _, pattern in self._indexes[Verdict.ALLOW].domains}
        # In a URL that is not plain every word looks like a single label; such a URL is asked about anyway.
        local = {plain} if plain and is_single_label(plain) else set()
        hidden = [host for host in hosts if (is_private_host(host) or host in local) and host not in named]
        if not hidden:
            return None
        why = f"{hidden[0]} is not a public host, and no rule names it"
        return by_nature(Verdict.DENY, "private address", why)

    def _host(self, url: str, host: str | None) -> PolicyFinding:
        whole = self._indexes[Verdict.ALLOW].whole_tool("WebFetch")
        if host is None:
            return PolicyFinding(
                Verdict.ASK, "the URL can be read in more than one way", BUILT_IN + "odd URL"
            )
        for _, rule, pattern in self._indexes[Verdict.ALLOW].domains:
            if pattern.matches(host):
                return by_rule(rule, "the host matches")
        if whole:
            return by_rule(whole, "the tool is allowed")
        if is_documentation(url):
            return PolicyFinding(Verdict.ALLOW, f"{host} holds documentation")
        return PolicyFinding(self._mode.unspoken(), self._default_reason())

    def _plain_tool(self, tool: str, arguments: Mapping[str, object]) -> PolicyFinding:
        if tool in INTERACTIVE_TOOLS:
            return by_nature(Verdict.DENY, "no person to ask", f"{tool} needs a person at the terminal")
        if self._mode is Mode.PLAN and (is_mcp(tool) or tool == "Agent"):
            return by_nature(Verdict.ASK, "plan mode", f"{tool} is not run in plan mode without asking")
        allow = self._indexes[Verdict.ALLOW]
        rule = allow.whole_tool(tool) or allow.parameter(tool, arguments)
        if rule:
            return by_rule(rule, "the tool is allowed")
        if tool in HARMLESS_TOOLS:
            return PolicyFinding(Verdict.ALLOW, "the tool touches nothing outside the session")
        return PolicyFinding(self._mode.unspoken(), self._default_reason())

    def _default_reason(self) -> str:
        return "nothing is asked in this mode" if self._mode is Mode.BYPASS else "no rule allows it"


def _malformed(name: str) -> PolicyFinding:
    return by_nature(Verdict.DENY, "malformed call", f"the call has no usable {name}")


def _searched(tool: str, arguments: Mapping[str, object]) -> list[str]:
    """Glob's pattern may lead out of the directory in ``path``, or to a denied name."""
    pattern = arguments.get("pattern") if tool == "Glob" else arguments.get("glob")
    if tool not in ("Glob", "Grep") or not isinstance(pattern, str) or not pattern:
        return []
    base = arguments.get("path")
    if pattern.startswith(("/", "~")) or not isinstance(base, str):
        return [pattern]
    return [f"{base.rstrip('/')}/{pattern}"]
