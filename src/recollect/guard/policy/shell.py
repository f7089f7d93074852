"""What a shell text would run, without running it: its commands, and the commands inside them.

``analyse`` uses two independent parsers: our strict reader and tree-sitter-bash. A text is understood only where both
agree. Otherwise ``unanalysable`` lists the reasons and ``suspects`` every word the text might start. It never raises.

Each command has two views. The *allow view* removes only the few wrappers that change nothing (R8), and only when every
word of the wrapper is understood. The *deny views* remove everything known to start another program (R9); where a
wrapper's line is not understood, a command may begin at every later word.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, pairwise

from recollect.guard.policy.command_lines import listed, take_apart, wrappers
from recollect.guard.policy.programs import builtin_doubts, doubtful_names, reads_its_program, texts_run_by
from recollect.guard.policy.shell_quoting import character_doubts, pieces, tokens
from recollect.guard.policy.shell_reader import NOT_SHOWN, Borders, ShellReader, Span, borders
from recollect.guard.policy.shell_words import Unclear
from recollect.guard.policy.terms import Analysis, Command, Word

__all__ = ["analyse", "commands_in"]


def analyse(text: str) -> Analysis:
    commands, reasons, wary = _read(text)
    suspects = _started(commands)
    if reasons:
        suspects |= tokens(text)
    return Analysis(text, commands, reasons, wary, suspects)


def commands_in(text: str) -> tuple[tuple[Command, ...], tuple[str, ...]]:
    """The commands and the doubts, without the search for suspects."""
    return _read(text)[:2]


def _read(text: str) -> tuple[tuple[Command, ...], tuple[str, ...], tuple[str, ...]]:
    doubts = character_doubts(text)
    if doubts:
        return pieces(text), tuple(doubts), ()
    reader = ShellReader(text)
    try:
        reader.read()
    except Unclear as unclear:
        return (*reader.seen, *pieces(text)), (str(unclear), *reader.doubts), ()

    commands = tuple(reader.seen)
    for reason in doubtful_names(reader.assigned_names):
        reader.doubt(reason)
    for command in commands:
        for reason in builtin_doubts(command):
            reader.doubt(reason)
        if inside := hidden(command):
            reader.doubt(inside)
    if reader.doubts:
        return commands, tuple(reader.doubts), ()
    if borders(text) != _borders(reader):
        return (*commands, *pieces(text)), ("two parsers read it differently",), ()
    return commands, (), tuple(reader.wary)


def _borders(reader: ShellReader) -> Borders:
    """Our commands and arguments in tree-sitter's terms: byte offsets."""
    starts: list[int] = []
    arguments: list[Span] = []
    for command, spans in zip(reader.seen, reader.spans, strict=True):
        if spans:
            starts.append(spans[0][0])
            if command.words[0].raw not in NOT_SHOWN:
                arguments.extend(spans[1:])
    place = [0, *accumulate(len(letter.encode()) for letter in reader.text)]
    return frozenset(place[start] for start in starts), frozenset(
        (place[start], place[end]) for start, end in arguments
    )


def _started(commands: tuple[Command, ...]) -> frozenset[str]:
    """The names of all commands and of those inside their wrappers, with and without directory."""
    names = {
        view.words[0].text or view.words[0].raw
        for command in commands
        for view in deny_views(command)
        if view.words
    }
    return frozenset(names | {name.rsplit("/", 1)[-1] for name in names})


_STRIPPED = wrappers("stripped")
"""R8: the wrapper's options, and the number of operands before the command."""
_PLAIN_WRAPPERS = frozenset({"timeout", "command", "builtin"})
"""Those that leave a read-only command read-only, ``timeout`` without options."""
_XARGS_LOOKS = frozenset({"echo", "printf", "wc", "grep", "head", "tail"})
"""Programs to which ``xargs`` may hand any word without making them dangerous."""

_SEEN_THROUGH = wrappers("seen_through")
"""Wrappers that denies unwrap (R9). With an unlisted option, every later word may begin a command."""

