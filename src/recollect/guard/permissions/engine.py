"""The permission engine of a directory: settings, trust, workspace and the real file system; the client's hook.

Two kinds of rules count here that the client leaves out: deny and ask rules of a settings file that it ignores because
of a fault elsewhere in it, and of weaker layers where managed settings forbid all other rules. Both only make us
stricter. While a file cannot be read at all, no rule allows anything without asking: its deny rules are unknown.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import structs

from recollect.change.settings.settings import How, LoadedSettings, loaded
from recollect.errors import UsageError
from recollect.guard.policy.engine import PolicyEngine, RuleSet
from recollect.guard.policy.paths import Workspace, hooks_directory
from recollect.guard.policy.rules import Rule, RuleProblem, parse_rule
from recollect.guard.policy.terms import INTERACTIVE_TOOLS, Mode, World
from recollect.model.lines.json_edit import BadJson, located
from recollect.model.settings.decision import Decision, RuleSource, Scope, Verdict
from recollect.model.settings.schema import RULE_LISTS, SettingsLayer, layer_of
from recollect.store import client_settings
from recollect.store.home import ClaudeHome
from recollect.system.peek import open_regular

_MOST_NAMES = 20_000
_MOST_BYTES = 1_000_000


class FileWorld:
    """The real file system, without caching: a decision must see a link that was swapped in."""

    def resolved(self, path: str) -> str:
        try:
            return os.path.realpath(path)
        except (OSError, ValueError):
            return path

    def identity(self, path: str) -> tuple[int, int] | None:
        found = self._status(path)
        return None if found is None else (found.st_dev, found.st_ino)

    def is_regular_or_missing(self, path: str) -> bool:
        found = self._status(path)
        return found is None or stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)

    def is_directory(self, path: str) -> bool:
        found = self._status(path)
        return found is not None and stat.S_ISDIR(found.st_mode)

    def names_in(self, path: str) -> frozenset[str] | None:
        """Every relative path below a directory; None when part of it cannot be read or there are too many."""
        names: set[str] = set()
        waiting = [""]
        while waiting:
            below = waiting.pop()
            try:
                with os.scandir(os.path.join(path, below)) as entries:  # noqa: PTH118
                    for entry in entries:
                        names.add(below + entry.name)
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(f"{below}{entry.name}/")
            except (OSError, ValueError):
                return None
            if len(names) > _MOST_NAMES:
                return None
        return frozenset(names)

    def _status(self, path: str) -> os.stat_result | None:
        try:
            return os.stat(path)  # noqa: PTH116 - a Path would be made for every question
        except (OSError, ValueError):
            return None


def hooks_of(directory: str | Path, home: str | Path) -> tuple[str, ...]:
    """The directories from which git would run hooks here by ``core.hooksPath``; git is not started to find out."""
    place = Path(directory)
    root = next((one for one in (place, *place.parents) if (one / ".git").is_dir()), place)
    files = (root / ".git" / "config", Path(home, ".gitconfig"), Path(home, ".config", "git", "config"))
    named = (hooks_directory(_text(path)) for path in files)
    return tuple(
        os.path.normpath(root / (f"{home}{name[1:]}" if name.startswith("~/") else name))
        for name in named
        if name and "\0" not in name
    )


def _text(path: Path) -> str:
    with contextlib.suppress(OSError), open_regular(path) as file:
        return file.read(_MOST_BYTES).decode("utf-8", "replace")
    return ""


def rules_of(layers: Iterable[SettingsLayer]) -> Iterator[Rule | RuleProblem]:
    """Every rule of every layer with its file and line, and every invalid rule text.

    Allow rules of a file that the client ignores are left out; its deny and ask rules are kept: a mistake in
    another key must not permit what the user wanted to deny.
    """
    for layer in layers:
        # A local file that the repository could have supplied is treated as the project's (R22).
        scope = Scope.USER
        if layer.scope != "config":
            scope = Scope.PROJECT if layer.from_repository else Scope(layer.scope)
        for name in RULE_LISTS:
            place = layer.root.at(("permissions", name)) if layer.root is not None else None
            if place is None or (name == "allow" and not layer.counts):
                continue
            for item in place.items:
                source = RuleSource(scope, layer.path, item.line, layer.anchor)
                if isinstance(item.value, str):
                    yield parse_rule(item.value, Verdict(name), source)


def require_rules(path: tuple[str, ...], value: object, how: How) -> None:
    if (
        path[:1] != ("permissions",)
        or path[1:2] not in {(name,) for name in RULE_LISTS}
        or how not in ("set", "add")
    ):
        return
    for text in value if isinstance(value, list) else [value]:
        found = parse_rule(str(text), Verdict(path[1]), RuleSource(Scope.USER))
        if isinstance(found, RuleProblem):
            raise UsageError(
                f"rule {str(text)!a}: {found.why}", hint=f"nothing was changed; {found.consequence}"
            )


class ProjectEngine(PolicyEngine):
    """An engine with the settings of a directory; an allow becomes an ask while one of them cannot be read."""

    def __init__(
        self, rules: RuleSet, workspace: Workspace, mode: Mode, world: World, loaded: LoadedSettings
    ) -> None:
        super().__init__(rules, workspace, mode, world)
        self.loaded = loaded

    def decide(self, tool: str, arguments: Mapping[str, object]) -> Decision:
        decision = super().decide(tool, arguments)
        hidden = self.loaded.unreadable
        if not hidden or decision.verdict is not Verdict.ALLOW:
            return decision
        why = f"{hidden[0].path} cannot be read, so its deny rules are unknown"
        return structs.replace(decision, verdict=Verdict.ASK, rule=None, source=None, why=why)


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
    return ProjectEngine(chosen, workspace, _mode(found, mode), world or FileWorld(), found)


def rule_set(layers: Iterable[SettingsLayer]) -> RuleSet:
    """All rules of the layers. Managed settings can forbid allow rules of other layers (R20)."""
    layers = list(layers)
    found = list(rules_of(layers))
    rules = [one for one in found if isinstance(one, Rule)]
    managed = (layer.root for layer in layers if layer.scope == "managed" and layer.root is not None)
    only = [root.at(("allowManagedPermissionRulesOnly",)) for root in managed]
    if any(place is not None and place.value is not False for place in only):
        rules = [
            one for one in rules if one.verdict is not Verdict.ALLOW or one.source.scope is Scope.MANAGED
        ]
    return RuleSet(tuple(rules), tuple(one for one in found if isinstance(one, RuleProblem)))


def rules_from(file: Path) -> RuleSet:
    """Rules of a trial file: settings with ``permissions``, or an object of allow, ask and deny."""
    data = client_settings.content(file)
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


EVENT = "PreToolUse"
_LONGEST = 2_000


def answer_hook(
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
        place = f", {source}" if source is not None and source.path else ""
        words = f"{words} (rule {decision.rule}{place})"
    if decision.unanalysable:
        words = f"{words}; not analysed: {', '.join(decision.unanalysable[:3])}"
    return words


def answer(verdict: Verdict, why: str) -> dict[str, Any]:
    return {
        "hookSpecificOutput": {
            "hookEventName": EVENT,
            "permissionDecision": verdict.value,
            "permissionDecisionReason": why[:_LONGEST],
        }
    }
