"""Programs that run a text they are given in an option, a script or the environment (B15).

``texts_run_by`` over-approximates and serves denies: for the programs of ``_EVERY_WORD`` each word, and each value
attached to an option, may be a command. For git only the options that name a program count, because its operands are
often the names of programs (``git rm``). ``runs_unknown_text`` says whether such a text is made at run time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from recollect.policy.analysis import Command, Word
from recollect.policy.commands.options import names

_EVERY_WORD = names(
    "tar bsdtar ssh scp sftp split rsync make gmake zip tmux screen cmake npx bunx pnpx nix-shell expect gdb vim vi nvim"
    " ex view less man sqlite3 psql mysql socat nc ncat entr xterm dtach at batch watch run-parts parallel apt-get dpkg"
)
_SCRIPTS = names("sed gsed awk gawk mawk nawk")
_RUNNERS = names("npm pnpm yarn bun")
_RUNNER_VERBS = frozenset({"exec", "x", "dlx", "explore"})
_EXECUTES: dict[str, tuple[str, ...]] = {
    "tar": (
        "--to-command",
        "--checkpoint-action",
        "--use-compress-program",
        "-I",
        "--rsh-command",
        "--rmt-command",
    ),
    "ssh": ("-o",),
    "scp": ("-o", "-S"),
    "sftp": ("-o", "-S", "-D"),
    "rsync": ("-e", "--rsh", "--rsync-path"),
    "split": ("--filter",),
    "zip": ("-TT", "--unzip-command"),
    "sort": ("--compress-program",),
    "rg": ("--pre", "--hostname-bin"),
    "man": ("-P", "--pager", "-H", "--html"),
    "make": ("--eval", "-E", "SHELL"),
    "git": (
        *(
            "-c",
            "--exec",
            "-x",
            "-u",
            "--upload-pack",
            "--receive-pack",
            "--open-files-in-pager",
            "-O",
            "--extcmd",
        ),
        *(
            "--tree-filter",
            "--index-filter",
            "--msg-filter",
            "--env-filter",
            "--commit-filter",
            "--parent-filter",
        ),
        *("--tag-name-filter", "--setup", "--config-env"),
    ),
}
"""The options whose value is a program or a command."""
_GIT_RUNS = frozenset({("bisect", "run"), ("submodule", "foreach")})
_SAID = frozenset({"-m", "--message", "-F", "--author", "--grep", "--date", "-S", "-G"})
"""Options of git whose value is only text."""
_EXECUTED_NAME = re.compile(
    r"GIT_\w+|\w*PAGER|\w*EDITOR|VISUAL|LESS(?:OPEN|CLOSE)|BROWSER|SHELL|\w*_COMMAND|\w*ASKPASS|\w+_RSH|RSYNC_\w+"
    r"|TAR_OPTIONS|MAKEFLAGS|GNUMAKEFLAGS|BASH_ENV|ENV|PERL5OPT|NODE_OPTIONS|PYTHON(?:STARTUP|INSPECT)|RUBYOPT"
)
_SED_RUNS = re.compile(
    r"(?:^|[;{}\n!0-9$,/ ])e(?![a-zA-Z])|(?:^|[;{}\n!0-9$,/ ])e[a-z./]|[/,|#@:;][gpiIm0-9]*e"
)
_AWK_RUNS = re.compile(r"system|\||getline")
_INPUTS = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
_PIECES = re.compile(r"[/,|;{}\n\"]")


def texts_run_by(command: Command, name: str) -> Iterator[str]:
    """Texts that the program, or one that the environment names, may run."""
    words = [word.text if word.text is not None else word.raw for word in command.words[1:]]
    yield from _of_environment(command, words)
    if name in _EVERY_WORD or (name in _RUNNERS and _RUNNER_VERBS.intersection(words)):
        yield from (text for word in words for text in _values(word))
    elif name == "git":
        yield from _of_git(words)
    elif name in _SCRIPTS:
        runs = _SED_RUNS if name.endswith("sed") else _AWK_RUNS
        for word in (re.sub(r"^(?:-[a-zA-Z]*e|--e\w*=)", "", word) for word in words):
            if runs.search(word):
                pieces = (re.sub(r"^[\s0-9!$]*e\s*", "", piece) for piece in _PIECES.split(word))
                yield from (
                    *pieces,
                    *_PIECES.split(word),
                    re.sub(r"^.*?e ?", "", word, count=1, flags=re.DOTALL),
                )
    elif name in _EXECUTES:
        yield from _behind_options(words, _EXECUTES[name])


def _values(word: str) -> Iterator[str]:
    """The word, and what stands behind each ``=``, the letter of an option, a blank, or a function's name."""
    yield word
    rest = word
    while "=" in rest:
        rest = rest.partition("=")[2]
        yield rest
    if word.startswith("-") and not word.startswith("--"):
        yield word[2:]
    if " " in word:
        yield from word.split(None, 1)[-1:]
    yield from re.findall(r"\$[({](?:shell\s+)?(.*?)[)}]", word, re.DOTALL)
    if "\n" in word:
        yield from (line.strip("\t @-+") for line in word.splitlines())


