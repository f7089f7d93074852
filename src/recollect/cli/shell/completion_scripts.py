"""The completion scripts, made from the parsers."""

from __future__ import annotations

from collections.abc import Iterable

from recollect.cli.main import ALIASES, COMMANDS
from recollect.cli.shell.command_facts import (
    DIRECTORY,
    FILE,
    SESSION,
    CommandFacts,
    OptionFacts,
    all_commands,
)


def _head(shell: str) -> str:
    return f"# Completion of recollect for {shell}; written by `recollect completion {shell}`.\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _words(texts: Iterable[str]) -> str:
    return " ".join(texts)


def _names() -> dict[str, str]:
    """Commands and aliases, with what they are for."""
    aliases = {name: f"the same as {' '.join(words)}" for name, words in ALIASES.items()}
    return {**{name: about for name, (_, about) in COMMANDS.items()}, **aliases}


def _aliased(commands: list[CommandFacts]) -> list[tuple[str, CommandFacts]]:
    known = {one.name: one for one in commands}
    found = [(one.name, one) for one in commands]
    return found + [(name, known[words[0]]) for name, words in ALIASES.items() if words[0] in known]


# --- bash -------------------------------------------------------------------------------------------

_BASH = r"""
_recollect_sessions() {
    local value about quote=""
    case $cur in [\'\"]*) quote=${cur:0:1} ;; esac
    while IFS=$'\t' read -r value about; do
        if [[ -n $quote ]]; then value=$quote$value$quote; else printf -v value %q "$value"; fi
        COMPREPLY+=("$value")
    done < <(recollect completion sessions "$cur" -- "${COMP_WORDS[@]:1}" 2>/dev/null)
}

_recollect() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command="" at
    local options="" kind="" choices=""
    COMPREPLY=()
    for ((at = 1; at < COMP_CWORD; at++)); do
        case ${COMP_WORDS[at]} in
            --home|--data|--color) ((at++)) ;;
            -*) ;;
            *) command=${COMP_WORDS[at]}; break ;;
        esac
    done
    case "$command $prev" in
@VALUES@
    esac
    if [[ -z $kind ]]; then
        case $command in
@COMMANDS@
        esac
    fi
    case $kind in
        directory) COMPREPLY=($(compgen -d -- "$cur")); compopt -o filenames 2>/dev/null; return ;;
        file) COMPREPLY=($(compgen -f -- "$cur")); compopt -o filenames 2>/dev/null; return ;;
        value) COMPREPLY=($(compgen -W "$choices" -- "$cur")); return ;;
    esac
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$cur"))
        return
    fi
    [[ -n $choices ]] && COMPREPLY=($(compgen -W "$choices" -- "$cur"))
    [[ $kind == session ]] && _recollect_sessions
}
complete -F _recollect recollect
"""


def bash() -> str:
    facts = all_commands()
    every = _words(_names())
    values = [
        f"        *' {one.names[0]}') {_bash_value(one)} ;;" for one in facts[0].options if _is_global(one)
    ]
    commands = [
        f"            '') choices={_quoted(every)}; options='--home --data --color --help --version' ;;"
    ]
    for name, one in _aliased(facts):
        values += [
            _bash_values(name, option) for option in one.options if option.value and not _is_global(option)
        ]
        options = _words(spelled for option in one.options for spelled in option.names)
        choices = _words(choice for argument in one.arguments for choice in argument.choices)
        kinds = [argument.kind for argument in one.arguments if argument.kind in (SESSION, DIRECTORY, FILE)]
        kind = f" kind={kinds[0]};" if kinds and not choices else ""
        commands.append(
            f"            {name}) options={_quoted(options)};{kind} choices={_quoted(choices)} ;;"
        )
    script = _BASH.replace("@VALUES@", "\n".join(values)).replace("@COMMANDS@", "\n".join(commands))
    return _head("bash") + script.lstrip("\n")


def _bash_values(command: str, option: OptionFacts) -> str:
    patterns = "|".join(_quoted(f"{command} {spelled}") for spelled in option.names)
    return f"        {patterns}) {_bash_value(option)} ;;"


def _is_global(option: OptionFacts) -> bool:
    return option.names[0] in ("--home", "--data", "--color")


def _bash_value(option: OptionFacts) -> str:
    if option.choices:
        return f"kind=value; choices={_quoted(_words(option.choices))}"
    return f"kind={option.kind if option.kind in (SESSION, DIRECTORY, FILE) else 'value'}"


# --- zsh --------------------------------------------------------------------------------------------

