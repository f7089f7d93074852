"""Permission calls made by a generator: every file command, path, rule form and mode, and random compositions.

The pieces are in ``tests/data/permission_commands.txt``; another seed puts them together in other ways. Every command
is harmless: it touches only the world of ``permission_world``, because the client runs for real what it allows.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tests.oracle.permission_world import Case

COMMANDS = Path(__file__).resolve().parents[1] / "data" / "permission_commands.txt"
Calls = list[tuple[str, dict[str, Any]]]
_SECTION = re.compile(r"\[([a-z][a-z -]{2,})\]")
_ARGUMENTS: dict[str, dict[str, str]] = {
    "Read": {},
    "Write": {"content": "x"},
    "Edit": {"old_string": "S", "new_string": "T"},
}
_AROUND: tuple[str, ...] = ("{}",) * 12 + (
    "({})",
    "{{ {}; }}",
    "if {}; then ls; fi",
    "for i in 1 2; do {}; done",
    "! {}",
    "{} &",
)
_AROUND += ("while false; do {}; done", "time {}", "case x in x) {};; esac", "f() {{ {}; }}; f")
_BEFORE = ("",) * 9 + ("LANG=C ", "FOO=1 ", "timeout 5 ", "nice ", "env ", "command ")
_AFTER = ("",) * 9 + (" 2>&1", " > p6", " 2>/dev/null", " < a.txt", " >> $OUT/p7", " $X")


@cache
def pieces(section: str) -> tuple[str, ...]:
    """A section of the list; visible marks stand for newline, tab and carriage return."""
    found: dict[str, list[str]] = {}
    for line in COMMANDS.read_text(encoding="utf-8").split("\n"):
        if name := _SECTION.fullmatch(line):
            current = found.setdefault(name.group(1), [])
        elif line:
            current.append(line.replace("\u23ce", "\n").replace("\u21e5", "\t").replace("\u240d", "\r"))
    return tuple(found[section])


def rules(*allow: str, ask: Iterable[str] = (), deny: Iterable[str] = (), **more: Any) -> dict[str, Any]:
    """One settings layer."""
    lists = {"allow": list(allow), "ask": list(ask), "deny": list(deny)}
    return {"permissions": {**{name: rules for name, rules in lists.items() if rules}, **more}}


def bash(made: Iterable[str]) -> Calls:
    """Calls of Bash, each command once."""
    return [("Bash", {"command": command}) for command in dict.fromkeys(made)]


def files(tool: str, *paths: str) -> Calls:
    """Calls of a file tool."""
    return [(tool, {"file_path": path, **_ARGUMENTS[tool]}) for path in paths]


def prefixes(*templates: str) -> tuple[str, ...]:
    """A prefix rule for every program of these commands."""
    return tuple(f"Bash({name}:*)" for name in dict.fromkeys(one.split()[0] for one in templates))


class CaseGenerator:
    """Groups of calls with their settings; another seed chooses other combinations."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def cases(self) -> Iterator[Case]:
        """Every case, those of one group together."""
        for part in (
            self._file_commands,
            self._path_rules,
            self._syntax,
            self._wrappers,
            self._hidden,
            self._looking,
        ):
            yield from part()
        for part in (self._directories, self._read_rules, self._edit_rules, self._layers, self._named_tools):
            yield from part()
        for part in (self._fetches, self._compositions):
            yield from part()

    def _group(
        self,
        name: str,
        calls: Calls,
        *,
        mode: str | None = "default",
        trusted: bool = False,
        layers: dict[str, Any] | None = None,
        **more: Any,
    ) -> Iterator[Case]:
        for tool, arguments in calls:
            yield {
                "group": name,
                "tool": tool,
                "input": arguments,
                "layers": {**(layers or {}), **more},
                "mode": mode,
                "trusted": trusted,
            }

    def _some(self, items: Iterable[Any], number: int) -> list[Any]:
        chosen = list(items)
        return self._random.sample(chosen, min(number, len(chosen)))

    def _filled(self, templates: str, paths: Iterable[str], share: float = 1.0) -> list[str]:
        chosen = list(paths)
        made = (one.replace("{}", self._random.choice(chosen)) for one in pieces(templates))
        return [one for one in made if self._random.random() < share]

    def _file_commands(self) -> Iterator[Case]:
        every = pieces("readers") + pieces("writers")
        prefix = rules(*prefixes(*every))
        inside, outside = pieces("inside"), pieces("outside")
        reads, far = pieces("read inside"), pieces("read outside")
        calls = bash(self._filled("readers", far) + self._filled("writers", outside))
        yield from self._group("prefix, outside", calls, user=prefix)
        calls = bash(self._filled("readers", reads) + self._filled("writers", inside))
        yield from self._group("prefix, inside", calls, user=prefix)
        yield from self._group(
            "prefix, protected", bash(self._filled("writers", pieces("protected"), 0.4)), user=prefix
        )
        glob = rules(*(one.replace(":*", " *") for one in prefixes(*every)))
        calls = bash(
            self._filled("readers", far + inside, 0.3) + self._filled("writers", far[:3] + inside, 0.3)
        )
        yield from self._group("glob", [one for one in calls if "/etc" not in one[1]["command"]], user=glob)
        exact = self._filled("readers", outside + inside, 0.3) + self._filled(
            "writers", outside + inside, 0.3
        )
        yield from self._group("exact", bash(exact), user=rules(*(f"Bash({one})" for one in exact)))
        yield from self._group("no rule, outside", bash(self._filled("readers", far)), user={})
        calls = bash(self._filled("readers", reads) + self._filled("writers", inside))
        yield from self._group("no rule, inside", calls, user={})
        for mode in ("acceptEdits", "plan", "dontAsk"):
            calls = bash(
                self._filled("readers", reads + far, 0.2) + self._filled("writers", inside + outside, 0.6)
            )
            yield from self._group(f"no rule, {mode}", calls, mode=mode, user={})
            calls = bash(
                self._filled("readers", inside + outside, 0.2)
                + self._filled("writers", inside + outside, 0.3)
            )
            yield from self._group(f"prefix, {mode}", calls, mode=mode, user=prefix)
        calls = bash(self._filled("writers", pieces("protected"), 0.5))
        yield from self._group("protected, acceptEdits", calls, mode="acceptEdits", user={})
        for bare in ("Bash", "Bash(*)"):
            calls = bash(self._filled("readers", far, 0.3) + self._filled("writers", outside, 0.3))
            yield from self._group(bare, calls, user=rules(bare))
        yield from self._group(
            "Bash, protected", bash(self._filled("writers", pieces("protected"), 0.2)), user=rules("Bash")
        )

    def _path_rules(self) -> Iterator[Case]:
        allow = prefixes(*pieces("readers"), *pieces("writers"))
        added = ("$OUT/o8", "link-out/o9", "$OUT/sub/o10")
        calls = bash(self._filled("readers", added, 0.5) + self._filled("writers", added, 0.5))
        yield from self._group("added directory", calls, user=rules(*allow, additionalDirectories=["$OUT"]))
        far = ("/etc/hostname", "$OUT/out.txt", "~/docs/d.txt")
        calls = bash(
            self._filled("writers", ("$OUT/o8", "link-out/o9"), 0.5) + self._filled("readers", far, 0.5)
        )
        paths = ("Edit(/$OUT/**)", "Read(//etc/**)", "Edit(src/**)", "Read(~/docs/**)")
        yield from self._group("path rules", calls, user=rules(*allow, *paths))
        calls = bash(
            self._filled("writers", ("$OUT/o8", "src/n1", "o1"), 0.4) + self._filled("readers", far, 0.4)
        )
        yield from self._group("path rules only", calls, user=rules(*paths))
        yield from self._group("path rules only, acceptEdits", calls, mode="acceptEdits", user=rules(*paths))
        denied = ("secret", "sub/secret", "k.key", "dir/x", "dir", ".", "link-to-secret")
        calls = bash(
            self._filled("readers", denied, 0.4) + self._filled("writers", ("src/n1", "secret"), 0.3)
        )
        deny = ["Read(./secret)", "Edit(src/**)", "Read(**/*.key)", "Read(dir/)"]
        yield from self._group("path denies", calls, user=rules(*allow, deny=deny))
        calls = bash(self._filled("readers", ("secret",), 0.1) + self._filled("writers", ("src/n1",), 0.1))
        yield from self._group("path asks", calls, user=rules(*allow, ask=["Read(./secret)", "Edit(src/**)"]))

    def _syntax(self) -> Iterator[Case]:
        allow = rules("Bash(touch:*)", "Bash(mkdir:*)", "Bash(echo:*)", "Bash(cat:*)", "Bash(ls:*)")
        texts = pieces("syntax") + pieces("pipes")
        yield from self._group("syntax", bash(texts), user=allow)
        yield from self._group("syntax, no rule", bash(self._some(texts, 60)), user={})
        safe = [text for text in self._some(texts, 50) if not text.startswith(("yes", "select"))]
        yield from self._group("syntax, bare", bash(safe), user=rules("Bash"))
        yield from self._group("syntax, bypass", bash(safe[:25]), mode="bypassPermissions", user={})
        yield from self._group(
            "syntax, acceptEdits", bash(self._some(texts, 40)), mode="acceptEdits", user={}
        )
        exact = pieces("exact")
        yield from self._group(
            "exact texts",
            bash(exact + pieces("exact variants")),
            user=rules(*(f"Bash({one})" for one in exact)),
        )
        yield from self._group(
            "wildcards", bash(pieces("wildcard calls")), user=rules(*pieces("wildcard rules"))
        )
        names = pieces("environment")
        calls = [f"{name}=x touch e1" for name in names] + [f"{name}=x ls" for name in self._some(names, 12)]
        calls += pieces("environment calls")
        yield from self._group("environment", bash(calls), user=rules("Bash(touch:*)"))
        calls = ["FOO=1 touch e1", "FOO=2 touch e1", "LANG=C touch e2", "FOO=1 LANG=C touch e3"]
        allow = rules("Bash(FOO=1 touch:*)", "Bash(LANG=C touch:*)")
        yield from self._group("environment rule", bash(calls), user=allow)

    def _wrappers(self) -> Iterator[Case]:
        wrappers = pieces("wrappers")
        yield from self._group(
            "wrappers", bash(f"{one} touch w1" for one in wrappers), user=rules("Bash(touch:*)")
        )
        yield from self._group("wrappers around looking", bash(f"{one} ls" for one in wrappers), user={})
        named = pieces("wrapper names")
        calls = [f"{one} touch w2" for one in wrappers if one.split()[0] in named and "sudo" not in one]
        allow = rules(*(f"Bash({name}:*)" for name in named))
        yield from self._group("wrapper rules", bash([*calls, *pieces("wrapped calls")]), user=allow)
        allow = rules("Bash(touch:*)", "Bash(env:*)", "Bash(xargs:*)")
        yield from self._group(
            "wrapper, outside", bash(f"{one} touch $OUT/w3" for one in wrappers[:24]), user=allow
        )

    def _hidden(self) -> Iterator[Case]:
        texts = [text for text in pieces("hidden") if not text.startswith(("watch", "su "))]
        yield from self._group("deny hidden", bash(texts), user=rules("Bash", deny=["Bash(rm:*)"]))
        yield from self._group(
            "deny hidden, no allow", bash(self._some(texts, 40)), user=rules(deny=["Bash(rm:*)"])
        )
        yield from self._group(
            "ask hidden", bash(self._some(texts, 40)), user=rules("Bash", ask=["Bash(rm:*)"])
        )
        deny = rules(deny=["Bash(rm:*)"])
        yield from self._group(
            "deny, bypass", bash(self._some(texts, 30)), mode="bypassPermissions", user=deny
        )
        for rule in ("Bash(rm -f zz)", "Bash(rm *)"):
            yield from self._group(
                f"deny {rule}", bash(self._some(texts, 30)), user=rules("Bash", deny=[rule])
            )
        calls = bash(pieces("sub-commands"))
        yield from self._group("ask sub-command", calls, user=rules("Bash", ask=["Bash(git push:*)"]))
        yield from self._group("deny sub-command", calls, user=rules("Bash", deny=["Bash(git push:*)"]))

    def _looking(self) -> Iterator[Case]:
        yield from self._group("looking", bash(pieces("looking")), user={})
        yield from self._group("git", bash(f"git {text}" for text in pieces("git")), user={})
        yield from self._group("looking, plan", bash(self._some(pieces("looking"), 30)), mode="plan", user={})

    def _directories(self) -> Iterator[Case]:
        joins = (" && ", "; ", " || ", "\n", " | ")
        moves = [move for move in pieces("moves") for _ in range(5)]
        made = [
            f"{one}{self._random.choice(joins)}{self._random.choice(pieces('after moves'))}" for one in moves
        ]
        calls = bash([*made, *pieces("moved calls")])
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
        yield from self._group("cd, no rule", calls, user={})
        yield from self._group("cd, rules", calls, user=rules(*(f"Bash({name}:*)" for name in names)))
        yield from self._group("cd, bare", self._some(calls, 30), user=rules("Bash"))
        yield from self._group("cd, acceptEdits", self._some(calls, 30), mode="acceptEdits", user={})

    def _read_rules(self) -> Iterator[Case]:
        reads = pieces("reads")
        for shape in pieces("shapes"):
            source = self._random.choice(("user", "project", "local"))
            calls = files("Read", *self._some(reads, 7))
            yield from self._group(
                f"read deny {shape}", calls, layers={source: rules(deny=[f"Read({shape})"])}
            )
        for shape in ("n1", "sub/**", "./secret", "*", "src/", "/n1"):
            calls = files("Read", *self._some(reads, 6))
            yield from self._group(f"read ask {shape}", calls, user=rules(ask=[f"Read({shape})"]))

    def _edit_rules(self) -> Iterator[Case]:
        writes, reads, guarded = pieces("writes"), pieces("reads"), pieces("protected")
        for shape in pieces("edit shapes"):
            source = self._random.choice(("user", "local"))
            calls = files("Write", *self._some(writes, 6))
            yield from self._group(f"edit allow {shape}", calls, layers={source: rules(f"Edit({shape})")})
        for shape in ("n1", "sub/**", "./secret", "*", "src/", "/n1"):
            calls = files("Write", *self._some(writes, 6))
            deny, ask = [f"Edit({shape})"], [f"Edit({shape})"]
            yield from self._group(f"edit deny {shape}", calls, user=rules("Write", "Edit", deny=deny))
            yield from self._group(f"edit ask {shape}", calls, user=rules("Write", "Edit", ask=ask))
        for mode in ("default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"):
            calls = (
                files("Read", *reads) + files("Write", *self._some(writes, 9)) + files("Edit", "$CWD/secret")
            )
            calls += files("Write", *(f"$CWD/{name}" for name in self._some(guarded, 7)))
            yield from self._group(f"files, {mode}", calls, mode=mode, user={})
            yield from self._group(
                f"files, bare, {mode}", calls, mode=mode, user=rules("Read", "Edit", "Write")
            )
            added = rules("Edit(src/**)", additionalDirectories=["$OUT"])
            yield from self._group(f"files, added, {mode}", calls, mode=mode, user=added)

    def _layers(self) -> Iterator[Case]:
        calls = files("Read", "$CWD/a.txt", "/etc/hostname") + files("Write", "$CWD/n1", "$CWD/a.txt")
        calls += files("Edit", "$CWD/a.txt") + bash(
            ["cat a.txt", "touch n1", "cat /etc/hostname", "cp a.txt x"]
        )
        for deny in pieces("whole denies"):
            allow = ("Bash(cp:*)", "Bash(touch:*)", "Write")
            yield from self._group(f"whole deny {deny}", calls, user=rules(*allow, deny=[deny]))
        for allowed in (*pieces("whole allows"), " Edit", "Edit "):
            yield from self._group(f"whole allow {allowed}", calls, user=rules(allowed))
        modes = ("acceptEdits", "dontAsk", "plan", "bypassPermissions", "nonsense")
        settings: list[dict[str, Any]] = [
            {"user": rules("Edit(n1)"), "project": rules(deny=["Edit(n1)"])},
            {"user": rules(deny=["Edit(n1)"]), "local": rules("Edit(n1)")},
            {"project": rules("Edit", "Write", "Bash(cp:*)")},
            {"user": rules(ask=["Write"]), "local": rules("Write", "Edit(n1)")},
            {"project": rules(ask=["Bash(cp:*)"]), "user": rules("Bash(cp:*)")},
            {"project": rules(additionalDirectories=["/etc"])},
            {"local": rules("Bash(cp:*)", additionalDirectories=["/etc"])},
            *({"user": rules(defaultMode=mode)} for mode in modes),
            *({"project": rules(defaultMode=mode)} for mode in modes),
            *({"local": rules(defaultMode=mode)} for mode in modes[:4]),
        ]
        for number, layers in enumerate(settings):
            for trusted in (False, True):
                yield from self._group(f"layers {number}", calls, mode=None, trusted=trusted, layers=layers)

    def _named_tools(self) -> Iterator[Case]:
        mcp: Calls = [("mcp__demo__echo", {"text": "a"}), ("mcp__demo__fail", {})]
        for rule in pieces("mcp rules"):
            yield from self._group(f"mcp allow {rule}", mcp, user=rules(rule))
            yield from self._group(f"mcp ask {rule}", mcp, user=rules("mcp__demo", ask=[rule]))
            yield from self._group(f"mcp deny {rule}", mcp, user=rules("mcp__demo", deny=[rule]))
        for mode in ("acceptEdits", "plan", "dontAsk", "bypassPermissions"):
            yield from self._group(f"mcp {mode}", mcp, mode=mode, user=rules("mcp__demo__echo"))
            ask = rules("mcp__demo", ask=["mcp__demo__fail"])
            yield from self._group(f"mcp ask {mode}", mcp, mode=mode, user=ask)
        agents: Calls = [
            ("Agent", {"prompt": "hi", "subagent_type": name, "description": "x"})
            for name in ("Explore", "general-purpose")
        ]
        for rule in (
            f"{name}{inner}" for name in ("Agent", "Task") for inner in ("", "(Explore)", "(*)", "(Exp*)")
        ):
            yield from self._group(f"agent deny {rule}", agents, user=rules(deny=[rule]))
            yield from self._group(f"agent ask {rule}", agents, user=rules(ask=[rule]))
        named: Calls = [("Skill", {"skill": "greet"}), ("Skill", {"skill": "greet", "args": "Ann"})]
        for inner in ("", "(greet)", "(greet:*)", "(gr*)", "(*)"):
            yield from self._group(f"skill deny {inner}", named, user=rules(deny=["Skill" + inner]))
            yield from self._group(f"skill allow {inner}", named, mode="dontAsk", user=rules("Skill" + inner))

    def _fetches(self) -> Iterator[Case]:
        fetches: Calls = [("WebFetch", {"url": url, "prompt": "p"}) for url in pieces("urls")]
        for rule in pieces("fetch rules"):
            chosen = self._some(fetches, 8)
            yield from self._group(f"fetch allow {rule}", chosen, user=rules(rule))
            yield from self._group(f"fetch deny {rule}", chosen, user=rules("WebFetch", deny=[rule]))
        yield from self._group("fetch", fetches, user={})
        yield from self._group("fetch, plan", fetches[:10], mode="plan", user={})
        yield from self._group("fetch, dontAsk", fetches[:10], mode="dontAsk", user={})

    def _compositions(self) -> Iterator[Case]:
        names = ("touch", "mkdir", "echo", "cat", "ls", "grep", "cp", "python3", "npm run")
        prefix = rules(*(f"Bash({name}:*)" for name in names))
        settings = {
            "prefixes": prefix,
            "nothing": {},
            "denies": rules("Bash", deny=["Bash(rm:*)", "Read(./secret)"]),
            "mixed": rules(
                *("Bash(touch:*)", "Bash(cp a.txt *)", "Bash(git log:*)"),
                ask=["Bash(touch b:*)"],
                deny=["Bash(cat:*)"],
            ),
        }
        for name, user in settings.items():
            yield from self._group(f"composed, {name}", bash(self._composed() for _ in range(80)), user=user)
        for mode, number in (("acceptEdits", 60), ("plan", 30), ("dontAsk", 40)):
            calls = bash(self._composed() for _ in range(number))
            yield from self._group(f"composed, {mode}", calls, mode=mode, user=prefix)

    def _composed(self) -> str:
        pick = self._random.choice
        text = self._part()
        for _ in range(pick((0, 1, 1, 2))):
            text += pick((" && ", "; ", " | ", " || ", "\n", " && ")) + self._part()
        return pick(_AROUND).format(text)

    def _part(self) -> str:
        pick = self._random.choice
        return pick(_BEFORE) + pick(pieces("parts")) + pick(_AFTER)
