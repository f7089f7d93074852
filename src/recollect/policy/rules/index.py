"""The rules of one verdict, indexed so that a call is compared only with those that could match.

Whole-tool rules are found by name, command rules by the program they name. Of several matches the first
written one is reported.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from recollect.policy.paths.pattern import PathPattern
from recollect.policy.paths.tails import PathRule, PathTails
from recollect.policy.rules.command_pattern import CommandPattern
from recollect.policy.rules.hosts import DomainPattern
from recollect.policy.rules.rule import ParameterPattern, Rule
from recollect.policy.tool_names import covers, is_mcp

CommandRule = tuple[int, Rule, CommandPattern]


class RuleIndex:
    """All deny rules, or all ask rules, or all allow rules."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._whole: dict[str, tuple[int, Rule]] = {}
        self._whole_globs: list[tuple[int, Rule]] = []
        self._parameters: list[tuple[int, Rule, ParameterPattern]] = []
        self._programs: dict[str, list[CommandRule]] = defaultdict(list)
        self._loose: list[CommandRule] = []
        self.paths: dict[str, list[PathRule]] = {"Read": [], "Edit": []}
        self.domains: list[tuple[int, Rule, DomainPattern]] = []
        self._tails: dict[str, PathTails] = {}
        self.any_command = False
        for order, rule in enumerate(rules):
            self._add(order, rule)

    def _add(self, order: int, rule: Rule) -> None:
        if not rule.specifiers:
            if "*" in rule.tool:
                self._whole_globs.append((order, rule))
            else:
                self._whole.setdefault(rule.tool, (order, rule))
        for specifier in rule.specifiers:
            if isinstance(specifier, CommandPattern):
                self.any_command = True
                program = specifier.first_word
                home = self._loose if program is None else self._programs[program.rsplit("/", 1)[-1]]
                home.append((order, rule, specifier))
            elif isinstance(specifier, PathPattern):
                self.paths[rule.tool].append((order, rule, specifier))
            elif isinstance(specifier, DomainPattern):
                self.domains.append((order, rule, specifier))
            else:
                self._parameters.append((order, rule, specifier))

    def whole_tool(self, tool: str) -> Rule | None:
        """The first rule that covers every use of the tool."""
        names = [tool, *_servers(tool)]
        found = [self._whole[name] for name in names if name in self._whole]
        found += [(order, rule) for order, rule in self._whole_globs if covers(rule.tool, tool)]
        return min(found, key=_order)[1] if found else None

    def parameter(self, tool: str, arguments: Mapping[str, object]) -> Rule | None:
        """The first rule that matches an argument of this call."""
        for _, rule, pattern in self._parameters:
            if covers(rule.tool, tool) and pattern.matches(arguments):
                return rule
        return None

    def tails(self, kind: str) -> PathTails:
        """The path rules of one kind, indexed by the end of their patterns at first use."""
        found = self._tails.get(kind)
        if found is None:
            found = self._tails[kind] = PathTails(self.paths[kind])
        return found

    def for_programs(self, programs: Iterable[str]) -> Iterator[CommandRule]:
        """Command rules that name one of the programs, and those that could match any."""
        for program in programs:
            yield from self._programs.get(program, ())
        yield from self._loose


def _servers(tool: str) -> list[str]:
    """``mcp__a__b__c`` may belong to server ``a`` or to ``a__b``; a rule may name either."""
    if not is_mcp(tool):
        return []
    parts = tool.split("__")
    return ["__".join(parts[:end]) for end in range(2, len(parts))]


def _order(entry: tuple[int, Rule]) -> int:
    return entry[0]
