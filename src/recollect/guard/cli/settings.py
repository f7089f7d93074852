"""`recollect rules settings`: which settings apply in a directory, and changing them."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import cast

from recollect.change.settings import settings
from recollect.change.settings.settings import LoadedSettings
from recollect.cli.terminal import options as change_plans
from recollect.cli.terminal import output
from recollect.cli.terminal.homes import only_home, settings_home
from recollect.cli.terminal.text import counted, shortened, visible
from recollect.errors import UsageError
from recollect.guard.permissions.engine import require_rules, rules_of
from recollect.guard.policy.rules import RuleProblem, rule_warnings
from recollect.model.secrets.redaction import redacted
from recollect.model.settings.config_merge import is_secret
from recollect.model.settings.schema import TEXT, TEXTS, Setting, SettingOrigin, kind_of

_ACTIONS = ("show", "check", "set", "add", "remove", "unset")
_HIDDEN = "(hidden)"
_PLAIN = frozenset({"0", "1", "true", "false", ""})


def add_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("action", choices=_ACTIONS, help="see above")
    add("key", metavar="KEY", nargs="?", help="for example permissions.deny")
    add("value", metavar="VALUE", nargs="?", help="JSON or plain text")
    add("--cwd", metavar="DIR", default=".", help="directory of the project (default: this one)")
    add(
        "--scope", choices=["user", "project", "local"], default="user", help="file to change (default: user)"
    )
    add("--settings", metavar="FILE|JSON", help="like the client's --settings")
    add("--managed", metavar="FILE", help="read this file instead of the managed settings")
    change_plans.add_apply(parser)


def run(options: Namespace) -> int:
    if options.action in ("show", "check"):
        return (_show if options.action == "show" else _check)(options)
    return _change(options)


def load(options: Namespace) -> LoadedSettings:
    managed = Path(options.managed) if options.managed else None
    home = settings_home(options.homes)
    return settings.loaded(
        home, options.cwd, command_line=options.settings, managed=managed, with_config=True
    )


# ---- show ------------------------------------------------------------------------------------------------


def _show(options: Namespace) -> int:
    found = load(options)
    chosen = tuple(options.key.split(".")) if options.key else ()
    values = [one for one in found.settings.values if one.path[: len(chosen)] == chosen]
    waiting = [one for one in found.settings.waiting if one.path[: len(chosen)] == chosen]
    if options.json:
        return output.print_json(
            {
                "directory": found.directory,
                "trusted": found.project.trusted,
                "values": [_document(one) for one in values],
                "waiting_for_trust": [_document(one) for one in waiting],
                "project": found.project,
                "problems": _problems(found),
                "files": _files(found),
            }
        )
    for one in values:
        _tell(one)
    if not values:
        output.say("No setting" + (f" {visible(options.key)}" if options.key else "") + " applies here.")
    if waiting:
        output.say(output.styled("These do not apply until the workspace is trusted:", "yellow"))
        for one in waiting:
            _tell(one)
    for problem in found.problems:
        output.note(visible(str(problem)))
    _tell_project(found)
    return 0


def _tell(one: Setting) -> None:
    shown = shortened(visible(_text(_safe(one))), 80)
    output.say(f"{visible(one.key)} = {output.styled(shown, 'bold')}")
    hidden = f"; over {', '.join(map(_place, one.hides))}" if one.hides else ""
    output.say(output.styled(f"    {_place(one.origin)}{hidden}", "dim"))


def _tell_project(found: LoadedSettings) -> None:
    facts = found.project
    output.say(f"Workspace {visible(facts.directory)}: {'trusted' if facts.trusted else 'not trusted'}")
    if facts.problem:
        output.note(visible(facts.problem))
    for words, names in (
        ("servers", facts.servers),
        ("enabled", facts.enabled_servers),
        ("disabled", facts.disabled_servers),
    ):
        if names:
            output.say(f"  MCP {words}: {visible(', '.join(names))}")
    if facts.allowed_tools:
        output.say(
            f"  {counted(len(facts.allowed_tools), 'rule')} in allowedTools of .claude.json: no effect"
        )


def _document(one: Setting) -> dict[str, object]:
    origin = one.origin
    where = {"scope": origin.scope, "file": origin.path, "line": origin.line}
    return {"key": one.key, "value": _safe(one), **where, "hides": one.hides}


def _problems(found: LoadedSettings) -> list[dict[str, object]]:
    return [{**one._asdict(), "message": str(one)} for one in found.problems]


def _files(found: LoadedSettings) -> list[dict[str, object]]:
    names = ("scope", "path", "counts", "from_repository")
    return [{name: getattr(one, name) for name in names} for one in found.layers]


def _place(origin: SettingOrigin) -> str:
    return visible(f"{origin.scope}: {origin.path or '--settings'}:{origin.line}")


def _safe(one: Setting) -> object:
    """The value without possible secrets: tokens are often in the environment."""
    names = [step for step in one.path if isinstance(step, str)]
    in_environment = names[0] == "env" and str(one.value).lower() not in _PLAIN
    if in_environment or any(is_secret(name) for name in names):
        return _HIDDEN
    return _without_secrets(one.value)


def _without_secrets(value: object) -> object:
    if isinstance(value, dict):
        return {
            name: _HIDDEN if is_secret(name) or name == "env" else _without_secrets(one)
            for name, one in value.items()
        }
    if isinstance(value, list):
        return [_without_secrets(one) for one in value]
    if not isinstance(value, str) or len(value) < 12:
        return value

    return redacted(value, lambda _: "hidden").data


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# ---- check -----------------------------------------------------------------------------------------------


def _check(options: Namespace) -> int:
    found = load(options)
    every = list(rules_of(found.layers))
    rules = [one for one in every if isinstance(one, RuleProblem)]
    warnings = rule_warnings(one for one in every if not isinstance(one, RuleProblem))
    bad = bool(found.problems or rules)
    if options.json:
        layers, problems = _files(found), _problems(found)
        output.print_json({"files": layers, "problems": problems, "rules": rules, "warnings": warnings})
        return 1 if bad else 0
    for layer in found.layers:
        state = "counts" if layer.counts else "ignored" if layer.problems else "not there"
        colour = {"counts": "green", "ignored": "red", "not there": "dim"}[state]
        foreign = " (the repository could have supplied it)" if layer.from_repository and layer.root else ""
        name = visible(f"{layer.scope}: {layer.path or '--settings'}")
        output.say(f"{output.styled(state, colour)}  {name}{foreign}")
    for problem in found.problems:
        output.say(f"  {visible(str(problem))}")
    for note in (*rules, *warnings):
        output.say(f"  {visible(f'{note.source}: {note}')}")
    noted = f", {counted(len(warnings), 'warning')}" if warnings else ""
    output.say(f"{counted(len(found.problems) + len(rules), 'problem')}{noted}")
    return 1 if bad else 0


# ---- change ----------------------------------------------------------------------------------------------


def _change(options: Namespace) -> int:
    if not options.key or (options.value is None) != (options.action == "unset"):
        needs = "a key" if options.action == "unset" else "a key and a value"
        raise UsageError(
            f"rules settings {options.action}: needs {needs}", hint="see `recollect rules settings --help`"
        )
    value = None if options.value is None else _parsed(options.value, options.key)
    require_rules(tuple(options.key.split(".")), value, options.action)
    change = settings.planned(
        only_home(options), options.cwd, options.scope, options.key, value, how=options.action
    )
    applied = settings.changed(change.plan, change_plans.own_data(options)) if options.apply else None
    undo = change_plans.command(options, "undo", applied.id, "--apply") if applied else ""
    rest = [part for part in (options.key, options.value) if part is not None]
    again = [
        "rules",
        "settings",
        options.action,
        *rest,
        "--scope",
        options.scope,
        "--cwd",
        options.cwd,
        "--apply",
    ]
    if options.json:
        secret = Setting(tuple(options.key.split(".")), None, SettingOrigin("user", None, 0))
        return output.print_json(
            {
                "file": change.file,
                "key": change.key,
                "before": _safe(secret._replace(value=change.before)),
                "after": _safe(secret._replace(value=change.after)),
                "changes": change.plan is not None,
                "applied": applied is not None,
                "undo": undo,
            }
        )
    if change.plan is None:
        output.say(f"{visible(str(change.file))} already has this value: nothing to do")
        return 0
    verb = "Changed" if applied else "Would change"
    output.say(f"{verb} {visible(options.key)} in {output.styled(visible(str(change.file)), 'cyan')}")
    change_plans.say_end(options, change_plans.command(options, *again), undo)
    return 0


def _parsed(text: str, key: str) -> object:
    """JSON if it is JSON of the right type, else the text itself."""

    if kind_of(tuple(key.split("."))) in (TEXT, TEXTS) and not text.startswith("["):
        return text
    try:
        return cast("object", json.loads(text))
    except ValueError:
        return text
