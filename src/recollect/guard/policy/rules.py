"""Rules of a settings file: parsed, indexed, the findings that they give, and those that may surprise their author.

A line that the client would skip becomes a :class:`RuleProblem`, never a rule with another meaning. A deny or ask that
can be read in two ways means both. A warning changes nothing: the rule stays in force as far as it can.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from msgspec import UNSET, Struct, UnsetType, structs

from recollect.guard.policy.command_lines import HOW_IT_RUNS, CommandPattern, in_order
from recollect.guard.policy.hosts import DomainPattern, canonical_host, host_of
from recollect.guard.policy.paths import Anchor, PathPattern, escaped, parts_meet, path_pattern
from recollect.guard.policy.terms import (
    KNOWN_TOOLS,
    NAMING_ARGUMENTS,
    PATH_ARGUMENTS,
    PRIMARY_ARGUMENTS,
    READING_TOOLS,
    SAME_TOOL,
    Mode,
    covers,
    fits_stars,
    is_mcp,
)
from recollect.model.files.reports import EDITING_TOOLS
from recollect.model.settings.decision import Decision, DecisionPart, RuleSource, Verdict

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
        return any(value is not None and fits_stars(self.value.split("*"), value) for value in values)


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

    def note(self, why: str, *, kind: str | UnsetType = UNSET, matched: bool | UnsetType = UNSET) -> RuleNote:
        return RuleNote(self.text, self.verdict, self.source, why, kind, matched)


class RuleNote(Struct, frozen=True, rename={"verdict": "list"}):
    """What there is to say about one rule: whether it matches a call, or does something other than it seems to."""

    rule: str
    verdict: Verdict
    source: RuleSource
    why: str
    kind: str | UnsetType = UNSET
    matched: bool | UnsetType = UNSET

    def __str__(self) -> str:
        return f"{self.verdict.value} {self.rule}: {self.why}"


class RuleProblem(RuleNote, frozen=True):
    """A line that is not a valid rule, why, and what the client does about it."""

    consequence: str = SKIPPED

    def __str__(self) -> str:
        return f"{super().__str__()}; {self.consequence}"


def parse_rule(text: str, verdict: Verdict, source: RuleSource) -> Rule | RuleProblem:
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
    if inner is not None and not inner.strip() and verdict is Verdict.ALLOW:
        return RuleProblem(text, verdict, source, "the brackets are empty")
    if inner is None or inner.strip() in ("", "*"):
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


PathRule = tuple[int, Rule, PathPattern]


class PathTails:
    """Path rules by their last component, which every matching path must contain (T6)."""

    def __init__(self, rules: Sequence[PathRule]) -> None:
        self._rules = rules
        self._named: dict[str, list[PathRule]] = defaultdict(list)
        self._wild: list[PathRule] = []
        for entry in rules:
            tail = entry[2].tail
            (self._wild if tail is None else self._named[tail]).append(entry)
        parts = {entry[2].tail_expression for entry in self._wild}
        self._some_wild = re.compile("|".join(f"(?:{part})" for part in sorted(parts)), re.DOTALL)

    def meeting(self, components: Iterable[str]) -> list[PathRule]:
        """The rules whose last component shares a name with a component of a glob, in order."""
        parts = set(components)
        return [
            entry
            for entry in self._rules
            if "**" in entry[2].last or any(parts_meet(entry[2].last, part) for part in parts)
        ]

    def about(self, components: set[str]) -> list[PathRule]:
        """The rules that could match a path of these components, in order."""
        found = [entry for part in components for entry in self._named.get(part, ())]
        if self._wild and any(map(self._some_wild.fullmatch, components)):
            found += self._wild
        return sorted(found, key=itemgetter(0))


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
        self.any_command = False
        for order, rule in enumerate(rules):
            self._add(order, rule)
        self.tails = {kind: PathTails(found) for kind, found in self.paths.items()}

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
        names = [tool, *_servers(tool)]
        found = [self._whole[name] for name in names if name in self._whole]
        found += [(order, rule) for order, rule in self._whole_globs if covers(rule.tool, tool)]
        return min(found, key=itemgetter(0))[1] if found else None

    def parameter(self, tool: str, arguments: Mapping[str, object]) -> Rule | None:
        for _, rule, pattern in self._parameters:
            if covers(rule.tool, tool) and pattern.matches(arguments):
                return rule
        return None

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
        path = next((arguments[name] for name in PATH_ARGUMENTS if arguments.get(name)), None)
        if not isinstance(path, str) or not path.startswith("/"):
            return ()
        return (f"{'Edit' if tool in EDITING_TOOLS else 'Read'}(/{escaped(path)})",)
    if tool == "WebFetch":
        host = host_of(str(arguments.get("url")))
        return (f"WebFetch(domain:{host})",) if host else ()
    return (tool,)


def exact_command(text: str) -> str:
    """The command as a pattern that matches only itself."""
    return re.sub(r"([\\*])", r"\\\1", text.strip())


BUILT_IN = "built-in: "
"""Prefix for the name of a built-in rule, which no settings file can switch off."""


def by_rule(rule: Rule, why: str) -> DecisionPart:
    """A finding by a rule. Findings have no text until it is known which part of the call they are about."""
    return DecisionPart("", rule.verdict, rule.text, rule.source, why)


def by_itself(verdict: Verdict, why: str) -> DecisionPart:
    """A finding without a rule."""
    return DecisionPart("", verdict, None, None, why)


def by_nature(verdict: Verdict, name: str, why: str) -> DecisionPart:
    """A built-in finding, independent of the settings."""
    return DecisionPart("", verdict, BUILT_IN + name, None, why)


def about(text: str, finding: DecisionPart) -> DecisionPart:
    return structs.replace(finding, text=text)


def unspoken(mode: Mode, more: str = "") -> DecisionPart:
    """The finding for a call that nothing has allowed."""
    if mode is Mode.BYPASS:
        return by_itself(Verdict.ALLOW, "nothing is asked in this mode" + more)
    return by_itself(Verdict.ASK, "no rule allows it" + more)


_NEVER_BY_PREFIX = frozenset({"watch", "setsid", "ionice", "flock"})
_DEAD_DROPS = in_order("dead_drops")
_LOOKS_ABSOLUTE = re.compile(r"(?:home|users|etc|var|usr|opt|tmp|root|mnt|private|srv)(?:/|$)", re.IGNORECASE)


def rule_warnings(rules: Iterable[Rule]) -> tuple[RuleNote, ...]:
    every = tuple(rules)
    held = [rule for rule in every if rule.verdict is not Verdict.ALLOW]
    seen: dict[tuple[str, Verdict], Rule] = {}
    found: list[RuleNote] = []
    for rule in every:
        earlier = seen.setdefault((rule.text.strip(), rule.verdict), rule)
        if earlier is not rule:
            found.append(rule.note("the same rule is also listed elsewhere", kind="duplicate"))
        found += [rule.note(why, kind=kind) for kind, why in _surprises(rule)]
        stricter = (one for one in held if one.verdict.strictness > rule.verdict.strictness)
        over = next((one for one in stricter if contains(one, rule)), None)
        if over is not None:
            why = f"{over.verdict.value} {over.text} comes first and covers all of it"
            found.append(rule.note(why, kind="shadowed"))
    return tuple(found)


def contains(wide: Rule, narrow: Rule) -> bool:
    """Whether the wide rule covers everything the narrow one covers."""
    if not wide.specifiers:
        return covers(wide.tool, narrow.tool)
    if wide.tool != narrow.tool:
        return False
    same_start = wide.source.anchor == narrow.source.anchor
    if wide.specifiers == narrow.specifiers:
        return same_start or not isinstance(wide.specifiers[0], PathPattern)
    if len(narrow.specifiers) != 1:
        return False
    inner = narrow.specifiers[0]
    for outer in wide.specifiers:
        # A star of the narrow pattern counts as a letter: only a star of the wide one can match it.
        if isinstance(outer, CommandPattern) and isinstance(inner, CommandPattern):
            return outer.matches(inner.text.replace(":*", " *"))
        if isinstance(outer, DomainPattern) and isinstance(inner, DomainPattern):
            return outer.matches(inner.text)
        if isinstance(outer, PathPattern) and isinstance(inner, PathPattern):
            starts = outer.anchor is inner.anchor and (same_start or outer.anchor is not Anchor.SOURCE)
            return starts and not inner.floating and outer.matches(inner.body)
    return False


def _surprises(rule: Rule) -> Iterator[tuple[str, str]]:
    """Kind and reason of each thing that one rule does other than it seems."""
    allows = rule.verdict is Verdict.ALLOW
    if rule.tool == "Agent" and rule.specifiers and rule.verdict is Verdict.ASK:
        yield "never covers", "the client asks about all agents or none; write deny, or ask without brackets"
    if not allows and rule.tool not in KNOWN_TOOLS and "_" not in rule.tool and "*" not in rule.tool:
        yield "unknown tool", f"no tool is called {rule.tool}"
    for pattern in rule.specifiers:
        if isinstance(pattern, PathPattern):
            if pattern.anchor is Anchor.SOURCE and _LOOKS_ABSOLUTE.match(pattern.body):
                start = f"/{pattern.body} starts at the directory of the settings"
                yield "not absolute", f"{start}; write //{pattern.body} for the root"
        elif isinstance(pattern, CommandPattern) and allows and pattern.exact is None:
            yield from _surprises_of_command(pattern)
        elif isinstance(pattern, DomainPattern) and allows:
            host = pattern.text.lower().removeprefix("*.")
            if host == "*" or any(host == name or host.endswith("." + name) for name in _DEAD_DROPS):
                yield "too wide", "anyone can store and fetch data on such a host"
    if rule.tool == "Bash" and not rule.specifiers and allows:
        yield "too wide", "every command is allowed"


def _surprises_of_command(pattern: CommandPattern) -> Iterator[tuple[str, str]]:
    program = pattern.first_word
    if program in _NEVER_BY_PREFIX:
        yield "never covers", f"{program} runs another command; only a rule for one exact command covers it"
    if program is None:
        yield "too wide", "it lets any program run"
    elif pattern.covers_program_only and program in HOW_IT_RUNS:
        how, narrower = HOW_IT_RUNS[program]
        narrower = narrower.replace("{}", program)
        yield "too wide", f"{program} allows more than it seems: {how}; narrower: {narrower}"
