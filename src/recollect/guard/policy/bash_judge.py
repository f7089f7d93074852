"""Command rules applied to a shell text: every part on its own (R7), deny wide, allow narrow.

Deny and ask rules look at every view of every command, at every word that could become a command's
name, at every file a known program would touch, and at all words of a text that is not understood.
Allow rules look only at fully understood commands, so a command rule never allows a text that is not
understood.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from recollect.guard.policy.cautions import (
    SANDBOX,
    CopyGate,
    Directories,
    accepted_edit,
    changes_files,
    held_back,
    leads_out,
    readings_of,
    removes_everything,
    runs_git,
    unreadable_name,
    unseen,
    words_in,
)
from recollect.guard.policy.command_lines import INTERPRETERS
from recollect.guard.policy.operands import (
    fed_with_names,
    file_operands,
    names_unknown_file,
    shown_files,
    swept,
    with_known_heredocs,
)
from recollect.guard.policy.path_judge import PathJudge
from recollect.guard.policy.programs import harmless_environment, read_only
from recollect.guard.policy.rules import (
    CommandRule,
    Rule,
    RuleIndex,
    about,
    by_itself,
    by_nature,
    by_rule,
    unspoken,
)
from recollect.guard.policy.shell import allow_view, analyse, deny_views, gated_view, looking_view
from recollect.guard.policy.terms import Analysis, Command, Mode, Redirect, Word
from recollect.model.settings.decision import DecisionPart, Verdict

_STAYS = re.compile(r"\s*cd\s+[^\s;&|]+\s*&&[^|]*\Z")
_STREAMS = frozenset({"/dev/null", "/dev/stdin"})
_ENVIRONMENT = re.compile(r"LANG|LC_\w+|GIT_\w+|PYTHON\w*|NODE_\w+|PERL\w*|RUBY\w*|JAVA\w*|npm_\w+")
"""Variables that other programs act on, beside those that the shell acts on."""
_KINDS = {"read": ("Read",), "write": ("Edit", "Read")}
_ROOT_OR_HOME = re.compile(r"[\s\"'=(](?:/|~|/\*|~/\*?)(?=[\s\"');&|]|$)|[$`]")
"""Words in a text that is not understood which could be the root or home."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The finding for each part of a call, what was not understood, and the absolute paths that it names."""

    parts: tuple[DecisionPart, ...]
    unanalysable: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


analysed = lru_cache(maxsize=128)(analyse)
"""Cached: a call is decided, shown and checked again within moments."""