def _of_git(words: Sequence[str]) -> Iterator[str]:
    yield from _behind_options(words, _EXECUTES["git"])
    for position, (before, word) in enumerate(pairwise(("", *words))):
        if word.startswith("!") and before not in _SAID:
            yield word[1:]
        if "ext::" in word:
            yield word.partition("ext::")[2]
        if (before, word) in _GIT_RUNS:
            yield from (" ".join(words[position + 1 :]), *words[position + 1 :])


def _behind_options(words: Sequence[str], known: tuple[str, ...]) -> Iterator[str]:
    for before, word in pairwise(("", *words)):
        if _is_one_of(before, known) and "=" not in before:
            yield from (value.lstrip("!") for value in _values(word))
        if _is_one_of(word, known):
            yield from (value.lstrip("!") for value in _values(word))


def _is_one_of(word: str, known: tuple[str, ...]) -> bool:
    """Whether the word is one of the options, abbreviated or with its value attached."""
    name = word.partition("=")[0]
    if word.startswith("--"):
        return len(name) > 3 and any(option.startswith(name) for option in known)
    return any(word.startswith(option) for option in known if not option.startswith("--"))


def _of_environment(command: Command, words: Sequence[str]) -> Iterator[str]:
    """Values of variables that programs run: before the command, or in the words of ``env`` and ``export``."""
    for name, value in command.assignments:
        text = value.text if value.text is not None else value.raw
        if _EXECUTED_NAME.fullmatch(name) or text.startswith("!"):
            yield from _executed(text)
    if command.words and command.words[0].text in ("env", "export", "declare", "typeset", "sudo"):
        for word in words:
            name, equals, text = word.partition("=")
            if equals and _EXECUTED_NAME.fullmatch(name):
                yield from _executed(text)


def _executed(value: str) -> Iterator[str]:
    yield from (text.lstrip("!") for text in _values(value))


def reads_its_program(command: Command, name: str) -> bool:
    """Whether the file that ``make -f``, ``awk -f`` or ``sed -f`` reads its rules from is the command's input."""
    if name not in _SCRIPTS and name not in ("make", "gmake"):
        return False
    texts = [word.text or "" for word in command.words[1:]]
    return any(
        text.startswith(("-f", "--file", "--makefile")) and (value or after) in _INPUTS
        for text, after in pairwise((*texts, ""))
        for value in (text.partition("=")[2] or (text[2:] if not text.startswith("--") else ""),)
    )


def runs_unknown_text(command: Command, name: str) -> bool:
    """Whether a text that the program would run is known only to the shell."""
    if any(value.text is None and _EXECUTED_NAME.fullmatch(key) for key, value in command.assignments):
        return True
    known = _EXECUTES.get(name, ())
    unknown = [word for word in command.words[1:] if word.text is None]
    if not unknown:
        return False
    if name in _SCRIPTS or name in ("tmux", "screen", "npx") or (name == "ssh" and len(command.words) > 2):
        return name not in _SCRIPTS or _script_unknown(command.words[1:])
    return any(
        after.text is None and (_is_one_of(_plain(after), known) or _is_one_of(_plain(before), known))
        for before, after in pairwise(command.words)
    )


def _script_unknown(words: Sequence[Word]) -> bool:
    first = next((word for word in words if not (word.text or "").startswith("-")), None)
    return first is not None and first.text is None


def _plain(word: Word) -> str:
    return word.raw.strip("\"'") if word.text is None else word.text