_ANY_LATER = listed("any_later")
"""Command lines too complex to describe: every later word may begin a command."""
_STARTERS = listed("starters")
"""Programs that exist to start another one, by too many options to describe: every later word may begin a command."""
_LOADER = re.compile(r"ld(?:-linux[\w.-]*|-musl[\w.-]*|-\d[\w.]*|64)?\.so(?:\.\d+)?")
"""The program loader: it runs the program whose file it is given."""
_SHELLS = listed("shells")
_ALWAYS_ASK = frozenset({"watch", "setsid", "ionice", "flock"})
_FIND_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_FIND_CHANGES = _FIND_RUNS | {"-delete", "-fprint", "-fprint0", "-fprintf", "-fls"}
_TEXT_COMMANDS = frozenset({"eval", "trap", "alias"})
_MOST_WRAPPERS = 20
"""The most nested harmless wrappers that an allow rule accepts."""
_TEXTUAL = re.compile(r"[ \t\n;|&$`(]")
_LATER_WORDS = 16
"""Words in the views begun at every later word; long enough for any prefix rule in use."""
_MOST_VIEWS = 64
"""Command lines unwrapped one by one; beyond this the rest is searched word by word."""
_MOST_WORDS = 2_000
_INPUT = re.compile(r"-s|-[a-z]*s|/dev/stdin|/dev/fd/\d+|/proc/(?:self|thread-self|\d+)/fd/\d+")
"""Words that make a shell read its commands from a descriptor."""
_DEEPEST_TEXT = 6
"""Levels of ``sh -c`` parsed as shell text; below them only words are searched."""


def _beginning_at(command: Command, position: int) -> Command:
    words = command.words[position:]
    raw = " ".join(word.raw for word in words)
    return Command(raw, words, (), command.redirects, command.piped, command.nested)


# -- the allow view ------------------------------------------------------------------------------


def looking_view(command: Command) -> Command | None:
    """The command that must be read-only to run without a rule; None when a wrapper hides it."""
    view: Command | None = command
    for _ in range(_MOST_WRAPPERS):
        name = view.words[0].text if view and view.words else None
        if view is None or name not in _PLAIN_WRAPPERS | {"xargs"}:
            return view
        if (
            name == "timeout"
            and len(view.words) > 2
            and view.words[2].text in ("command", "builtin", "cd", "[")
        ):
            return None
        if name == "timeout" and (view.words[1:2] == () or (view.words[1].text or "-").startswith("-")):
            return None
        if name == "xargs" and (len(view.words) < 2 or view.words[1].text not in _XARGS_LOOKS):
            return None
        view = _stripped(view, name)
    return None


def gated_view(command: Command) -> Command:
    """The command whose paths are checked: behind every wrapper that only starts it."""
    view = command
    for _ in range(_MOST_WRAPPERS):
        name = view.words[0].text if view.words else None
        inner = next(_under_env(view), None) if name == "env" else None
        if name not in ("env", "xargs"):
            inner = _stripped(view, name)
        if inner is None or not inner.words:
            return view
        view = replace(inner, redirects=command.redirects)
    return view


def allow_view(command: Command) -> Command | None:
    """The command that allow rules are compared with; None when no prefix rule may cover it (R9)."""
    view = command
    for _ in range(_MOST_WRAPPERS):
        if not view.words:
            return view
        name = view.words[0].text
        changing = (
            word.text is None or word.globs or word.text in _FIND_CHANGES
            for word in view.words[1:]
            if word.text is None or word.text.startswith("-")
        )
        if view.name in _ALWAYS_ASK or (view.name == "find" and any(changing)):
            return None
        inner = _stripped(view, name)
        if inner is None:
            return view
        view = inner
    return None


def _stripped(view: Command, name: str | None) -> Command | None:
    """The command inside a wrapper that changes nothing; None when there is no such wrapper."""
    if name == "xargs":
        return _under_xargs(view)
    if name not in _STRIPPED:
        return None
    known, before = _STRIPPED[name]
    line = take_apart(view.words[1:], known)
    if line is None or len(line.operands) <= before:
        return None
    if line.has("-V") or (name == "command" and line.has("-v")):
        return None
    if name == "stdbuf" and any(word.text in known.valued for word in view.words):
        return None
    if any(word.text is None or word.globs for word in line.operands[: before + 1]):
        return None
    inner = _beginning_at(view, 1 + line.rest + before)
    # A word with = before the command is an argument here, not an assignment: env is not R8.
    return replace(inner, assignments=view.assignments)


def _under_xargs(view: Command) -> Command | None:
    if len(view.words) < 2 or (view.words[1].text or "-").startswith("-") or view.words[1].globs:
        return None
    inner = _beginning_at(view, 1)
    # xargs adds words from its input, which are not known yet.
    return replace(inner, words=(*inner.words, Word("…", None)), assignments=view.assignments)


# -- what a wrapper hides ------------------------------------------------------------------------