_ZSH = r"""
_recollect_sessions() {
    local -a values abouts
    local value about
    while IFS=$'\t' read -r value about; do
        values+=("$value"); abouts+=("$value  $about")
    done < <(recollect completion sessions "$PREFIX" -- "${(@Q)typed}" 2>/dev/null)
    compadd -U -l -d abouts -a values
}

_recollect_commands() {
    local -a commands
    commands=(
@NAMES@
    )
    _describe -t commands 'command' commands
}

_recollect() {
    local command="" at
    local -a typed=("${(@)words[2,-1]}")
    for ((at = 2; at < CURRENT; at++)); do
        case $words[at] in
            (--home|--data|--color) ((at++)) ;;
            (-*) ;;
            (*) command=$words[at]; break ;;
        esac
    done
    if [[ -z $command ]]; then
        _arguments -S '*--home[use this Claude home]:directory:_files -/' \
            '--data[data directory]:directory:_files -/' '--color[colour]:when:(auto always never)' \
            '(- *)--help[help]' '(- *)--version[version]' '*::command:_recollect_commands'
        return
    fi
    words=("$command" "${(@)words[at+1,-1]}")
    ((CURRENT -= at - 1))
    case $command in
@COMMANDS@
    esac
}
if [[ $funcstack[1] = _recollect ]]; then _recollect "$@"; else compdef _recollect recollect; fi
"""


def zsh() -> str:
    names = "\n".join(f"        {_quoted(f'{name}:{about}')}" for name, about in _names().items())
    commands = []
    for name, one in _aliased(all_commands()):
        specs = [spec for option in one.options for spec in _zsh_option(option)]
        specs += [_zsh_argument(argument) for argument in one.arguments[-1:]] if one.arguments else []
        if one.arguments and len(one.arguments) > 1 and one.arguments[0].choices:
            specs.insert(-1, f"1:{one.arguments[0].value}:({_words(one.arguments[0].choices)})")
        lines = " \\\n                ".join(_quoted(spec) for spec in specs)
        commands.append(f"        ({name})\n            _arguments {lines} ;;")
    script = _ZSH.replace("@NAMES@", names).replace("@COMMANDS@", "\n".join(commands))
    return "#compdef recollect\n" + _head("zsh") + script.lstrip("\n")


def _zsh_option(option: OptionFacts) -> list[str]:
    about = option.about.replace("[", "(").replace("]", ")").replace(":", "\\:")
    value = f":{option.value}:{_zsh_action(option)}" if option.value else ""
    return [f"*{name}[{about}]{value}" for name in option.names]


def _zsh_argument(argument: OptionFacts) -> str:
    return f"*:{argument.value}:{_zsh_action(argument)}"


def _zsh_action(option: OptionFacts) -> str:
    if option.choices:
        return f"({_words(option.choices)})"
    return {SESSION: "_recollect_sessions", DIRECTORY: "_files -/", FILE: "_files"}.get(option.kind, " ")


# --- fish -------------------------------------------------------------------------------------------

_FISH = r"""
function __recollect_command
    set -l skip 0
    for word in (commandline -opc)[2..-1]
        if test $skip = 1
            set skip 0
        else if contains -- $word --home --data --color
            set skip 1
        else if not string match -q -- '-*' $word
            echo $word
            return 0
        end
    end
    return 1
end

function __recollect_is
    contains -- (__recollect_command; or echo '') $argv
end

function __recollect_sessions
    recollect completion sessions (commandline -ct | string unescape) -- (commandline -opc)[2..-1] 2>/dev/null
end

complete -c recollect -f
complete -c recollect -n 'not __recollect_command' -l version -d 'print the version'
complete -c recollect -l home -r -a '(__fish_complete_directories)' -d 'use this Claude home'
complete -c recollect -l data -r -a '(__fish_complete_directories)' -d 'data directory'
complete -c recollect -l color -x -a 'auto always never' -d 'colour'
"""


def fish() -> str:
    rows = [
        f"complete -c recollect -n 'not __recollect_command' -a {name} -d {_fish_quoted(about)}"
        for name, about in _names().items()
    ]
    for name, one in _aliased(all_commands()):
        begin = f"complete -c recollect -n '__recollect_is {name}'"
        rows += [
            f"{begin} {_fish_names(option)}{_fish_value(option)} -d {_fish_quoted(option.about)}"
            for option in one.options
            if not _is_global(option)
        ]
        rows += [f"{begin} -a {action}" for argument in one.arguments if (action := _fish_action(argument))]
    return _head("fish") + _FISH.lstrip("\n") + "\n".join(rows) + "\n"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _fish_names(option: OptionFacts) -> str:
    return " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)


def _fish_value(option: OptionFacts) -> str:
    if not option.value:
        return ""
    action = _fish_action(option)
    return f" -x -a {action}" if action else " -x"


def _fish_action(option: OptionFacts) -> str:
    if option.choices:
        return _fish_quoted(_words(option.choices))
    actions = {
        SESSION: "(__recollect_sessions)",
        DIRECTORY: "(__fish_complete_directories)",
        FILE: "(__fish_complete_path)",
    }
    return _fish_quoted(actions[option.kind]) if option.kind in actions else ""


SCRIPTS = {"bash": bash, "zsh": zsh, "fish": fish}
