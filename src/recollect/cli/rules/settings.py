"""Show which settings apply in a directory and where they are set; change them.

  show [KEY]          values that apply, with their file and line (managed >
                      command line > local > project > user > config; lists are
                      merged), and values that wait until the workspace is
                      trusted. config is the home's config.json: `recollect
                      agent` and `recollect run` use it, no client does
  check               values the client would not accept: one wrong type and it
                      ignores the whole file, deny rules included; also rules
                      that do less or allow more than they seem to
  set KEY VALUE       change one key; all other text of the file stays
  unset KEY           remove a key
  add KEY VALUE       add an item to a list
  remove KEY VALUE    remove an item from a list
  import-config FILE  import a config.json with userSettings and projects

Commands that change a file print a plan; --apply carries it out and
`recollect undo` takes it back. Values that may be secret are not shown.

Exit status of check: 0 all is accepted, 1 the client would ignore or drop
something.

Example:
  recollect settings show
  recollect settings check --cwd ~/src/shop
  recollect settings add permissions.deny 'Bash(rm *)' --scope user --apply
  recollect settings set cleanupPeriodDays 365 --apply
  recollect settings import-config ~/old/config.json
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import cast

from recollect.cli.terminal import change_plans, output
from recollect.cli.terminal.homes import directories, settings_home
from recollect.cli.terminal.text import counted, shortened, visible
from recollect.errors import NotFound, UsageError
from recollect.model.settings.config_merge import is_secret
from recollect.model.settings.settings import Setting, SettingOrigin
from recollect.policy.rules.rule import RuleProblem
from recollect.policy.rules.warnings import rule_warnings
from recollect.services.documents.settings import (
    ImportedSettingDocument,
    SettingChangeDocument,
    SettingsDocument,
    SettingsImportDocument,
    layer_documents,
    problem_documents,
    setting_document,
    settings_check_document,
)
from recollect.services.settings import config_import, settings
from recollect.services.settings.settings import LoadedSettings
from recollect.storage.home import ClaudeHome

_ACTIONS = ("show", "check", "set", "add", "remove", "unset", "import-config")
_HIDDEN = "(hidden)"
_PLAIN = frozenset({"0", "1", "true", "false", ""})


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("action", choices=_ACTIONS, help="see above")
    parser.add_argument(
        "key", metavar="KEY", nargs="?", help="for example permissions.deny; for import-config: FILE"
    )
    parser.add_argument("value", metavar="VALUE", nargs="?", help="JSON or plain text")
    parser.add_argument(
        "--cwd", metavar="DIR", default=".", help="directory of the project (default: this one)"
    )
    parser.add_argument(
        "--scope",
        choices=["user", "project", "local"],
        default="user",
        help="file to change (default: user)",
    )
    parser.add_argument("--settings", metavar="FILE|JSON", help="like the client's --settings")
    parser.add_argument("--managed", metavar="FILE", help="read this file instead of the managed settings")
    parser.add_argument("--with-trust", action="store_true", help="import-config: import trust as well")
    change_plans.add_apply(parser)


def run(options: Namespace) -> int:
    if options.action in ("show", "check"):
        return (_show if options.action == "show" else _check)(options)
    return _import(options) if options.action == "import-config" else _change(options)


def only_home(options: Namespace) -> ClaudeHome:
    """The home whose user settings apply: the first."""
    homes = directories(options.homes)
    if not homes:
        raise NotFound("settings: no Claude home was found", hint="name one with --home DIR")
    return homes[0]


def load(options: Namespace) -> LoadedSettings:
    """All layers of settings for the directory of the options."""
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
        output.print_json(
            SettingsDocument(
                directory=found.directory,
                trusted=found.project.trusted,
                values=[setting_document(one, _safe(one)) for one in values],
                waiting_for_trust=[setting_document(one, _safe(one)) for one in waiting],
                project=found.project,
                problems=problem_documents(found.problems),
                files=layer_documents(found.layers),
            )
        )
        return 0
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
    from recollect.model.secrets.redaction import redacted

    return redacted(value, lambda _: "hidden").text


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# ---- check -----------------------------------------------------------------------------------------------


def _check(options: Namespace) -> int:
    found = load(options)
    every = list(settings.rules_of(found.layers))
    rules = [one for one in every if isinstance(one, RuleProblem)]
    warnings = rule_warnings(one for one in every if not isinstance(one, RuleProblem))
    bad = bool(found.problems or rules)
    if options.json:
        output.print_json(settings_check_document(found.layers, found.problems, rules, warnings))
        return 1 if bad else 0
    for layer in found.layers:
        state = "counts" if layer.counts else "ignored" if layer.problems else "not there"
        colour = {"counts": "green", "ignored": "red", "not there": "dim"}[state]
        foreign = " (the repository could have supplied it)" if layer.from_repository and layer.root else ""
        name = visible(f"{layer.scope}: {layer.path or '--settings'}")
        output.say(f"{output.styled(state, colour)}  {name}{foreign}")
    for problem in found.problems:
        output.say(f"  {visible(str(problem))}")
    for rule in rules:
        place = f"{rule.source.path or '--settings'}:{rule.source.line}"
        output.say(f"  {visible(f'{place}: {rule.verdict} {rule.text}: {rule.why}; {rule.consequence}')}")
    for warning in warnings:
        place = f"{warning.rule.source.path or '--settings'}:{warning.rule.source.line}"
        output.say(f"  {visible(f'{place}: {warning}')}")
    noted = f", {counted(len(warnings), 'warning')}" if warnings else ""
    output.say(f"{counted(len(found.problems) + len(rules), 'problem')}{noted}")
    return 1 if bad else 0


# ---- change ----------------------------------------------------------------------------------------------


def _change(options: Namespace) -> int:
    if not options.key or (options.value is None) != (options.action == "unset"):
        needs = "a key" if options.action == "unset" else "a key and a value"
        raise UsageError(f"settings {options.action}: needs {needs}", hint="see `recollect settings --help`")
    value = None if options.value is None else _parsed(options.value, options.key)
    change = settings.planned(
        only_home(options), options.cwd, options.scope, options.key, value, how=options.action
    )
    applied = settings.changed(change.plan, change_plans.own_data(options)) if options.apply else None
    undo = change_plans.command(options, "undo", applied.id, "--apply") if applied else ""
    rest = [part for part in (options.key, options.value) if part is not None]
    again = ["settings", options.action, *rest, "--scope", options.scope, "--cwd", options.cwd, "--apply"]
    if options.json:
        secret = Setting(tuple(options.key.split(".")), None, SettingOrigin("user", None, 0))
        output.print_json(
            SettingChangeDocument(
                file=change.file,
                key=change.key,
                before=_safe(secret._replace(value=change.before)),
                after=_safe(secret._replace(value=change.after)),
                changes=change.plan is not None,
                applied=applied is not None,
                undo=undo,
            )
        )
        return 0
    if change.plan is None:
        output.say(f"{visible(str(change.file))} already has this value: nothing to do")
        return 0
    verb = "Changed" if applied else "Would change"
    output.say(f"{verb} {visible(options.key)} in {output.styled(visible(str(change.file)), 'cyan')}")
    change_plans.say_end(options, change_plans.command(options, *again), undo)
    return 0


def _parsed(text: str, key: str) -> object:
    """JSON if it is JSON of the right type, else the text itself."""
    from recollect.model.settings.schema import TEXT, TEXTS, kind_of

    if kind_of(tuple(key.split("."))) in (TEXT, TEXTS) and not text.startswith("["):
        return text
    try:
        return cast("object", json.loads(text))
    except ValueError:
        return text


def _import(options: Namespace) -> int:
    if not options.key:
        raise UsageError("settings import-config: needs a file", hint="name the config.json to import")
    plan = config_import.planned_import(
        only_home(options), Path(options.key).expanduser(), with_trust=options.with_trust
    )
    done = config_import.imported(plan, change_plans.own_data(options)) if options.apply else []
    undo = change_plans.undo_of(options, [one.id for one in done])
    if options.json:
        rows = [ImportedSettingDocument(row.source, row.file, row.key, row.why) for row in plan.rows]
        output.print_json(SettingsImportDocument(rows, plan.changes, bool(done), undo))
        return 0
    for row in plan.rows:
        goes = f"-> {row.file}: {row.key}" if row.file else f"left out: {row.why}"
        output.say(visible(f"{row.source} {goes}"))
    if not plan.changes:
        output.say("Nothing to import.")
        return 0
    trust = ["--with-trust"] if options.with_trust else []
    again = change_plans.command(options, "settings", "import-config", options.key, *trust, "--apply")
    change_plans.say_end(options, again, "; ".join(undo))
    return 0