def hidden(command: Command) -> str | None:
    """Why the inner command cannot be known: ``env $X``, ``find -exec $X``, ``sh -c "$X"``."""
    view, filled = command, ""
    for _ in range(_MOST_WRAPPERS):
        name = view.name
        if name in _SHELLS or not (name in _STRIPPED or name in _SEEN_THROUGH):
            return _hidden_in(view, name, filled)
        known, before = _STRIPPED.get(name) or _SEEN_THROUGH[name]
        line = take_apart(view.words[1:], known)
        if name in _ANY_LATER or line is None:
            return None if name in _ANY_LATER else f"{name} with options that are not understood"
        if len(line.operands) <= before:
            return f"{name} takes its command from its input" if filled else None
        if name == "xargs":
            # What it replaces by its input; a blank when it only adds words at the end.
            default = "{}" if line.has("-i", "--replace") else " "
            filled = next(iter(line.values("-I", "-i", "--replace")), default)
        view = _behind_assignments(view, 1 + line.rest + before)
        if view.words[0].text is None or view.words[0].globs:
            return f"variable in command position behind {name}"
        if filled.strip() and filled in view.words[0].text:
            return f"a name in command position that {name} reads from its input"
    return "wrappers around wrappers"


def _hidden_in(view: Command, name: str, filled: str) -> str | None:
    """The same for a command that is no plain wrapper."""
    if name in _SHELLS:
        return _hidden_text(view, name, filled)
    if name == "find":
        runs = any(
            word.text is None and (word.raw.startswith(("$", "`")) or before.text in _FIND_RUNS)
            for before, word in pairwise(view.words)
        )
        return "find with words that are not known" if runs else None
    if reads_its_program(view, name):
        return f"{name} takes its commands from its input"
    if starts_any(name) and any(word.text is None for word in view.words):
        return f"{name} with words that are not known"
    return None


def _hidden_text(view: Command, name: str, filled: str) -> str | None:
    texts = _behind_c([word.seen for word in view.words[1:]])
    if not texts and any(_INPUT.fullmatch(word.text or "") for word in view.words[1:]):
        return f"{name} takes its commands from its input"
    if filled.strip() and any(filled in text for text in texts):
        return f"{name} with a text that is not known"
    if not texts and all((word.text or "-").startswith(("-", "…")) for word in view.words[1:]):
        versions = {"--version", "--help"}
        only_says = any(word.text in versions for word in view.words[1:])
        return None if only_says else f"{name} takes its commands from its input"
    if any(word.text is None for word in view.words):
        return f"{name} with a text that is not known"
    # One level only: deeper texts are words of this one and are still searched for denied names.
    return next((f"inside {name}: {reason}" for text in texts for reason in commands_in(text)[1]), None)


# -- the deny views ------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def deny_views(command: Command) -> tuple[Command, ...]:
    """The command and every command that may run inside it, also by names without their directory.

    Cached: the analysis needs the views for its suspects, then the judge for its rules.
    """
    return tuple(_views(command))


def _views(command: Command) -> Iterator[Command]:
    waiting, met = deque([(command, 0)]), set[tuple[str, str | None]]()
    while waiting:
        view, depth = waiting.popleft()
        key = (view.raw, view.words[0].text if view.words else None)
        if key in met:
            continue
        met.add(key)
        yield view
        if len(met) == _MOST_VIEWS or len(command.words) > _MOST_WORDS:
            # From here on words instead of whole lines: linear, and every word is still checked.
            yield from _later(command, 1)
            for word in command.words:
                if _TEXTUAL.search(word.raw):
                    yield from pieces(word.raw)
            return
        for guess in _guessed(view):
            waiting.append((guess, depth))
        # `/bin/RM` is rm where file names ignore case.
        if not (name := view.name.lower()):
            continue
        if name != view.words[0].text:
            bare = replace(view.words[0], raw=name, text=name)
            words = (bare, *view.words[1:])
            waiting.append((replace(view, words=words, raw=" ".join(word.raw for word in words)), depth))
            continue
        waiting.extend((inner, depth) for inner in _inside(view, name))
        waiting.extend((inner, depth + 1) for inner in _texts_inside(view, name, depth))


def _guessed(view: Command) -> Iterator[Command]:
    """The command with variables replaced by the values that the text assigns to them."""
    if not any(word.likely for word in view.words):
        return
    most = max((len(word.likely) for word in view.words if word.text is None), default=0)
    for index in range(most):
        words = tuple(
            Word(guess, guess)
            for word in view.words
            for guess in (
                [word.text or ""] if word.text is not None else _guess_of(word, index, word is view.words[0])
            )
        )
        if words:
            yield replace(view, words=words, raw=" ".join(word.raw for word in words))


