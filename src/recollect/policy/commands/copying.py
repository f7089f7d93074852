"""Programs that take the names they write from their source: copies, moves, links, archives, git (C11).

``copy_of`` says what a copy names; ``unpacks`` and ``restored`` whether a command writes names that stand only in an
archive, a patch or git's index. All of it over-approximates: it serves asks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from recollect.policy.analysis import Command, Word
from recollect.policy.commands.options import names

_VALUED = {
    "cp": names("-S --suffix"),
    "mv": names("-S --suffix"),
    "ln": names("-S --suffix"),
    "install": names("-m -o -g -S --mode --owner --group --suffix"),
    "scp": names("-P -i -o -l -c -F -J -S"),
    "rsync": names(
        "-e --rsh --exclude --include --files-from --exclude-from --include-from -f --filter -B -T --port"
    ),
    "ditto": names("--arch"),
}
_TO_DIRECTORY = frozenset({"cp", "mv", "ln", "install"})
_RECURSIVE = re.compile(r"-[A-Za-z]*[rRa]|--(?:rec|arc)")
_FOLLOWS = re.compile(r"-[A-Za-z]*[LH]|--(?:der|copy-links)")
_TAR = names("tar bsdtar gtar")
_TAR_EXTRACTS = re.compile(r"-?[A-Za-z]*x[A-Za-z]*")
_ONLY_LISTS = re.compile(r"-[a-zA-Z]*[ltvZpcz]")
_PATCH_VALUED = names(
    "-i -p -d -o -B -D -F -r -V -Y -z -g --input --strip --directory --output --prefix --fuzz"
)
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


def bare_name(command: Command) -> str:
    """The program's name without its directory."""
    return (command.words[0].text or "").rsplit("/", 1)[-1] if command.words else ""


def copy_of(command: Command) -> Copy | None:
    """What a copying program names, or None for other programs."""
    name, words = bare_name(command), command.words[1:]
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
        text = word.text if word.text is not None else word.raw
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
    name, texts = bare_name(command), [word.text or "" for word in command.words[1:]]
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
    if bare_name(command) != "git" or position is None:
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