class BashJudge:
    """The command rules of an engine."""

    def __init__(self, indexes: dict[Verdict, RuleIndex], paths: PathJudge, mode: Mode) -> None:
        self._indexes = indexes
        self._paths = paths
        self._mode = mode
        self._copies = CopyGate(paths, several=True, hidden_too=True)

    def judge(self, text: str) -> Judgement:
        """Every part of the text with its finding; never empty."""
        analysis = analysed(text)
        covered = self._indexes[Verdict.ALLOW].whole_tool("Bash")
        directories = Directories(self._paths)
        several = len(analysis.commands) > 1 or bool(analysis.unanalysable)
        self._copies = CopyGate(self._paths, several=several, hidden_too="glob" in text)
        parts: list[DecisionPart] = []
        files: list[str] = []
        # A text may repeat one command a hundred thousand times; it is judged once per directory.
        known: dict[tuple[Command, int], DecisionPart] = {}
        views: list[Command] = []
        for position, command in enumerate(analysis.commands):
            place = (command, len(directories.possible))
            if place not in known:
                reading = _reading(
                    command, named=fed_with_names(analysis.commands[max(0, position - 9) : position])
                )
                known[place] = self._part(reading, directories, covered)
                files.extend(self._files(reading, directories))
                directories.after(reading.command, reading.views)
                views += reading.views if reading.command == command else deny_views(command)
            parts.append(about(command.raw, known[place]))
        if analysis.unanalysable or not analysis.commands:
            parts.append(about(text, self._whole(analysis, covered)))
        else:
            parts.extend(about(text, finding) for finding in self._suspected(analysis))
        lifted = covered is not None or self._mode is Mode.BYPASS
        if lifted and (found := self._unseen(analysis, views)):
            parts.append(about(text, found))
        if not lifted:
            parts.extend(about(text, finding) for finding in self._cautions(analysis, views, directories))
        if (directories.outside if lifted else directories.left) and runs_git(views):
            why = "git would run with the settings and hooks of another directory"
            parts.append(about(text, by_nature(Verdict.ASK, "cd elsewhere, then git", why)))
        unanalysable = analysis.unanalysable
        if not unanalysable and any(one.argv is None for one in map(with_known_heredocs, analysis.commands)):
            unanalysable = ("a word that only the shell knows",)
        return Judgement(tuple(parts), unanalysable, tuple(dict.fromkeys(files)))

    def _unseen(self, analysis: Analysis, views: list[Command]) -> DecisionPart | None:
        """Beside a broad allow, a command that may be a denied one under a name that is not in the text (B14)."""
        index = self._indexes[Verdict.DENY]
        if not index.any_command:
            return None
        doubt = unreadable_name(analysis) or unseen(
            views, lambda programs: (pattern for _, _, pattern in index.for_programs(programs))
        )
        if doubt is None:
            return None
        return by_nature(
            Verdict.ASK, "name that is not known", f"{doubt}, and some commands are denied: {SANDBOX}"
        )

    def _cautions(
        self, analysis: Analysis, views: list[Command], directories: Directories
    ) -> Iterator[DecisionPart]:
        """What the client asks about in the text as a whole (R11, R23)."""
        if analysis.wary:
            why = f"{analysis.wary[0]} is asked about unless a rule allows all of Bash"
            yield by_nature(Verdict.ASK, analysis.wary[0], why)
        moves = [command for command in analysis.commands if directories.changes(command)]
        if moves and directories.stays(moves[0]) and _STAYS.match(analysis.text):
            moves = moves[1:]
        if not all(map(directories.stays, moves)) and runs_git(views):
            yield by_nature(Verdict.ASK, "cd and git", "git may run in another directory than it seems")
        if len(moves) > 1:
            yield by_nature(Verdict.ASK, "several cd", "it changes the directory more than once")
        if moves and any(changes_files(gated_view(command)) for command in analysis.commands):
            yield by_nature(Verdict.ASK, "cd and a write", "it changes the directory and writes a file")

    # One command

    def _part(self, reading: _CommandReading, directories: Directories, covered: Rule | None) -> DecisionPart:
        for verdict in (Verdict.DENY, Verdict.ASK):
            rule = self._matching_rule(verdict, reading.views) or self._touches(verdict, reading, directories)
            if rule:
                touches = "it touches a file that the rule covers"
                return by_rule(rule, "the command matches" if rule.tool == "Bash" else touches)
        floor = self._floor(reading, directories)
        if floor:
            return floor
        view = gated_view(reading.command)
        held = None
        if self._mode is not Mode.BYPASS:
            held = (leads_out if covered else held_back)(view, directories)
        if held:
            return held
        # An interpreter could run what a rule denies.
        interprets = any(view.name in INTERPRETERS for view in reading.views)
        beyond = f"; {SANDBOX}" if interprets and self._indexes[Verdict.DENY].any_command else ""
        if covered:
            return by_rule(covered, "every use of Bash is allowed" + beyond)
        found = self._allowed(reading, directories)
        opaque = next(filter(None, (self._copies.opaque(view, directories) for view in reading.views)), None)
        if found and opaque and found.rule != f"Bash({reading.command.raw})":
            return opaque
        return found or unspoken(self._mode, beyond)

    def _matching_rule(self, verdict: Verdict, views: tuple[Command, ...]) -> Rule | None:
        index = self._indexes[verdict]
        if not index.any_command:
            return None
        found: CommandRule | None = None
        for view in views:
            texts = _spellings(view)
            values = [word.seen for word in view.words]
            names = {
                name for text in texts for name in _names(text.split(None, 1)[0] if text.strip() else "")
            }
            for entry in index.for_programs(names):
                if (found is None or entry[0] < found[0]) and (
                    any(map(entry[2].matches, texts)) or entry[2].covers_words(values)
                ):
                    found = entry
        return found[1] if found else None

    def _touches(self, verdict: Verdict, reading: _CommandReading, directories: Directories) -> Rule | None:
        index = self._indexes[verdict]
        if not index.paths["Read"] and not index.paths["Edit"]:
            return None
        for view, operands in zip(reading.views, reading.operands, strict=True):
            globs = {word.text for word in view.words if word.globs}
            for kind, path in operands:
                rule = self._forbidden(verdict, path, _KINDS[kind], directories, globbed=path in globs)
                if rule:
                    return rule
            if names_unknown_file(view):
                rule = self._named_in(verdict, words_in(readings_of(view.raw)))
                if rule:
                    return rule
        return None

    def _forbidden(
        self, verdict: Verdict, path: str, kinds: tuple[str, ...], directories: Directories, *, globbed: bool
    ) -> Rule | None:
        for cwd in directories.possible:
            if globbed or cwd is None:
                rule = self._paths.forbids_glob(verdict, path, cwd, kinds)
            else:
                rule = self._paths.forbids(verdict, self._paths.file(path, cwd).forms, kinds)
            if rule:
                return rule
        return None

    def _floor(self, reading: _CommandReading, directories: Directories) -> DecisionPart | None:
        """Cases that are always asked about, in every mode and under all rules."""
        if None in directories.possible and self._lost(reading):
            why = "it names a file in a directory that is not known, and some files are denied"
            return by_nature(Verdict.ASK, "unknown directory", why)
        for view, operands in zip(reading.views, reading.operands, strict=True):
            if removes_everything(view, self._paths.place):
                return by_nature(Verdict.ASK, "removing everything", "it could remove the whole disk or home")
            places = swept(view) if self._indexes[Verdict.DENY].paths["Read"] else ()
            known = [cwd for cwd in directories.possible if cwd is not None]
            files = (self._paths.file(path, cwd) for path in places for cwd in known)
            if rule := next(filter(None, map(self._paths.denied_below, files)), None):
                why = f"it reads whole directories, and {rule.text} denies something in them"
                return by_nature(Verdict.ASK, "denied files below", why)
            if self._mode is Mode.BYPASS:
                continue
            # A protected name that the command writes, by its own words or by the name of a source.
            written = [path for kind, path in operands if kind == "write"]
            files = (self._paths.file(path, cwd or "/") for path in written for cwd in directories.possible)
            found = next(filter(None, map(self._paths.guarded, files)), None)
            if found or (found := self._copies.finding(view, directories)):
                return found
        return None

    def _lost(self, reading: _CommandReading) -> bool:
        """Whether a relative path may turn out to be a denied file."""
        paths = self._indexes[Verdict.DENY].paths
        relative = any(
            not path.startswith(("/", "~")) for operands in reading.operands for _, path in operands
        )
        return relative and bool(paths["Read"] or paths["Edit"])

    # Allowing

    def _allowed(self, reading: _CommandReading, directories: Directories) -> DecisionPart | None:
        command = reading.command
        if not all(self._redirect_passes(redirect, directories) for redirect in command.redirects):
            return None
        if not command.words:
            return _assigned(command)
        rule = self._allow_rule(command)
        if rule:
            return by_rule(rule, "the command matches")
        if harmless := self._harmless(reading, directories):
            return harmless
        # The places were checked before: all are in the working directories, or an Edit rule names them.
        if self._mode is not Mode.ACCEPT_EDITS or command.assignments or not accepted_edit(command):
            return None
        return by_itself(Verdict.ALLOW, "the mode accepts file commands in the working directories")

    def _allow_rule(self, command: Command) -> Rule | None:
        view = allow_view(command)
        index = self._indexes[Verdict.ALLOW]
        if view is None or not view.words:
            exact = index.for_programs(_names(_first(command.raw)))
            return next((rule for _, rule, pattern in exact if pattern.exact == command.raw.strip()), None)
        prefix = "".join(f"{name}={word.raw} " for name, word in command.assignments)
        prefixes = ("", prefix) if harmless_environment(command.assignments) else (prefix,)
        spelled = dict.fromkeys((*_faithful_spellings(view), *_faithful_spellings(command)))
        for text in (before + text for before in prefixes for text in spelled):
            for _, rule, pattern in index.for_programs(_names(_first(text))):
                if prefix and text.startswith(prefix) and not pattern.literal_start.startswith(prefix):
                    continue
                if self._mode is Mode.PLAN and pattern.first_word in INTERPRETERS:
                    continue
                # An exact rule is one text: other blanks or quotes are another command.
                if pattern.exact == text in command.raw or (pattern.exact is None and pattern.matches(text)):
                    return rule
        return None

    def _harmless(self, reading: _CommandReading, directories: Directories) -> DecisionPart | None:
        """A read-only command may run without a rule; the places it reads were checked before (R10, R11)."""
        command = reading.command
        view = looking_view(command)
        if (
            swept(command) == ["."]
            and command.words[0].text == "xargs"
            and (command.piped or any("<" in redirect.operator for redirect in command.redirects))
            and not reading.named
        ):
            return None
        if view is None or not view.words or not harmless_environment(command.assignments):
            return None
        if directories.changes(view):
            plain = not any(
                (word.text or "-").startswith("-") and word.text != "--" for word in view.words[1:]
            )
            return by_itself(Verdict.ALLOW, "it changes to a working directory") if plain else None
        if not read_only(view):
            return None
        return by_itself(Verdict.ALLOW, "it is read-only")

    def _redirect_passes(self, redirect: Redirect, directories: Directories) -> bool:
        target = redirect.target
        if target is None or redirect.operator == "<<<":
            return True
        if target.text is None or target.globs:
            return False
        if not redirect.writes and target.text in _STREAMS:
            return True
        for cwd in directories.possible:
            if cwd is None and not (redirect.writes and target.text.startswith("/")):
                return False
            file = self._paths.file(target.text, cwd or "/")
            writable = self._paths.writable(file, edits_run=self._mode.edits_run)
            if (writable if redirect.writes else self._paths.readable(file)) is None:
                return False
        return True

    # The text as a whole

    def _whole(self, analysis: Analysis, covered: Rule | None) -> DecisionPart:
        found = next(self._suspected(analysis), None)
        if found:
            return found
        reasons = "; ".join(analysis.unanalysable) or "there is no command in it"
        removes = analysis.unanalysable and any(word.rsplit("/", 1)[-1] == "rm" for word in analysis.suspects)
        if removes and _ROOT_OR_HOME.search(analysis.text):
            return by_nature(Verdict.ASK, "removing everything", "it could remove the whole disk or home")
        if covered:
            return by_rule(covered, "every use of Bash is allowed")
        if self._mode is Mode.BYPASS:
            return unspoken(self._mode)
        return by_itself(Verdict.ASK, f"it is not fully understood: {reasons}")

    def _suspected(self, analysis: Analysis) -> Iterator[DecisionPart]:
        """Deny and ask rules that may match something in the text that no parsed command shows."""
        opaque = bool(analysis.unanalysable)
        readings = readings_of(analysis.text) if opaque else ()
        words = words_in(readings)
        for verdict in (Verdict.DENY, Verdict.ASK):
            index = self._indexes[verdict]
            suspects = analysis.suspects | words
            programs = {name for suspect in suspects for name in _names(suspect)}
            for _, rule, pattern in index.for_programs(programs) if index.any_command else ():
                named = pattern.covers_program_only and (opaque or pattern.exact is None)
                if named and any(map(pattern.names_program, programs)):
                    yield by_rule(rule, "a word of the text could become this command")
                    return
                if any(map(pattern.occurs_in, readings)):
                    yield by_rule(rule, "these words are in a text that is not fully understood")
                    return
            if readings and (about := self._named_in(verdict, words)):
                why = "a text that is not fully understood names a file that the rule covers"
                yield by_rule(about, why)
                return

    def _named_in(self, verdict: Verdict, words: Iterable[str]) -> Rule | None:
        index = self._indexes[verdict]
        if not index.paths["Read"] and not index.paths["Edit"]:
            return None
        named = (word for word in words if word not in ("", ".", "/", "*", "**"))
        return next(filter(None, (self._paths.forbids_word(verdict, word) for word in named)), None)

    def _files(self, reading: _CommandReading, directories: Directories) -> list[str]:
        paths = dict.fromkeys(path for operands in reading.operands for _, path in operands)
        return [self._paths.file(path, cwd or "/").written for path in paths for cwd in directories.possible]