def _guess_of(word: Word, index: int, first: bool) -> list[str]:
    if not word.likely:
        return [word.raw]
    guess = word.likely[min(index, len(word.likely) - 1)]
    # Unquoted, `X="rm -rf"; $X y` is split at blanks.
    return guess.split() if first or not word.raw.startswith('"') else [guess]


def _inside(view: Command, name: str) -> Iterator[Command]:
    if name == "env":
        yield from _under_env(view)
    elif name == "find":
        for position, word in enumerate(view.words[:-1]):
            if word.text in _FIND_RUNS:
                yield _beginning_at(view, position + 1)
                ends = (
                    index
                    for index, one in enumerate(view.words)
                    if index > position and one.text in (";", "+")
                )
                words = view.words[position + 1 : next(ends, None)]
                yield Command(" ".join(one.raw for one in words), words, nested=True)
    elif name in {"ssh", "mosh"}:
        yield from _later(view, 2)
    elif (
        name in _ANY_LATER
        or starts_any(name)
        or (
            name in ("npm", "pnpm", "yarn", "bun")
            and any(word.text in ("exec", "x", "dlx") for word in view.words)
        )
    ):
        yield from _later(view, 1)
    elif name in _STRIPPED or name in _SEEN_THROUGH:
        known, before = _STRIPPED.get(name) or _SEEN_THROUGH[name]
        line = take_apart(view.words[1:], known)
        if line is None:
            yield from _later(view, 1)
        elif len(line.operands) > before and not (name == "command" and line.has("-v", "-V")):
            yield _behind_assignments(view, 1 + line.rest + before)


def starts_any(name: str) -> bool:
    """Whether the program exists to start another one that its words name."""
    return name in _STARTERS or _LOADER.fullmatch(name) is not None


def _behind_assignments(view: Command, position: int) -> Command:
    """``sudo X=1 rm``: the command begins after the words with an equals sign."""
    while position + 1 < len(view.words) and "=" in view.words[position].seen:
        position += 1
    return _beginning_at(view, position)


def _under_env(view: Command) -> Iterator[Command]:
    """``env`` takes assignments before the command, and ``-S`` splits a string into one."""
    known, _ = _SEEN_THROUGH["env"]
    line = take_apart(view.words[1:], known)
    if line is None:
        yield from _later(view, 1)
        for word in view.words[1:]:
            pieces = (word.text or "").removeprefix("-S").removeprefix("--split-string=").split()
            for position in range(
                min(len(pieces), _LATER_WORDS) if len(pieces) > 1 or "-S" in word.raw else 0
            ):
                words = tuple(Word(piece, piece) for piece in pieces[position:])
                yield Command(" ".join(pieces[position:]), words, nested=True)
        return
    if line.operands:
        yield _behind_assignments(view, 1 + line.rest)


def _later(view: Command, first: int) -> Iterator[Command]:
    """A view begun at every later word, for lines that are not understood."""
    for position in range(first, len(view.words)):
        words = view.words[position : position + _LATER_WORDS]
        yield Command(" ".join(word.raw for word in words), words, (), (), view.piped, True)


def _texts_inside(view: Command, name: str, depth: int) -> Iterator[Command]:
    """Commands in arguments that a shell will parse as text."""
    texts: list[str] = []
    words = [word.seen for word in view.words[1:]]
    if name in _SHELLS or name in {"su", "runuser", "script", "watch", "flock", "sg", "busybox"}:
        texts = [word for word in words if _TEXTUAL.search(word)] + _behind_c(words)
    elif name in _TEXT_COMMANDS:
        texts = [" ".join(words), *(word.partition("=")[2] or word for word in words)]
    elif name in {"ssh", "mosh", "parallel", "xargs", "env", "sudo", "doas"}:
        texts = [word for word in words if _TEXTUAL.search(word)]
        texts += [" ".join(words[1:])] if name in {"ssh", "mosh"} else []
    texts += texts_run_by(view, name)
    for text in dict.fromkeys(texts) if depth <= _DEEPEST_TEXT else ():
        found = commands_in(text)[0] if depth < _DEEPEST_TEXT else pieces(text)
        yield from (replace(command, nested=True) for command in found)


def _behind_c(words: list[str]) -> list[str]:
    """The argument of ``-c``, also in combined options (``-lc``, ``-ec``)."""
    return [
        after
        for before, after in pairwise(words)
        if before.startswith("-") and before.endswith(("c", "--command"))
    ] + [word.partition("=")[2] for word in words if word.startswith(("--command=", "--session-command="))]
