"""Permission calls made by a generator: every file command, path, rule form and mode, and random compositions.

Every command is harmless: it touches only the world of ``permission_world`` and reads nothing private, because the
client runs for real what it allows.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.oracle.permission_world import Case

COMMANDS = Path(__file__).resolve().parents[1] / "data" / "permission_commands.txt"
READERS = (
    "cat {} | head {} | tail {} | tac {} | ls {} | grep S {} | rg S {} | find {} | wc {} | sort {} | awk 1 {}"
    " | sed -n 1p {} | diff a.txt {} | stat {} | file {} | jq . {} | base64 {} | cut -c1 {} | md5sum {} | nl {} | od {}"
    " | rev {} | uniq {} | xxd {} | strings {} | hexdump {} | less {} | more {} | du {} | df {} | tree {} | sha256sum {}"
    " | sha1sum {} | cmp a.txt {} | comm a.txt {} | paste {} | fold {} | column {} | join a.txt {} | readlink {}"
    " | realpath {} | basename {} | dirname {} | egrep S {} | fgrep S {} | cksum {} | tail -n 1 {} | head -c 2 {}"
    " | grep -r S {} | ls -la {} | test -f {} | zcat {} | git diff --no-index a.txt {} | expand {} | tsort {} | pr {}"
    " | grep -f {} a.txt | diff {} {} | wc -l {} | sed s/a/b/ {} | find {} -name x | sort -u {} | git log {} | fmt {}"
    " | cat -- {} | head -n1 -- {} | python3 {} | node {} | cat a.txt {} | sum {} | b2sum {} | numfmt {} | csplit {} 1"
).split(" | ")
WRITERS = (
    "touch {} | mkdir {} | mkdir -p {} | rm -f {} | rmdir {} | cp a.txt {} | mv f {} | tee {} | ln -s a.txt {}"
    " | chmod 600 {} | dd if=a.txt of={} | install a.txt {} | truncate -s 0 {} | sed -i s/a/b/ {} | sort -o {} a.txt"
    " | unlink {} | tar cf {} a.txt | split a.txt {} | tee -a {} | cp -r dir {} | cp {} x9 | mv {} x8 | echo hi > {}"
    " | echo hi >> {} | cat a.txt > {} | touch -- {} | mkdir -m 700 {} | rm {} | cp -t {} a.txt | echo hi 2> {} | ln {} x7"
    " | mktemp {}.XXXX | rsync a.txt {} | git clone x {} | python3 -c 1 {} | cp a.txt f {} | touch a1 {} | : > {}"
    " | sed -i.bak s/a/b/ {} | sed -n 'w {}' a.txt | perl -pi -e 1 {} | chown root {} | shred {} | patch {} a.txt"
).split(" | ")
INSIDE = ("o1", "./sub/o2", "$CWD/o3", "src/../o4", "sub/deep/o5")
OUTSIDE = ("$OUT/o1", "../o2.txt", "~/o3", "link-out/o4", "sub/../../o5", "$OUT/sub/../o6", "src/link-out/o7")
READ_OUTSIDE = (
    "/etc/hostname",
    "../outside.txt",
    "~/other.txt",
    "link-out/out.txt",
    "link-to-etc",
    "$OUT/out.txt",
    "/",
    "..",
)
READ_INSIDE = (
    "a.txt",
    "./sub/x.txt",
    "$CWD/f",
    "sub/../a.txt",
    ".",
    "link-to-secret",
    "*.txt",
    "'a.txt'",
    '"$CWD/f"',
)
PROTECTED = (
    ".git/config",
    ".bashrc",
    ".claude/settings.json",
    ".vscode/s.json",
    ".mcp.json",
    "sub/.git/x",
    ".gitconfig",
    ".idea/x",
    ".zshrc",
    ".gitmodules",
    ".claude/agents/x",
    ".husky/x",
    ".ripgreprc",
    ".claude/plans/x",
)

ENVIRONMENT = (
    "FOO LANG LC_ALL LC_CTYPE TZ NO_COLOR FORCE_COLOR TERM COLORTERM NODE_ENV RUST_LOG RUST_BACKTRACE GOOS GOARCH CGO_ENABLED GO111MODULE PATH HOME IFS BASH_ENV"
    " LD_PRELOAD PYTHONPATH PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE DEBUG CI VERBOSE PAGER GIT_PAGER EDITOR NODE_OPTIONS RUSTFLAGS TMPDIR CHARSET TIME_STYLE"
    " BLOCK_SIZE LS_COLORS GREP_COLOR GREP_COLORS LANGUAGE PYTEST_DEBUG PYTEST_DISABLE_PLUGIN_AUTOLOAD ANTHROPIC_API_KEY GOEXPERIMENT GOFLAGS npm_config_x COLUMNS LINES DJANGO_SETTINGS_MODULE LOG_LEVEL"
).split()

RULED = ("touch", "mkdir", "echo", "cat", "ls")
Calls = list[tuple[str, dict[str, Any]]]


def commands(section: str) -> list[str]:
    """A section of the list of commands; visible marks stand for newline, tab and carriage return."""
    text = COMMANDS.read_text(encoding="utf-8").split(f"[{section}]\n", 1)[1]
    found = []
    for line in text.splitlines():
        if re.fullmatch(r"\[[a-z]{3,}\]", line):
            break
        found.append(line.replace("\u23ce", "\n").replace("\u21e5", "\t").replace("\u240d", "\r"))
    return found


def rules(*allow: str, ask: Iterable[str] = (), deny: Iterable[str] = (), **more: Any) -> dict[str, Any]:
    """One settings layer."""
    lists = {"allow": list(allow), "ask": list(ask), "deny": list(deny)}
    return {"permissions": {**{name: rules for name, rules in lists.items() if rules}, **more}}


def bash(made: Iterable[str]) -> Calls:
    """Calls of Bash, each command once."""
    return [("Bash", {"command": command}) for command in dict.fromkeys(made)]


def files(tool: str, *paths: str) -> Calls:
    """Calls of a file tool."""
    made = {
        "Read": {},
        "Write": {"content": "x"},
        "Edit": {"old_string": "S", "new_string": "T"},
        "NotebookEdit": {"new_source": "x"},
    }
    name = "notebook_path" if tool == "NotebookEdit" else "file_path"
    return [(tool, {name: path, **made[tool]}) for path in paths]


def programs(templates: Iterable[str]) -> list[str]:
    """The names of the programs of simple commands."""
    return list(dict.fromkeys(template.split()[0] for template in templates))


class CaseGenerator:
    """Groups of calls with their settings; another seed chooses other combinations."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def cases(self) -> Iterator[Case]:
        """Every case, those of one group together."""
        for part in (
            self._file_commands,
            self._syntax,
            self._environment,
            self._wrappers,
            self._hidden,
            self._looking,
            self._directories,
            self._file_rules,
            self._other_tools,
            self._compositions,
        ):
            yield from part()

    def _group(
        self, name: str, calls: Calls, *, mode: str | None = "default", trusted: bool = False, **layers: Any
    ) -> Iterator[Case]:
        for tool, arguments in calls:
            yield {
                "group": name,
                "tool": tool,
                "input": arguments,
                "layers": layers,
                "mode": mode,
                "trusted": trusted,
            }

    def _filled(self, templates: Iterable[str], paths: Iterable[str], share: float = 1.0) -> list[str]:
        chosen = list(paths)
        return [
            template.replace("{}", self._random.choice(chosen))
            for template in templates
            if self._random.random() < share
        ]

    def _file_commands(self) -> Iterator[Case]:
        every = (*READERS, *WRITERS)
        prefix = rules(*(f"Bash({name}:*)" for name in programs(every)))
        glob = rules(*(f"Bash({name} *)" for name in programs(every)))
        reading = self._filled(READERS, READ_OUTSIDE), self._filled(READERS, READ_INSIDE)
        writing = self._filled(WRITERS, OUTSIDE), self._filled(WRITERS, INSIDE)
        guarded = self._filled(WRITERS, PROTECTED, 0.6)
        yield from self._group("prefix, outside", bash(reading[0] + writing[0]), user=prefix)
        yield from self._group("prefix, inside", bash(reading[1] + writing[1] + guarded), user=prefix)
        yield from self._group(
            "glob", bash(self._filled(every, (*READ_OUTSIDE[:3], *INSIDE), 0.4)), user=glob
        )
        exact = [one for one in self._filled(every, OUTSIDE + INSIDE, 0.4) if "*" not in one]
        yield from self._group("exact", bash(exact), user=rules(*(f"Bash({one})" for one in exact)))
        yield from self._group("no rule, outside", bash(self._filled(READERS, READ_OUTSIDE)), user={})
        yield from self._group(
            "no rule, inside", bash(self._filled(READERS, READ_INSIDE) + writing[1]), user={}
        )
        for mode in ("acceptEdits", "plan", "dontAsk"):
            calls = self._filled(READERS, READ_INSIDE + READ_OUTSIDE, 0.2) + self._filled(
                WRITERS, INSIDE + OUTSIDE, 0.6
            )
            yield from self._group(f"no rule, {mode}", bash(calls), mode=mode, user={})
            yield from self._group(
                f"prefix, {mode}", bash(self._filled(every, INSIDE + OUTSIDE, 0.3)), mode=mode, user=prefix
            )
        yield from self._group(
            "accept edits, protected",
            bash(self._filled(WRITERS, PROTECTED, 0.7)),
            mode="acceptEdits",
            user={},
        )
        for bare in ("Bash", "Bash(*)"):
            calls = self._filled(READERS, READ_OUTSIDE, 0.3) + self._filled(WRITERS, OUTSIDE, 0.3)
            yield from self._group(
                bare, bash(calls + self._filled(WRITERS, PROTECTED, 0.2)), user=rules(bare)
            )
        added = rules(*prefix["permissions"]["allow"], additionalDirectories=["$OUT"])
        yield from self._group(
            "added directory",
            bash(self._filled(every, ("$OUT/o8", "link-out/o9", "$OUT/sub/o10"), 0.5)),
            user=added,
        )
        ruled = rules(*prefix["permissions"]["allow"], "Edit(/$OUT/**)", "Read(//etc/**)")
        calls = self._filled(WRITERS, ("$OUT/o8", "link-out/o9"), 0.6) + self._filled(
            READERS, ("/etc/hostname", "$OUT/out.txt"), 0.6
        )
        yield from self._group("path rules", bash(calls), user=ruled)
        only = rules("Edit(/$OUT/**)", "Read(//etc/**)", "Edit(src/**)", "Read(~/docs/**)")
        calls = self._filled(WRITERS, ("$OUT/o8", "src/n1", "o1"), 0.4) + self._filled(
            READERS, ("/etc/hostname", "~/docs/d.txt"), 0.4
        )
        yield from self._group("path rules only", bash(calls), user=only)
        yield from self._group(
            "path rules only, acceptEdits",
            bash(self._filled(WRITERS, ("$OUT/o8", "src/n1", "o1"), 0.4)),
            mode="acceptEdits",
            user=only,
        )
        denied = rules(
            *prefix["permissions"]["allow"],
            deny=["Read(./secret)", "Edit(src/**)", "Read(**/*.key)", "Read(dir/)"],
        )
        calls = self._filled(
            READERS, ("secret", "sub/secret", "k.key", "dir/x", "dir", ".", "link-to-secret"), 0.7
        )
        yield from self._group(
            "path denies",
            bash(calls + self._filled(WRITERS, ("src/n1", "secret", "sub/k.key"), 0.6)),
            user=denied,
        )
        asked = rules(*prefix["permissions"]["allow"], ask=["Read(./secret)", "Edit(src/**)"])
        calls = self._filled(READERS, ("secret", "sub/secret"), 0.3) + self._filled(
            WRITERS, ("src/n1", "secret"), 0.3
        )
        yield from self._group("path asks", bash(calls), user=asked)

    def _syntax(self) -> Iterator[Case]:
        allow = rules(*(f"Bash({name}:*)" for name in RULED))
        texts = commands("syntax")
        yield from self._group("syntax", bash(texts), user=allow)
        yield from self._group("syntax, no rule", bash(self._random.sample(texts, 50)), user={})
        safe = [text for text in self._random.sample(texts, 50) if not text.startswith(("yes", "select"))]
        yield from self._group("syntax, bare", bash(safe), user=rules("Bash"))
        yield from self._group("syntax, bypass", bash(safe[:25]), mode="bypassPermissions", user={})
        yield from self._group(
            "syntax, acceptEdits", bash(self._random.sample(texts, 30)), mode="acceptEdits", user={}
        )
        exact = (
            "touch one",
            "touch one && mkdir x",
            "ls > x1",
            "touch $HOME/x2",
            "echo ${HOME}",
            "(ls)",
            "touch x3 &",
            "touch a* b",
            "cd sub && touch y",
            "X=1 touch x4",
            "timeout 5 touch x5",
            "echo $(ls)",
            "python3 -c 'print(1)'",
            "find . -name zz -delete",
            "touch /etc/x/y",
            "cat <<EOF\nhi\nEOF",
            "xargs touch",
            "watch -n1 ls",
        )
        variants = (
            "touch one ",
            "touch  one",
            "touch 'one'",
            "touch one;",
            "touch one 2>&1",
            "touch one > /dev/null",
            "touch one; touch one",
            "touch one && ls",
            "timeout 5 touch one",
            "LANG=C touch one",
            "X=1 touch one",
            "\\touch one",
            "touch one # c",
            "! touch one",
            "touch one | cat",
            "touch one two",
        )
        yield from self._group(
            "exact texts", bash((*exact, *variants)), user=rules(*(f"Bash({one})" for one in exact))
        )
        wild = (
            "Bash(git * main)",
            "Bash(mk*)",
            "Bash(* --version)",
            "Bash(npm run test:*)",
            "Bash(touch *.txt)",
            "Bash(echo a*b)",
            "Bash(ls:*x)",
            "Bash(python3 *1*)",
            "Bash(stat -c * a.txt)",
        )
        calls = (
            "git checkout main",
            "git main",
            "git checkout main x",
            "git a b main",
            "mkdir w1",
            "mktemp -u",
            "mk",
            "mkdir w2 && touch x",
            "node --version",
            "x y --version",
            "touch a --version && ls",
            "npm run test",
            "npm run test unit",
            "npm run test:unit",
            "npm run testx",
            "touch a.txt",
            "touch b.md c.txt",
            "touch .txt",
            "touch ../x.txt",
            "echo ab",
            "echo a x b",
            "echo a | b",
            "echo a; ls b",
            "ls:x",
            "ls x",
            "python3 -c 1",
            "python3 1",
            "stat -c %s a.txt",
            "git checkout main > x",
            "git 'a b' main",
            "echo a$(ls)b",
            "echo a${X}b",
            "echo a\nb",
        )
        yield from self._group("wildcards", bash(calls), user=rules(*wild))

    def _environment(self) -> Iterator[Case]:
        calls = [f"{name}=x {command}" for name in ENVIRONMENT for command in ("touch e1",)]
        calls += [f"{name}=x ls" for name in self._random.sample(ENVIRONMENT, 12)]
        calls += [
            "LANG=C TZ=x touch e2",
            "LANG=C FOO=x touch e3",
            "LANG=$X touch e4",
            "LANG='a b' touch e5",
            "LANG=a\\ b touch e6",
            "LANG= touch e7",
            "LANG=$(ls) touch e8",
            "LANG=C; touch e9",
            "LANG=C",
            "FOO=1",
            "PATH=x; touch e10",
            "FOO=1 BAR=2; touch e11",
            "FOO=1; BAR=2; touch e12",
            "LANG=C timeout 5 touch e13",
            "timeout 5 LANG=C touch e14",
            "FOO=a touch e15 && touch e16",
            "LANG=C touch e17 > /dev/null",
            "LANG=a/b:c touch e18",
            "NO_COLOR=1 git status",
            "FOO=1 git status",
        ]
        yield from self._group("environment", bash(calls), user=rules("Bash(touch:*)"))
        yield from self._group(
            "environment rule",
            bash(["FOO=1 touch e1", "FOO=2 touch e1", "LANG=C touch e2", "FOO=1 LANG=C touch e3"]),
            user=rules("Bash(FOO=1 touch:*)", "Bash(LANG=C touch:*)"),
        )

    def _wrappers(self) -> Iterator[Case]:
        calls = [f"{wrapper} touch w1" for wrapper in commands("wrappers")]
        yield from self._group("wrappers", bash(calls), user=rules("Bash(touch:*)"))
        yield from self._group(
            "wrappers around looking", bash(f"{wrapper} ls" for wrapper in commands("wrappers")), user={}
        )
        named = (
            "env",
            "xargs",
            "sudo",
            "sh",
            "bash",
            "nice",
            "timeout",
            "setsid",
            "flock",
            "find",
            "git",
            "command",
            "time",
            "watch",
        )
        calls = [
            f"{wrapper} touch w2"
            for wrapper in commands("wrappers")
            if wrapper.split()[0] in named and "sudo" not in wrapper
        ]
        calls += [
            "find . -name zz -exec touch {} +",
            "find . -name zz -delete",
            "find . -name zz -exec touch {} \\;",
            "find . -fprint x1",
            "find sub -name x",
            "git -c a=b status",
            "git push",
            "setsid ls",
            "watch -n1 ls",
            "flock l ls",
        ]
        yield from self._group(
            "wrapper rules", bash(calls), user=rules(*(f"Bash({name}:*)" for name in named))
        )
        yield from self._group(
            "wrapper, outside",
            bash(f"{wrapper} touch $OUT/w3" for wrapper in commands("wrappers")[:24]),
            user=rules("Bash(touch:*)", "Bash(env:*)", "Bash(xargs:*)"),
        )

    def _hidden(self) -> Iterator[Case]:
        texts = [text for text in commands("hidden") if not text.startswith(("watch", "su "))]
        yield from self._group("deny hidden", bash(texts), user=rules("Bash", deny=["Bash(rm:*)"]))
        yield from self._group(
            "deny hidden, no allow", bash(self._random.sample(texts, 40)), user=rules(deny=["Bash(rm:*)"])
        )
        yield from self._group(
            "ask hidden", bash(self._random.sample(texts, 50)), user=rules("Bash", ask=["Bash(rm:*)"])
        )
        yield from self._group(
            "deny hidden, bypass",
            bash(self._random.sample(texts, 30)),
            mode="bypassPermissions",
            user=rules(deny=["Bash(rm:*)"]),
        )
        yield from self._group(
            "deny exact", bash(self._random.sample(texts, 40)), user=rules("Bash", deny=["Bash(rm -f zz)"])
        )
        yield from self._group(
            "deny glob", bash(self._random.sample(texts, 30)), user=rules("Bash", deny=["Bash(rm *)"])
        )
        git = [
            "git push",
            "git  push",
            "git push origin x",
            "git -C . push",
            "env git push",
            "git pushx",
            "GIT_X=1 git push",
            "bash -c 'git push'",
            "git 'push'",
            'git "push"',
            "ls; git push",
            "timeout 5 git push",
            "/usr/bin/git push",
            "git --no-pager push",
            "git -c a=b push",
            "nice git push",
            "git\tpush",
            "(git push)",
        ]
        yield from self._group("ask sub-command", bash(git), user=rules("Bash", ask=["Bash(git push:*)"]))
        yield from self._group("deny sub-command", bash(git), user=rules("Bash", deny=["Bash(git push:*)"]))

    def _looking(self) -> Iterator[Case]:
        yield from self._group("looking", bash(commands("looking")), user={})
        yield from self._group("git", bash(f"git {text}" for text in commands("git")), user={})
        yield from self._group(
            "looking, plan", bash(self._random.sample(commands("looking"), 30)), mode="plan", user={}
        )

    def _directories(self) -> Iterator[Case]:
        moves = (
            "cd sub",
            "cd .",
            "cd ..",
            "cd $CWD",
            "cd $OUT",
            "cd sub/..",
            "cd ./sub",
            "cd sub/deep",
            "cd ~",
            "cd link-out",
            "cd $HOME",
            "cd nodir",
            "cd -P sub",
            "cd 'sub'",
            "pushd sub",
            "cd",
        )
        after = (
            "ls",
            "cat x.txt",
            "touch c1",
            "git status",
            "git log",
            "python3 -c 1",
            "echo hi",
            "cd ..",
            "cat ../a.txt",
            "cat ../../outside.txt",
            "mkdir c2",
            "cp x.txt y.txt",
            "echo hi > c3",
            "pwd",
            "grep -r S .",
            "find .",
            "rm -f zz",
            "npm run x",
            "sed -i s/a/b/ x.txt",
            "ln -s a b",
        )
        joined = [
            f"{move}{self._random.choice((' && ', '; ', ' || ', chr(10), ' | '))}{self._random.choice(after)}"
            for move in moves
            for _ in range(5)
        ]
        joined += [
            "touch c5 && cd sub",
            "ls && cd sub && ls",
            "cd sub && cd deep && ls",
            "cd sub && cd .. && ls",
            "(cd sub && ls)",
            "(cd sub; touch x)",
            "if cd sub; then ls; fi",
            "cd sub && ls | cat",
            "cd sub && ls && git status",
            "git status && cd sub",
            "cd sub && ls > x",
            "cd sub && timeout 5 touch x",
        ]
        names = (
            "cd",
            "touch",
            "mkdir",
            "git",
            "echo",
            "python3",
            "sed",
            "rm",
            "cp",
            "ls",
            "npm run",
            "ln",
            "cat",
        )
        yield from self._group("cd, no rule", bash(joined), user={})
        yield from self._group("cd, rules", bash(joined), user=rules(*(f"Bash({name}:*)" for name in names)))
        yield from self._group("cd, bare", bash(self._random.sample(joined, 30)), user=rules("Bash"))
        yield from self._group(
            "cd, acceptEdits", bash(self._random.sample(joined, 30)), mode="acceptEdits", user={}
        )

    def _file_rules(self) -> Iterator[Case]:
        shapes = (
            "secret",
            "./secret",
            "/secret",
            "**/secret",
            "sub/secret",
            "./sub/secret",
            "sub/**",
            "./sub/*",
            "sub/*",
            "sub",
            "sub/",
            "*",
            "**",
            ".",
            "./",
            "./**",
            "/sub/**",
            "*.key",
            "**/*.key",
            "s?cret",
            "se[c]ret",
            "~/other.txt",
            "~/**",
            "//etc/hostname",
            "//etc/**",
            "$CWD/secret",
            "/$CWD/secret",
            "../outside.txt",
            "sub/../secret",
            "SECRET",
            ".env",
            "!secret",
            "dir",
            "deep/",
            "sub/deep",
            "{secret,a.txt}",
            "secret/**",
            "**/sub/**",
            "sub/**/secret",
            "*/secret",
            "deep/secret",
            "src/link-locked/**",
            "link-out/**",
            "/$OUT/**",
        )
        reads = (
            "$CWD/secret",
            "$CWD/sub/secret",
            "$CWD/sub/deep/secret",
            "$CWD/a.txt",
            "$CWD/k.key",
            "$CWD/sub/deep/k.key",
            "$HOME/other.txt",
            "$OUT/out.txt",
            "$CWD/link-to-secret",
            "$CWD/sub/../secret",
            "$CWD/dir/x",
            "$CWD/dir2/x",
            "/etc/hostname",
            "$CWD/link-out/out.txt",
            "$CWD/src/link-locked/y",
            "$CWD/.env",
        )
        for shape in shapes:
            source = self._random.choice(("user", "project", "local"))
            calls = files("Read", *self._random.sample(reads, 7))
            yield from self._group(f"read deny {shape}", calls, **{source: rules(deny=[f"Read({shape})"])})
        writes = (
            "$CWD/n1",
            "$CWD/sub/n1",
            "$CWD/sub/deep/n1",
            "$CWD/secret",
            "$CWD/sub/secret",
            "$CWD/src/n2",
            "$OUT/n3",
            "$CWD/link-out/n4",
            "$CWD/src/link-file",
            "$CWD/.git/x",
            "$CWD/src/.git/x",
            "$CWD/src/link-locked/z",
            "$HOME/n5",
            "$CWD/.env",
        )
        for shape in (
            "n1",
            "./n1",
            "/n1",
            "**/n1",
            "sub/n1",
            "sub/**",
            "./sub/**",
            "sub/",
            "sub",
            "*",
            "**",
            ".",
            "./",
            "./**",
            "src/**",
            "//**",
            "~/**",
            "/$OUT/**",
            "$CWD/**",
            "/$CWD/**",
            "n?",
            "*/n1",
            "./*",
            "link-out/**",
            "src/link-locked/**",
        ):
            source = self._random.choice(("user", "local"))
            calls = files("Write", *self._random.sample(writes, 6)) + files(
                "Edit", *self._random.sample(writes, 2)
            )
            yield from self._group(f"edit allow {shape}", calls, **{source: rules(f"Edit({shape})")})
        for shape in ("n1", "sub/**", "./secret", "*", "src/", "/n1"):
            calls = files("Write", *self._random.sample(writes, 6)) + files("Edit", "$CWD/secret")
            yield from self._group(
                f"edit deny {shape}", calls, user=rules("Write", "Edit", deny=[f"Edit({shape})"])
            )
            yield from self._group(
                f"edit ask {shape}", calls, user=rules("Write", "Edit", ask=[f"Edit({shape})"])
            )
            yield from self._group(
                f"read ask {shape}",
                files("Read", *self._random.sample(reads, 6)),
                user=rules(ask=[f"Read({shape})"]),
            )
        for mode in ("default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"):
            calls = (
                files("Read", *reads)
                + files("Write", *self._random.sample(writes, 9))
                + files("Edit", "$CWD/secret", "$OUT/out.txt")
            )
            calls += files("Write", *(f"$CWD/{name}" for name in self._random.sample(PROTECTED, 7))) + files(
                "NotebookEdit", "$CWD/n.ipynb", "$OUT/n.ipynb"
            )
            yield from self._group(f"files, {mode}", calls, mode=mode, user={})
            yield from self._group(
                f"files, bare rules, {mode}", calls, mode=mode, user=rules("Read", "Edit", "Write")
            )
            yield from self._group(
                f"files, added, {mode}",
                calls,
                mode=mode,
                user=rules("Edit(src/**)", additionalDirectories=["$OUT"]),
            )
        calls = (
            files("Write", "$CWD/n1", "$CWD/secret")
            + files("Edit", "$CWD/a.txt")
            + files("NotebookEdit", "$CWD/n.ipynb")
            + files("Read", "$CWD/a.txt", "/etc/hostname")
            + bash(["cat a.txt", "touch n1", "cat /etc/hostname", "cp a.txt x"])
        )
        for deny in (
            "Read",
            "Edit",
            "Write",
            "NotebookEdit",
            "Read(*)",
            "Edit(**)",
            "Write(n1)",
            "Write(*)",
            "MultiEdit",
            "*",
        ):
            yield from self._group(
                f"whole deny {deny}", calls, user=rules("Bash(cp:*)", "Bash(touch:*)", "Write", deny=[deny])
            )
        for allow in (
            "Read",
            "Edit",
            "Write",
            "NotebookEdit",
            "Write(**)",
            "Write(n1)",
            "NotebookEdit(*)",
            "Edit(**)",
            "Edit(*)",
            "Read(**)",
            "Read(//**)",
            "MultiEdit",
            "Edit()",
            "read",
            " Edit",
            "Edit ",
            "Edit (n1)",
        ):
            yield from self._group(f"whole allow {allow}", calls, user=rules(allow))
        ordered = (
            {"user": rules("Edit(n1)"), "project": rules(deny=["Edit(n1)"])},
            {"user": rules(deny=["Edit(n1)"]), "local": rules("Edit(n1)")},
            {"project": rules("Edit", "Write", "Bash(cp:*)")},
            {"user": rules(ask=["Write"]), "local": rules("Write", "Edit(n1)")},
            {"project": rules(ask=["Bash(cp:*)"]), "user": rules("Bash(cp:*)")},
            {"project": rules(additionalDirectories=["/etc"])},
            {"project": rules(defaultMode="acceptEdits")},
            {"local": rules(defaultMode="acceptEdits")},
            {"user": rules(defaultMode="acceptEdits")},
            {"user": rules(defaultMode="dontAsk")},
            {"user": rules(defaultMode="plan")},
            {"project": rules(defaultMode="bypassPermissions")},
            {"user": rules(defaultMode="bypassPermissions")},
            {"user": rules(defaultMode="nonsense")},
        )
        for number, layers in enumerate(ordered):
            for trusted in (False, True):
                yield from self._group(f"layers {number}", calls, mode=None, trusted=trusted, **layers)

    def _other_tools(self) -> Iterator[Case]:
        mcp: Calls = [("mcp__demo__echo", {"text": "a"}), ("mcp__demo__fail", {})]
        for rule in (
            "mcp__demo",
            "mcp__demo__*",
            "mcp__demo__echo",
            "mcp__demo__e*",
            "mcp__dem*",
            "mcp__*",
            "mcp__demo__",
            "mcp__demo(x)",
            "mcp__demo__echo(a)",
            "*",
            "mcp__demo2",
            "mcp__demo__ech",
            "MCP__demo",
        ):
            yield from self._group(f"mcp allow {rule}", mcp, user=rules(rule))
            yield from self._group(f"mcp ask {rule}", mcp, user=rules("mcp__demo", ask=[rule]))
            yield from self._group(f"mcp deny {rule}", mcp, user=rules("mcp__demo", deny=[rule]))
        for mode in ("acceptEdits", "plan", "dontAsk", "bypassPermissions"):
            yield from self._group(f"mcp {mode}", mcp, mode=mode, user=rules("mcp__demo__echo"))
            yield from self._group(
                f"mcp ask {mode}", mcp, mode=mode, user=rules("mcp__demo", ask=["mcp__demo__fail"])
            )
        agents: Calls = [
            ("Agent", {"prompt": "hi", "subagent_type": name, "description": "x"})
            for name in ("Explore", "general-purpose")
        ]
        for name in ("Agent", "Task"):
            for inner in ("", "(Explore)", "(general-purpose)", "(*)", "(Exp*)", "(explore)"):
                yield from self._group(f"agent deny {name}{inner}", agents, user=rules(deny=[name + inner]))
                yield from self._group(f"agent ask {name}{inner}", agents, user=rules(ask=[name + inner]))
        skills: Calls = [
            ("Skill", {"skill": "greet"}),
            ("Skill", {"skill": "greet", "args": "Ann"}),
            ("Skill", {"skill": "other"}),
        ]
        for inner in ("", "(greet)", "(greet:*)", "(gr*)", "(*)", "(greet Ann)"):
            yield from self._group(f"skill deny {inner}", skills, user=rules(deny=["Skill" + inner]))
            yield from self._group(f"skill ask {inner}", skills, user=rules(ask=["Skill" + inner]))
            yield from self._group(
                f"skill allow {inner}", skills, mode="dontAsk", user=rules("Skill" + inner)
            )
        yield from self._group("skill plan", skills + agents, mode="plan", user={})
        urls = (
            "https://example.org/",
            "https://EXAMPLE.org/x",
            "http://example.org:8080/",
            "https://sub.example.org/",
            "https://example.org.evil.test/",
            "https://evil.test/example.org",
            "https://user:pw@example.org/",
            "https://example.org@evil.test/",
            "https://example.org./",
            "https://code.claude.com/docs",
            "https://docs.python.org/3/",
            "https://github.com/x",
            "https://nodejs.org/",
            "https://127.0.0.1/",
            "http://localhost/",
            "ftp://example.org/",
            "https://modelcontextprotocol.io/x",
            "https://react.dev/",
            "https://developer.mozilla.org/x",
            "https://www.example.org/",
            "https://raw.githubusercontent.com/x",
            "https://go.dev/",
            "https://github.com/anthropics",
            "not a url",
        )
        fetches: Calls = [("WebFetch", {"url": url, "prompt": "p"}) for url in urls]
        for rule in (
            "WebFetch(domain:example.org)",
            "WebFetch(domain:*.example.org)",
            "WebFetch(domain:*)",
            "WebFetch",
            "WebFetch(https://example.org/)",
            "WebFetch(example.org)",
            "WebFetch(*)",
            "WebFetch(domain:EXAMPLE.org)",
        ):
            chosen = self._random.sample(fetches, 12)
            yield from self._group(f"fetch allow {rule}", chosen, user=rules(rule))
            yield from self._group(f"fetch deny {rule}", chosen, user=rules("WebFetch", deny=[rule]))
        yield from self._group("fetch", fetches, user={})
        yield from self._group("fetch, plan", fetches[:10], mode="plan", user={})
        yield from self._group("fetch, dontAsk", fetches[:10], mode="dontAsk", user={})

    def _compositions(self) -> Iterator[Case]:
        settings = {
            "prefixes": rules(
                *(
                    f"Bash({name}:*)"
                    for name in ("touch", "mkdir", "echo", "cat", "ls", "grep", "cp", "python3", "npm run")
                )
            ),
            "nothing": {},
            "denies": rules("Bash", deny=["Bash(rm:*)", "Read(./secret)"]),
            "mixed": rules(
                "Bash(touch:*)",
                "Bash(cp a.txt *)",
                "Bash(git log:*)",
                ask=["Bash(touch b:*)"],
                deny=["Bash(cat:*)"],
            ),
        }
        for name, user in settings.items():
            yield from self._group(f"composed, {name}", bash(self._composed() for _ in range(60)), user=user)
        yield from self._group(
            "composed, acceptEdits",
            bash(self._composed() for _ in range(40)),
            mode="acceptEdits",
            user=settings["prefixes"],
        )
        yield from self._group(
            "composed, plan",
            bash(self._composed() for _ in range(30)),
            mode="plan",
            user=settings["prefixes"],
        )

    def _composed(self) -> str:
        pick = self._random.choice
        parts = [self._part() for _ in range(pick((1, 2, 2, 3)))]
        text = parts[0]
        for part in parts[1:]:
            text += pick((" && ", "; ", " | ", " || ", "\n", " && ")) + part
        around = pick(
            ("{}",) * 12
            + (
                "({})",
                "{{ {}; }}",
                "if {}; then ls; fi",
                "for i in 1 2; do {}; done",
                "! {}",
                "while false; do {}; done",
                "{} &",
                "time {}",
                "case x in x) {};; esac",
                "f() {{ {}; }}; f",
            )
        )
        return around.format(text)

    def _part(self) -> str:
        pick = self._random.choice
        command = pick(
            (
                "ls",
                "ls -la",
                "cat a.txt",
                "cat secret",
                "touch p1",
                "touch b",
                "mkdir p2",
                "echo hi",
                "echo $HOME",
                "grep S a.txt",
                "git status",
                "git log",
                "cp a.txt p3",
                "python3 -c 1",
                "rm -f zz",
                "wc -l a.txt",
                "true",
                "head -1 a.txt",
                "sort a.txt",
                "cat /etc/hostname",
                "touch $OUT/p4",
                "find . -name x",
                "npm run x",
                "echo *",
                "pwd",
                "sed -n 1p a.txt",
                "cat 'a.txt'",
                'touch "p 5"',
                "X=1",
                "test -f a.txt",
            )
        )
        before = pick(("",) * 9 + ("LANG=C ", "FOO=1 ", "timeout 5 ", "nice ", "env ", "command "))
        after = pick(("",) * 9 + (" 2>&1", " > p6", " 2>/dev/null", " < a.txt", " >> $OUT/p7", " $X", " # c"))
        return before + command + after