@dataclass(frozen=True, slots=True)
class _CommandReading:
    """A command with its deny views and the files of each, computed once."""

    command: Command
    views: tuple[Command, ...]
    operands: tuple[tuple[tuple[str, str], ...], ...]
    named: bool = False
    """What it reads from a pipe are names of files in the working directories."""


def _reading(command: Command, *, named: bool) -> _CommandReading:
    command = with_known_heredocs(command)
    views = deny_views(command)
    views = views if command in views else (command, *views)
    operands = ((*file_operands(view), *(("read", path) for path in shown_files(view))) for view in views)
    return _CommandReading(command, views, tuple(operands), named)


def _spellings(view: Command) -> list[str]:
    """The texts a deny pattern is compared with: as written, as the program sees it, and by bare name."""
    values = [word.seen for word in view.words]
    texts = [" ".join(values), " ".join(word.raw for word in view.words), " ".join(view.raw.split())]
    if values:
        bare = values[0].rsplit("/", 1)[-1]
        texts.append(" ".join([bare, *values[1:]]))
        # The shell may expand an unknown word to nothing.
        texts.append(" ".join(word.text for word in view.words if word.text is not None))
    return list(dict.fromkeys(texts))


def _faithful_spellings(view: Command) -> list[str]:
    """The texts an allow pattern is compared with: none where quoting could have hidden a word boundary."""
    texts = [" ".join(word.raw for word in view.words)]
    if _plain(view.words[0]):
        texts.append(" ".join([view.words[0].text or "", *(word.raw for word in view.words[1:])]))
    if view.argv is not None and all(_plain(word) for word in view.words):
        texts.append(" ".join(word.text or "" for word in view.words))
    return list(dict.fromkeys(texts))


def _assigned(command: Command) -> DecisionPart | None:
    """``X=1`` alone sets a variable of the shell, which nothing else may then use (R23)."""
    one = len(command.assignments) == 1 and not command.redirects
    if not one or _ENVIRONMENT.fullmatch(command.assignments[0][0]):
        return None
    return by_itself(Verdict.ALLOW, "it only sets a variable")


def _plain(word: Word) -> bool:
    return bool(word.text) and not re.search(r"\s", word.text or "")


def _names(word: str) -> tuple[str, ...]:
    """The command's name, and the name without its directory."""
    bare = word.rsplit("/", 1)[-1]
    return (word,) if bare == word or not bare else (word, bare)


def _first(text: str) -> str:
    words = text.split(None, 1)
    return words[0] if words else ""
