"""Which files a command names, reads and writes (R14), and which names it takes from elsewhere (C11).

This over-approximates and serves denies and asks. For a known file program every word that may be a path counts as one,
except words known to be something else. When the options are not understood, every other word counts, and so does a
value attached to an option. Programs that are not listed name no files here: the sandbox limits what an arbitrary
process opens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from recollect.guard.policy.command_lines import listed, lists
from recollect.guard.policy.terms import Command, Word, names

Use = tuple[str, str]


_READERS = listed("readers")
_WRITERS = listed("writers")
_LAST_IS_WRITTEN = frozenset({"cp", "mv", "ln", "install", "rsync", "scp", "ditto", "link"})
_PATTERN_FIRST = listed("pattern_first")
_RESPONSE_FILES = frozenset({"strings", "nm", "size", "objdump", "ar", "curl"})
"""Programs for which ``@FILE`` stands for the words in a file."""
_SCRIPT_OPTIONS = frozenset({"-e", "-f", "--regexp", "--file", "--expression", "-E"})
_NUMBERED = names("-n -c -w -k -t -A -B -C -m -s -l -j -N")
_WRITE_OPTIONS = listed("write_options")
_FILE_OPTIONS = frozenset({"-o", "-O", "-t", "-f", "-T", "-K", "-d"})
"""Short options whose value may be attached to them and may name a file."""
_JQ_IMPORTS = re.compile(r"import|include")
_IN_PLACE = re.compile(r"-[A-Za-z]*i.*|--in-place.*")
_SED_FILES = re.compile(r"(?:^|[;{}\s/0-9$gpI])([wWrR])\s*([^\s;}]+)")


def file_operands(command: Command) -> tuple[Use, ...]:
    """("read" | "write", path as written) for every file the command names, redirects included."""
    found = list(_redirected(command))
    name = command.name
    rest = command.words[1:]
    if name == "dd":
        for text in (text for word in rest for text in possible_values(word)):
            found += [("read", text[3:])] if text.startswith("if=") else []
            found += [("write", text[3:])] if text.startswith("of=") else []
    elif name in _READERS or name in _WRITERS or name in _LAST_IS_WRITTEN:
        found.extend(_of_program(name, rest))
    return tuple(dict.fromkeys(found))


def _redirected(command: Command) -> Iterator[Use]:
    for redirect in command.redirects:
        if redirect.target is None:
            continue
        for path in possible_values(redirect.target):
            if "<" in redirect.operator:
                yield "read", path
            if redirect.writes:
                yield "write", path


def possible_values(word: Word) -> tuple[str, ...]:
    return (word.text,) if word.text is not None else word.likely


def _of_program(name: str, rest: Sequence[Word]) -> Iterator[Use]:
    paths, written, scripted = _split(name, rest)
    if name in _PATTERN_FIRST and not scripted and paths:
        if name == "sed":
            yield from _sed_script(paths[0])
        paths = paths[1:]
    if name == "jq":
        yield from _jq_imports(rest)
    in_place = name in {"sed", "perl"} and any(_IN_PLACE.fullmatch(word.text or "") for word in rest)
    to_directory = any((word.text or "").startswith(("-t", "--target-directory")) for word in rest)
    for position, word in enumerate(paths):
        last = position == len(paths) - 1 and (position > 0 or name == "ln")
        for path in possible_values(word):
            if path.startswith("@") and name in _RESPONSE_FILES:
                yield "read", path[1:]
            if name in _READERS or (name in _LAST_IS_WRITTEN and (not last or to_directory)):
                yield "read", path
            if name in _WRITERS or in_place or (name in _LAST_IS_WRITTEN and last):
                yield "write", path
    yield from written


def _split(name: str, rest: Sequence[Word]) -> tuple[list[Word], list[Use], bool]:
    """Words that may be paths, files named by options, and whether an option gave the pattern."""
    paths: list[Word] = []
    named: list[Use] = []
    scripted = options_over = False
    previous = ""
    for word in rest:
        text = word.text
        if text == "--" and not options_over:
            options_over = True
        elif text is not None and text.startswith("-") and text != "-" and not options_over:
            scripted = (
                scripted or text in _SCRIPT_OPTIONS or text.startswith(("-e", "--regexp=", "--expression="))
            )
            named.extend(_glued(text))
        elif previous in _WRITE_OPTIONS and name not in _PATTERN_FIRST:
            named.extend(("write", path) for path in possible_values(word))
        elif previous in {"-e", "--regexp", "--expression"} and name in _PATTERN_FIRST:
            if name == "sed":
                named.extend(_sed_script(word))
        elif not (previous in _NUMBERED and (text or "").lstrip("+-").isdecimal()):
            paths.append(word)
        previous = "" if options_over else text or ""
    return paths, named, scripted


def _glued(text: str) -> Iterator[Use]:
    """``--file=path``, ``-opath``, ``-d@path``: the value may be a file, read or written."""
    name, equals, value = text.partition("=")
    if equals and value:
        yield ("write" if name in _WRITE_OPTIONS else "read"), value.lstrip("@")
    elif len(text) > 2 and text[:2] in _FILE_OPTIONS:
        yield ("write" if text[:2] in _WRITE_OPTIONS else "read"), text[2:].lstrip("@")


def _sed_script(word: Word) -> Iterator[Use]:
    for text in possible_values(word):
        for letter, path in _SED_FILES.findall(text):
            yield ("write" if letter in "wW" else "read"), path


def _jq_imports(rest: Sequence[Word]) -> Iterator[Use]:
    """``import "x" as $d`` reads ``x.json``, or ``x.jq``; every directory that is named may be the one it is in."""
    texts = [text for word in rest for text in possible_values(word)]
    directories = ["", *(f"{text.removeprefix('-L')}/" for text in texts if not _JQ_IMPORTS.search(text))]
    for text in texts:
        if not _JQ_IMPORTS.search(text):
            continue
        quoted = re.findall(r'"([^"]*)"', text)
        for directory in (*directories, *(f"{one}/" for one in quoted)):
            for one in quoted:
                yield from (("read", f"{directory}{one}{ending}") for ending in ("", ".json", ".jq"))


_VALUED = lists("copying_valued")
_TO_DIRECTORY = frozenset({"cp", "mv", "ln", "install"})
_RECURSIVE = re.compile(r"-[A-Za-z]*[rRa]|--(?:rec|arc)")
_FOLLOWS = re.compile(r"-[A-Za-z]*[LH]|--(?:der|copy-links)")
_TAR = names("tar bsdtar gtar")
_TAR_EXTRACTS = re.compile(r"-?[A-Za-z]*x[A-Za-z]*")
_ONLY_LISTS = re.compile(r"-[a-zA-Z]*[ltvZpcz]")
_PATCH_VALUED = listed("patch_valued")
_MAGIC = re.compile(r"^:|[*?\[]")


@dataclass(frozen=True, slots=True)
class Copy:
    """Sources and where they go. ``into`` says that the target is a directory by the way it is written."""

    program: str
    sources: tuple[Word, ...]
    target: Word | None
    into: bool = False
    as_file: bool = False
    deep: bool = False
    """It takes whole directories along."""
    follows: bool = False
    with_parents: bool = False
    created: tuple[Word, ...] = ()
    """Directories that ``install -d`` makes."""


def copy_of(command: Command) -> Copy | None:
    """What a copying program names, or None for other programs."""
    name, words = command.name, command.words[1:]
    if name == "git" and "mv" in [word.text for word in words[:4]]:
        name, words = "mv", words[[word.text for word in words].index("mv") + 1 :]
    if name not in _VALUED:
        return None
    flags, operands, target = _taken_apart(name, words)
    if name == "install" and any(re.fullmatch(r"-[a-zA-Z]*d|--dir\w*", flag) for flag in flags):
        return Copy(name, (), None, created=tuple(operands))
    into = target is not None
    if target is None and len(operands) > 1:
        target = operands.pop()
    elif target is None and name == "ln" and operands:
        target, into = Word(".", "."), True
    return Copy(
        name,
        tuple(operands),
        target,
        into=into or len(operands) > 1 or (target is not None and (target.text or "").endswith("/")),
        as_file=any(re.fullmatch(r"-[a-zA-Z]*T|--no-t\w*", flag) for flag in flags),
        deep=name in ("mv", "ln", "rsync", "ditto") or any(map(_RECURSIVE.match, flags)),
        follows=any(map(_FOLLOWS.match, flags)),
        with_parents="--parents" in flags or any(flag.startswith("--pare") for flag in flags),
    )


def _taken_apart(name: str, words: Sequence[Word]) -> tuple[list[str], list[Word], Word | None]:
    """The flags, the operands, and the directory that ``-t`` names."""
    flags: list[str] = []
    operands: list[Word] = []
    target: Word | None = None
    waiting, only_operands = "", False
    for word in words:
        text = word.seen
        if waiting:
            target = word if waiting == "target" else target
            waiting = ""
        elif only_operands or not text.startswith("-") or text == "-":
            operands.append(word)
        elif text == "--":
            only_operands = True
        elif name in _TO_DIRECTORY and (
            found := re.fullmatch(r"--t\w*(?:-\w+)?(?:=(.*))?|-[a-zA-Z]*?t(.*)", text)
        ):
            value = found.group(1) or found.group(2)
            target = Word(value, value) if value else target
            waiting = "" if value else "target"
            flags.append(text.partition("t")[0] if not text.startswith("--") else text)
        else:
            flags.append(text)
            waiting = "value" if text in _VALUED[name] else ""
    return flags, operands, target


def unpacks(command: Command) -> str | None:
    """What holds the names that the command writes, when they are not in its words."""
    name, texts = command.name, [word.text or "" for word in command.words[1:]]
    if name in _TAR:
        first = texts[:1] if texts and not texts[0].startswith("-") else []
        short = [*first, *(text for text in texts if re.fullmatch(r"-[A-Za-z]+", text))]
        extracts = any(map(_TAR_EXTRACTS.fullmatch, short)) or any(
            (text.startswith(("--ex", "--get", "--ge")) and "--extract".startswith(text[:9]))
            or text == "--get"
            for text in texts
        )
        return "an archive" if extracts else None
    if name == "unzip":
        return None if any(map(_ONLY_LISTS.match, texts)) else "an archive"
    if name == "cpio":
        return "an archive" if any(re.match(r"-\w*[ip]|--extract|--pass", text) for text in texts) else None
    if name in ("7z", "7za", "7zr", "unrar", "jar", "ar"):
        return "an archive" if texts and re.match(r"-?(?:x|e$)", texts[0]) else None
    if name == "patch":
        # With a file to change among its words, the names in the patch do not count.
        named = any(
            text and not text.startswith("-")
            for before, text in pairwise(("", *texts))
            if before not in _PATCH_VALUED
        )
        return None if named or "--dry-run" in texts else "a patch"
    return None


def restored(command: Command) -> tuple[list[Word], str | None]:
    """The paths that git writes from its index or a commit, and why more of them cannot be known."""
    texts = [word.text or "" for word in command.words[1:]]
    position = next((index for index, text in enumerate(texts) if text in _RESTORES), None)
    if command.name != "git" or position is None:
        return [], None
    verb, words = texts[position], command.words[position + 2 :]
    flags = [word.text or "" for word in words if (word.text or "-").startswith("-")]
    if verb in ("apply", "am"):
        only_says = {"--stat", "--check", "--numstat", "--summary", "--abort", "--quit", "--skip"}
        return [], None if only_says.intersection(flags) else "a patch"
    if verb == "read-tree":
        return [], "a commit" if any(flag.startswith("-") and "u" in flag for flag in flags) else None
    if verb == "checkout-index" and any(re.match(r"-[a-z]*a|--all|--stdin", flag) for flag in flags):
        return [], "the index"
    if any(flag.startswith("--pathspec-f") for flag in flags):
        return [], "a list of paths"
    operands = [word for word in words if not (word.text or "").startswith("-")]
    magic = any(_MAGIC.search(word.text or "") or word.globs for word in operands)
    return operands, "a pattern of paths" if magic else None


_RESTORES = frozenset({"checkout", "restore", "checkout-index", "read-tree", "apply", "am"})


UNKNOWN = "\x01"
"""Stands for a path that cannot be known."""

_LISTERS = listed("listers")
_GIT_SHOWS = listed("git_shows")
_ALWAYS_DEEP = frozenset({"rg", "ag", "ack", "rgrep", "tar", "rsync"})
_DEEP_BY_FLAG = frozenset({"grep", "egrep", "fgrep", "zgrep", "cp", "scp", "zip", "diff"})
_READS_DEEP = re.compile(r"-[A-Za-z]*[rRad]|--rec|--dereference-r|--arc|--di")
"""Also ``-d recurse`` of grep in every spelling; that ``-d`` may say something else costs a question."""
_SHOWS_FILES = listed("shows_files")
_GIT_LISTS = frozenset({"ls-files", "--name-only", "-l", "--files-with-matches"})
_MATCHING_NAMES = frozenset({"-l", "-rl", "-lr", "-Rl", "-ril", "-rli", "--files", "--files-with-matches"})
_FILTERS = names("head tail sort uniq grep egrep tac rev")
_TAKES_WORD = re.compile(r"-[A-Za-z]*[defmABC]|--(?:dir|reg|fil|max|aft|bef|con|inc|exc)[\w-]*")
_HEREDOC = re.compile(r'"\$\(\s*cat\s+<<(-?)\s*([\'"])(\w+)\2[ \t]*\n(.*)\n(\t*)\3[ \t]*\n\s*\)"', re.DOTALL)


def shown_files(command: Command) -> list[str]:
    """Words of a listing or git command that may be files it shows; Read denies apply to them too."""
    name = command.name
    words = [word.text for word in command.words[1:] if word.text and not word.text.startswith("-")]
    if name in _LISTERS:
        return words
    if name == "git" and words and words[0] in _GIT_SHOWS:
        return [path for word in words[1:] for path in (word, word.partition(":")[2]) if path]
    return []


def swept(command: Command) -> list[str]:
    """The directories that the command reads recursively."""
    name = command.name
    if name == "git":
        return _swept_by_git(command)
    if name == "xargs":
        return ["."] if any(word.text in _SHOWS_FILES for word in command.words[1:]) else []
    flags = [word.text or "" for word in command.words[1:] if (word.text or "").startswith("-")]
    if name not in _ALWAYS_DEEP and not (name in _DEEP_BY_FLAG and any(map(_READS_DEEP.match, flags))):
        return []
    words = [word.text for word in command.words[1:] if word.text and not word.text.startswith("-")]
    searches = name not in ("cp", "scp", "zip", "diff", "tar", "rsync")
    # A value of an option counts as a word here; without a place behind the pattern it is the working directory.
    values = sum("=" not in flag and _TAKES_WORD.fullmatch(flag) is not None for flag in flags)
    return [*words, "."] if len(words) <= searches + values else words


def _swept_by_git(command: Command) -> list[str]:
    """``git grep`` searches files, with ``--untracked`` and ``--no-index`` also those that git does not know."""
    texts = [word.text or "" for word in command.words[1:]]
    words = [text for text in texts if text and not text.startswith("-")]
    if words[:1] == ["diff"] and "--no-index" in texts:
        return words[1:]
    if "grep" not in words[:2]:
        return []
    words = words[words.index("grep") + 1 :]
    return [*words, "."] if len(words) <= 1 else words


def fed_with_names(before: Sequence[Command]) -> bool:
    """Whether the commands before a pipe only list names of files: then ``xargs`` hands on nothing else."""
    for command in reversed(before):
        name = command.name
        texts = {word.text or "" for word in command.words[1:]}
        if name in ("find", "ls", "fd", "fdfind") or (name == "git" and texts & _GIT_LISTS):
            return True
        if name in ("grep", "egrep", "rg") and texts & _MATCHING_NAMES:
            return True
        if name not in _FILTERS or not command.piped:
            return False
    return False


def names_unknown_file(command: Command) -> bool:
    """Whether a known file program has a word of unknown value."""
    if not command.words or command.argv is not None:
        return False
    marked = (Word(word.raw, UNKNOWN, word.globs) if word.text is None else word for word in command.words)
    return any(UNKNOWN in path for _, path in file_operands(replace(command, words=tuple(marked))))


def with_known_heredocs(command: Command) -> Command:
    """Replace ``"$(cat <<'EOF' … EOF)"`` by its constant text: commit messages are often written this way."""
    if command.argv is not None:
        return command
    return replace(command, words=tuple(map(_known, command.words)))


def _known(word: Word) -> Word:
    found = _HEREDOC.fullmatch(word.raw) if word.text is None else None
    if not found:
        return word
    dash, _, delimiter, body, indent = found.groups()
    lines = body.split("\n")
    if dash:
        lines = [line.lstrip("\t") for line in lines]
    # A line that ends the heredoc earlier would leave the rest to the shell.
    if (indent and not dash) or any(line.rstrip() == delimiter for line in lines):
        return word
    return Word(word.raw, "\n".join(lines).rstrip("\n"))
