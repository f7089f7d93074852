"""The permission engine of a directory: settings, trust and workspace combined.

Two kinds of rules count here that the client leaves out: deny and ask rules of a settings file that it
ignores because of a fault elsewhere in it, and of weaker layers where managed settings forbid all other
rules. Both only make us stricter. While a file cannot be read at all, no rule allows anything without asking:
its deny rules are unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from recollect.errors import UsageError
from recollect.model.json.places import BadJson, located
from recollect.model.settings.settings import SettingsLayer, layer_of
from recollect.policy.decision import Decision, Scope, Verdict
from recollect.policy.engine import Explanation, Mode, PolicyEngine, RuleSet, Workspace
from recollect.policy.rules.rule import Rule, RuleProblem
from recollect.policy.tool_names import KNOWN_TOOLS, is_mcp
from recollect.policy.world import World
from recollect.services.permissions.file_world import FileWorld, hooks_of
from recollect.services.settings.settings import LoadedSettings, loaded, rules_of
from recollect.storage.config import settings_files
from recollect.storage.home import ClaudeHome

_PRIMARY = {
    "Bash": "command",
    "Read": "file_path",
    "Edit": "file_path",
    "Write": "file_path",
    "MultiEdit": "file_path",
    "NotebookEdit": "notebook_path",
    "Grep": "pattern",
    "Glob": "pattern",
    "LS": "path",
    "WebFetch": "url",
    "WebSearch": "query",
    "Skill": "skill",
    "Task": "subagent_type",
    "Agent": "subagent_type",
}


@dataclass(frozen=True, slots=True)
class ProjectEngine:
    """An engine and its settings."""

    engine: PolicyEngine
    loaded: LoadedSettings

    def decide(self, tool: str, arguments: Mapping[str, object]) -> Decision:
        """The engine's decision; an allow becomes an ask while a settings file cannot be read."""
        return self._held(self.engine.decide(tool, arguments))

    def explain(self, tool: str, arguments: Mapping[str, object]) -> Explanation:
        """The decision with every rule that was considered."""
        found = self.engine.explain(tool, arguments)
        return replace(found, decision=self._held(found.decision))

    def _held(self, decision: Decision) -> Decision:
        hidden = self.loaded.unreadable
        if not hidden or decision.verdict is not Verdict.ALLOW:
            return decision
        why = f"{hidden[0].path} cannot be read, so its deny rules are unknown"
        return replace(decision, verdict=Verdict.ASK, rule=None, source=None, why=why)


def permit(
    home: ClaudeHome,
    directory: str | Path,
    *,
    mode: str | None = None,
    command_line: str | None = None,
    managed: Path | None = None,
    trusted: bool | None = None,
    world: World | None = None,
    rules: RuleSet | None = None,
    with_config: bool = False,
) -> ProjectEngine:
    """The engine for calls in a directory; ``rules`` replace those in the settings.

    ``with_config`` adds the rules of the home's ``config.json``, for our own runs: no client reads it.
    """
    found = loaded(
        home, directory, command_line=command_line, managed=managed, trusted=trusted, with_config=with_config
    )
    is_trusted = found.project.trusted if trusted is None else trusted
    workspace = Workspace(
        cwd=str(found.directory),
        directories=_directories(found),
        home=str(_user_home(home)),
        trusted=is_trusted,
        hooks=hooks_of(found.directory, _user_home(home)),
    )
    chosen = rule_set(found.layers) if rules is None else rules
    return ProjectEngine(PolicyEngine(chosen, workspace, _mode(found, mode), world or FileWorld()), found)


def rule_set(layers: Iterable[SettingsLayer]) -> RuleSet:
    """All rules of the layers. Managed settings can forbid allow rules of other layers (R20)."""
    layers = list(layers)
    found = list(rules_of(layers))
    rules = [one for one in found if isinstance(one, Rule)]
    if any(_managed_only(layer) for layer in layers):
        rules = [
            one for one in rules if one.verdict is not Verdict.ALLOW or one.source.scope is Scope.MANAGED
        ]
    return RuleSet(tuple(rules), tuple(one for one in found if isinstance(one, RuleProblem)))


