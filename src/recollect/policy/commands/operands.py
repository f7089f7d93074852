"""Which files a command names, so that Read and Edit denies also cover Bash (R14).

This over-approximates. For a known file program every word that may be a path counts as one, except
words known to be something else (grep's pattern, sed's script, an option's number). When the options
are not understood, every other word counts, and so does a value attached to an option. Values of
variables come from ``Word.likely``. Programs that are not listed name no files here: the sandbox limits
what an arbitrary process opens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from recollect.policy.analysis import Command, Word

Use = tuple[str, str]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_READERS = _names(
    "cat head tail less more most nl od xxd hexdump base64 base32 wc diff cmp comm cut tac rev strings file fold fmt"
    " paste join column numfmt uniq sort split csplit md5sum sha1sum sha224sum sha256sum sha384sum sha512sum cksum b2sum sum"
    " zcat bzcat xzcat zstdcat gunzip gzip bzip2 xz zstd bat batcat view vi vim nvim nano emacs ed ex source . open"
    " xdg-open pr expand unexpand tsort shuf iconv colordiff vimdiff sdiff diff3 jq yq awk gawk mawk nawk grep egrep"
    " fgrep zgrep rg ag ack sed perl tar zip scp curl wget readarray mapfile look ul cpio ar pbcopy xclip gpg openssl"
    " enscript lpr mail man"
)
_WRITERS = _names(
    "rm rmdir unlink touch mkdir truncate chmod chown chgrp shred tee mv sponge mkfifo mknod patch setfacl chattr"
    " vi vim nvim nano emacs ed ex gzip gunzip bzip2 xz zstd"
)
_LAST_IS_WRITTEN = frozenset({"cp", "mv", "ln", "install", "rsync", "scp", "ditto", "link"})
_PATTERN_FIRST = _names(
    "grep egrep fgrep zgrep rg ag ack sed awk gawk mawk nawk jq yq perl chmod chown chgrp setfacl chattr"
)
_RESPONSE_FILES = frozenset({"strings", "nm", "size", "objdump", "ar", "curl"})
"""Programs for which ``@FILE`` stands for the words in a file."""
_SCRIPT_OPTIONS = frozenset({"-e", "-f", "--regexp", "--file", "--expression", "-E"})
_NUMBERED = _names("-n -c -w -k -t -A -B -C -m -s -l -j -N")
_WRITE_OPTIONS = frozenset(
    {"-o", "-O", "--output", "--output-document", "--output-file", "-t", "--target-directory"}
)
_FILE_OPTIONS = frozenset({"-o", "-O", "-t", "-f", "-T", "-K", "-d"})
"""Short options whose value may be attached to them and may name a file."""
_JQ_IMPORTS = re.compile(r"import|include")
_IN_PLACE = re.compile(r"-[A-Za-z]*i.*|--in-place.*")
_SED_FILES = re.compile(r"(?:^|[;{}\s/0-9$gpI])([wWrR])\s*([^\s;}]+)")


def file_operands(command: Command) -> tuple[Use, ...]:
    """("read" | "write", path as written) for every file the command names, redirects included."""
    found = list(_redirected(command))
    name = (command.words[0].text or "").rsplit("/", 1)[-1] if command.words else ""
    rest = command.words[1:]
    if name == "dd":
        found.extend(_of_dd(rest))
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


def _of_dd(rest: Sequence[Word]) -> Iterator[Use]:
    for word in rest:
        for text in possible_values(word):
            if text.startswith("if="):
                yield "read", text[3:]
            if text.startswith("of="):
                yield "write", text[3:]


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
    for use, path in written:
        yield use, path


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
