"""Our shell analyser against a real shell: every program really started must have been seen.

The one idea: a shell whose whole PATH is a directory of marker programs. Each marker writes its
name and arguments down; texts made by a grammar and then mutated are given to the real shell and to
``analyse``. A miss is a marker that ran though the analysis, claiming to have understood the text,
did not list it, or listed it with other arguments.

    python tools/shell_differential.py --count 10000 --seed 1 [--shell zsh]
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from recollect.guard.policy.shell import analyse, deny_views
from recollect.guard.policy.terms import Analysis, Command

MARKERS = ("rm", "k", "m", "ls", "git", "evil", "ok", "zz")
WRAPPERS = (
    "env",
    "timeout",
    "nice",
    "nohup",
    "stdbuf",
    "setsid",
    "xargs",
    "find",
    "sh",
    "bash",
    "cat",
    "true",
    "false",
)
BATCH = 200
SEPARATOR = "\x1f"

MARKER = """#!/bin/sh
line=${0##*/}
for word; do line="$line\x1f$word"; done
printf '%s\\036\\n' "$line" >>"$MARKER_LOG"
"""
DRIVER = """
number=0
ulimit -t 2
while IFS= read -r -d '' text; do
  MARKER_LOG=$LOGS/$number timeout -s KILL 2 "$SHELL_UNDER_TEST" "$@" -c "$text" </dev/null >/dev/null 2>&1
  number=$((number+1))
done
wait
"""


class Grammar:
    """Random shell texts: plausible ones, then broken ones."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def text(self) -> str:
        """One text; a third of them mutated."""
        text = self._list(self.random.choice((0, 0, 0, 1, 1, 2, 3)))
        if self.random.random() < 0.72:
            return text
        for _ in range(self.random.choice((1, 1, 1, 2, 3))):
            text = self._mutated(text)
        return text

    def _pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def _list(self, depth: int) -> str:
        parts = [self._pipeline(depth)]
        for _ in range(self.random.choice((0, 0, 1, 1, 2))):
            parts.append(
                self._pick(" && ", " || ", "; ", ";", "&&", "||", "\n", " & ", "&", "\n\n", " # it's\n")
            )
            parts.append(self._pipeline(depth))
        return "".join(parts)

    def _pipeline(self, depth: int) -> str:
        parts = [self._pick(*[""] * 20, "! ", "time ") + self._command(depth)]
        for _ in range(self.random.choice((0, 0, 0, 1, 2))):
            parts.append(self._pick(" | ", "|", " |& ", " |\n"))
            parts.append(self._command(depth))
        return "".join(parts)

    def _command(self, depth: int) -> str:
        if depth > 0 and self.random.random() < 0.3:
            return self._compound(depth - 1)
        if self.random.random() < 0.04:
            return self._odd()
        return self._simple(depth)

    def _compound(self, depth: int) -> str:
        inner = self._list(depth)
        kind = self.random.randrange(9)
        if kind == 0:
            return f"( {inner} )"
        if kind == 1:
            return f"{{ {inner}; }}"
        if kind == 2:
            return f"if {self._simple(0)}; then {inner}; {self._pick('', 'else ok; ', 'elif k; then m; ')}fi"
        if kind == 3:
            return f"while ok; do {inner}; break; done"
        if kind == 4:
            return f"for v in {self._word(depth)} {self._word(0)}; do {inner}; done"
        if kind == 5:
            return f"case {self._word(0)} in a) {inner};; {self._pick('*', 'b|c', '(d')}) {self._simple(0)};; esac"
        if kind == 6:
            return f"({inner}){self._redirect()}"
        if kind == 7:
            return f"until false\ndo\n{inner}\nbreak\ndone{self._redirect()}"
        return f"{{ {inner}\n}} 2>&1"

    def _simple(self, depth: int) -> str:
        pieces = []
        if self.random.random() < 0.1:
            pieces.append(self._pick("X=1", "X=rm", "Y='a b'", "X=$Y", "X=", 'X="$(ok)"'))
        if self.random.random() < 0.12:
            pieces.append(self._redirect().strip())
        if self.random.random() < 0.12:
            pieces.append(self._wrapper())
        pieces.append(self._name())
        pieces.extend(self._word(depth) for _ in range(self.random.choice((0, 1, 1, 2, 3))))
        if self.random.random() < 0.2:
            pieces.append(self._redirect().strip())
            if self.random.random() < 0.3:
                pieces.append(self._word(0))
        return self._pick(*[" "] * 20, "  ", "\t", " \\\n").join(piece for piece in pieces if piece)

    def _name(self) -> str:
        name = self.random.choice(MARKERS)
        if self.random.random() < 0.9:
            return name
        return self._pick(
            f'"{name}"', f"'{name}'", f"\\{name}", name[0] + '""' + name[1:], f"$'{name}'", f"{name[0]}''{name[1:]}",
            "$'\\162m'", '"r"\'m\'', "echo", "printf", "true", ":",
        )  # fmt: skip

    def _wrapper(self) -> str:
        return self._pick(
            "env", "timeout 5", "nice", "nohup", "nice -n 5", "env A=b", "timeout -k 1 5", "xargs", "stdbuf -o0",
            "env -u A", "setsid", "xargs -n 1", "command", "builtin", "exec", "nice -5",
        )  # fmt: skip

    def _word(self, depth: int) -> str:
        if depth > 0 and self.random.random() < 0.3:
            return self._substitution(depth - 1)
        return "".join(self._piece() for _ in range(self.random.choice((1, 1, 1, 1, 2, 3))))

    def _piece(self) -> str:
        if self.random.random() < 0.75:
            return self._pick(
                "a", "-x", "file", "a=b", "--flag=v", "rm", "'a b'", '"a;rm"', '"$X"', "$X", '"$(m a)"'
            )
        return self._pick(
            "a", "-x", "file", "a=b", "it", "--flag=v", "rm", "a.b", "5", "@{0}", "{}", "%1", "+", ",", ":",
            "'a b'", "'it;rm'", '"a b"', '"a;rm"', '"$X"', "$X", "${X}", "$1", "$?", "\\;", "\\ ", "\\$", "\\'",
            "*", "f*", "?", "[ab]", "~", "~/x", "#", "a#b", "$'a\\nb'", "$'\\''", '"\\""', '"\\$(rm)"', "'$(rm)'",
            '"`ok`"', "`k`", "$(m)", '"$(m a)"', "''", '""', "$((1+2))", '"!"', "a!", "é", '"–"', "/", "\\\\", '"a\nb"',
            "'\n#'", "$", '"$"', "a$", "^", "]", "}", "{", "=", "==", "!=",
        )  # fmt: skip

    def _substitution(self, depth: int) -> str:
        inner = self._list(depth)
        kind = self.random.choice((0, 0, 0, 1, 2, 3, 4, 5, 5))
        if kind == 0:
            return f'"$({inner})"'
        if kind == 1:
            return f"<({inner})"
        if kind == 2:
            return f">({inner})"
        if kind == 3:
            return f"`{inner}`"
        if kind == 4:
            return f'"a $({inner}) b"'
        return f"$({inner})"

    def _redirect(self) -> str:
        return " " + self._pick(
            ">out", "> out", ">>out", "2>out", "2>&1", ">&2", "&>out", "<file", "< file", ">|out", "<>file", "<<<word",
            "<<< 'a b'", '<<<"$(m)"', "2>>out", "&>>out", "3>&1", ">&-", ">&-", "<&-", "", "> 'o;t'", ">out 2>&1", "1>&2",
            "> >(ok)", "< <(ok a)",
        )  # fmt: skip

    def _odd(self) -> str:
        return self._pick(
            "X=rm; $X a", "eval 'rm a'", "f() { rm; }; f", "{rm,a}", "r\\\nm a", "${X:-rm} b", "X=r; ${X}m", "$(echo rm) a",
            "cat <<E\na\nE", "ok <<E\n$(rm)\nE", "ok <<'E'\n$(rm)\nE", "ok <<-E\n\ta `m`\n\tE", "ok <<E | k\n; rm\nE",
            "ok <<E && m\nit's\nE\nzz", "[ -f file ] && ok", "[[ a == a ]] && ok", "((1)) && ok", "export A=b; ok",
            "sh -c 'rm a; m'", "bash -c \"git b\"", "find . -maxdepth 0 -exec rm {} \\;", "find . -name file", "coproc rm",
            "trap 'rm x' EXIT", "alias a=rm", "test -f file || rm", "for i in 1 2; do ok $i; done", "shopt -s extglob",
            "set -e; ok", "set -- rm; $1", "command -v rm", "unset X; ok", "time rm", "time -p rm", "! rm", "a=(rm b); ok",
            "ok $((X+1))", "ok ${#X}", "ok ${X%a}", "function g { rm; }; g", "select v in a; do rm; done", "IFS=, ok",
            "X='a[$(rm)]'; ok $((X))", "read X <<< rm; $X", "true && { ok; }", "echo rm | xargs", "echo a | xargs git",
            'ok "$(cat <<E\nit\'s ) rm\nE\n)" && zz', "ok \"$(cat <<'E'\n`\"$(\nE\n)\"", "ok # rm\nzz", "printf -v X rm; $X",
        )  # fmt: skip

    def _mutated(self, text: str) -> str:
        place = self.random.randint(0, len(text))
        kind = self.random.randrange(6)
        if kind == 0:
            return text[:place] + text[place + 1 :]
        if kind == 1:
            end = place + self.random.randint(1, 6)
            return text[:place] + text[place:end] * 2 + text[end:]
        if kind == 2:
            return text[:place] + text[place + 1 : place + 2] + text[place : place + 1] + text[place + 2 :]
        spice = self._pick(
            "'", '"', "\\", "\\\n", "$", "`", "(", ")", "{", "}", ";", "&", "|", "<", ">", "#", "!", "\n", " ", "~", "*",
            "=", "$(", "${", "$((", "))", "<<E\n", "\nE\n", "<(", ">(", "$'", '$"', "[", "]", "[[", "]]", ";;", "&>",
            "2>", ",", "..", "time ", "if ", "then ", "do ", "done", "fi", "rm", " rm ", ";rm", "\nrm\n", "<<<", "#{",
            "\t", "! ", "in ", "esac", "case ", "for ", "1>", "&&", "||", "|&", "@", "%", "?", "+", "-", ":", "<<-",
        )  # fmt: skip
        return text[:place] + spice + text[place:]


@dataclass
class Bench:
    """A directory with markers, and a shell that can start nothing else."""

    shell: str = "bash"
    started: int = 0
    unfinished: int = 0
    directory: Path = field(init=False)

    def __enter__(self) -> Bench:
        self.directory = Path(tempfile.mkdtemp(prefix="differential-"))
        programs = self.directory / "bin"
        programs.mkdir()
        (programs / "marker").write_text(MARKER)
        (programs / "marker").chmod(0o755)
        for name in MARKERS:
            (programs / name).symlink_to("marker")
        for name in (*WRAPPERS, self.shell):
            found = shutil.which(name)
            if found and not (programs / name).exists():
                (programs / name).symlink_to(found)
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)

    def run(self, texts: list[str]) -> list[list[tuple[str, ...]]]:
        """What each text really started, as (name, arguments…)."""
        place = Path(tempfile.mkdtemp(dir=self.directory))
        logs, work = place / "logs", place / "work"
        logs.mkdir()
        work.mkdir()
        for name in ("file", "f1", "-x"):
            (work / name).write_text("")
        process = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-c", DRIVER, "driver", *_flags(self.shell)],
            cwd=work,
            env={
                "PATH": str(self.directory / "bin"),
                "HOME": str(work),
                "LOGS": str(logs),
                "LC_ALL": "C.UTF-8",
                "SHELL_UNDER_TEST": self.shell,
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            process.communicate("".join(text + "\0" for text in texts).encode(), timeout=30 + len(texts) / 10)
        except subprocess.TimeoutExpired:
            self.unfinished += 1
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        found = [_read(logs / str(number)) for number in range(len(texts))]
        self.started += sum(len(one) for one in found)
        shutil.rmtree(place, ignore_errors=True)
        return found


def _flags(shell: str) -> list[str]:
    return ["-f"] if shell == "zsh" else ["--norc", "--noprofile"]


def _read(log: Path) -> list[tuple[str, ...]]:
    if not log.exists():
        return []
    lines = log.read_text(errors="replace").split("\x1e\n")
    return [tuple(line.split(SEPARATOR)) for line in lines if line]


def missed(analysis: Analysis, started: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Programs that ran and were not foreseen by an analysis that claims to be complete."""
    if analysis.unanalysable:
        return []
    return [one for one in started if not _foreseen(analysis, one)]


def _foreseen(analysis: Analysis, started: tuple[str, ...]) -> bool:
    return started[0] in analysis.suspects and any(
        _same(view, started, whole=view == command)
        for command in analysis.commands
        for view in deny_views(command)
        if view.words
    )


def _same(view: Command, started: tuple[str, ...], *, whole: bool) -> bool:
    if view.words[0].text != started[0]:
        return False
    if view.argv is None or any(word.globs or word.raw.startswith("~") for word in view.words):
        return True
    # Inside a wrapper (xargs, find) further arguments may follow.
    return view.argv == started if whole else view.argv == started[: len(view.argv)] or "{}" in view.argv


@dataclass
class Report:
    """What a run found."""

    texts: int = 0
    analysable: int = 0
    ran_something: int = 0
    started: int = 0
    unfinished: int = 0
    suspected: int = 0
    unsuspected: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    misses: list[tuple[str, list[tuple[str, ...]]]] = field(default_factory=list)

    def __str__(self) -> str:
        share = 100 * self.analysable / max(self.texts, 1)
        return (
            f"{self.texts:,} texts, {self.analysable:,} analysable ({share:.1f} %), {self.ran_something:,} ran something, "
            f"{self.started:,} programs started, {len(self.misses)} misses, {self.unfinished} batches cut off; "
            f"of unanalysable texts {self.suspected:,} started programs were suspects, {len(self.unsuspected)} were not"
        )


def compare(count: int, seed: int, shell: str = "bash") -> Report:
    """Run ``count`` generated texts in a real shell and look for misses."""
    grammar, report = Grammar(seed), Report()
    with Bench(shell) as bench:
        while report.texts < count:
            texts = [grammar.text().replace("\0", "") for _ in range(min(BATCH, count - report.texts))]
            for text, started in zip(texts, bench.run(texts), strict=True):
                _note(report, text, started)
        report.unfinished = bench.unfinished
    return report


def _note(report: Report, text: str, started: list[tuple[str, ...]]) -> None:
    analysis = analyse(text)
    report.texts += 1
    report.started += len(started)
    report.ran_something += bool(started)
    report.analysable += not analysis.unanalysable
    if analysis.unanalysable:
        unknown = [(text, one) for one in started if one[0] not in analysis.suspects]
        report.suspected += len(started) - len(unknown)
        report.unsuspected += unknown
    misses = missed(analysis, started)
    if misses:
        report.misses.append((text, misses))


def main() -> int:
    """Run and report; exit code 1 when something was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shell", default="bash")
    arguments = parser.parse_args()
    report = compare(arguments.count, arguments.seed, arguments.shell)
    print(report)
    for text, misses in report.misses[:20]:
        print(repr(text), misses)
    for text, program in report.unsuspected[:20]:
        print("started, and no suspect:", repr(text), program)
    return 1 if report.misses else 0


if __name__ == "__main__":
    raise SystemExit(main())