def _managed_only(layer: SettingsLayer) -> bool:
    place = layer.root.at(("allowManagedPermissionRulesOnly",)) if layer.root is not None else None
    return layer.scope == "managed" and place is not None and place.value is not False


def rules_from(file: Path) -> RuleSet:
    """Rules of a trial file: settings with ``permissions``, or an object of allow, ask and deny."""
    data = settings_files.content(file)
    if data is None:
        raise UsageError(f"rules {file}: there is no such file", hint="name a JSON file of rules")
    try:
        root = located(data)
    except BadJson as problem:
        raise UsageError(
            f"{file}:{problem.line}: not JSON: {problem.what}", hint="correct the file"
        ) from None
    if "permissions" not in root.members and {"allow", "ask", "deny"} & set(root.members):
        root.members = {"permissions": replace(root)}
        layer = SettingsLayer("command line", str(file), root, anchor=str(file.parent.absolute()))
    else:
        layer = layer_of("command line", str(file), data, anchor=str(file.parent.absolute()))
    if not layer.counts:
        raise UsageError(str(layer.problems[0]), hint="correct the file")
    return rule_set([layer])


def call_of(text: str) -> tuple[str, dict[str, object]]:
    """``Tool(argument)``, ``Tool({json})`` or ``Tool`` as a tool and its arguments."""
    import json

    name, bracket, rest = text.strip().partition("(")
    if not name or (bracket and not rest.endswith(")")):
        raise UsageError(
            f"call {text!a}: not understood", hint="write 'Bash(git status)' or 'Read({\"file_path\": …})'"
        )
    argument = rest[:-1] if bracket else ""
    if argument.lstrip().startswith("{"):
        try:
            found = json.loads(argument)
        except ValueError:
            found = None
        if isinstance(found, dict):
            return name, found
    if name not in KNOWN_TOOLS and not is_mcp(name):
        hint = f"for a command write 'Bash({text.strip()})'; for a tool that is not known here {name}({{…}}) with JSON"
        raise UsageError(f"call {text!a}: there is no tool {name!a}", hint=hint)
    if not argument:
        return name, {}
    if name not in _PRIMARY:
        raise UsageError(
            f"call {text!a}: {name} has no single main argument", hint=f"write {name}({{…}}) with JSON"
        )
    return name, {_PRIMARY[name]: argument}


def _directories(found: LoadedSettings) -> tuple[str, ...]:
    named = [one.value for one in found.settings.of("permissions", "additionalDirectories")]
    return tuple(
        str(found.directory / Path(one).expanduser())
        for one in named
        if isinstance(one, str) and "\0" not in one
    )


def _mode(found: LoadedSettings, given: str | None) -> Mode:
    named = given if given is not None else _default_mode(found)
    try:
        mode = Mode(named) if isinstance(named, str) else Mode.DEFAULT
    except ValueError:
        if given is not None:
            raise UsageError(
                f"mode {given!a}: there is no such mode", hint=f"use one of {', '.join(Mode)}"
            ) from None
        mode = Mode.DEFAULT
    forbidden = found.settings.value("permissions", "disableBypassPermissionsMode") == "disable"
    return Mode.DEFAULT if mode is Mode.BYPASS and forbidden else mode


def _default_mode(found: LoadedSettings) -> object:
    """The mode of the settings. A directory cannot switch all questions off: the client ignores that there.

    A mode of an untrusted project counts at once where it only narrows.
    """
    waiting = [one.value for one in found.settings.waiting if one.path == ("permissions", "defaultMode")]
    stronger = [one for one in found.settings.of("permissions", "defaultMode") if one.origin.scope != "user"]
    if not stronger and waiting and waiting[0] in (Mode.DONT_ASK, Mode.PLAN):
        return waiting[0]
    for setting in found.settings.of("permissions", "defaultMode"):
        from_directory = setting.origin.scope in ("project", "local")
        return None if from_directory and setting.value == Mode.BYPASS else setting.value
    return None


def _user_home(home: ClaudeHome) -> Path:
    """The directory that ``~`` means in rules: the user's, for any Claude home."""
    try:
        return Path.home()
    except RuntimeError:
        return home.root.parent
