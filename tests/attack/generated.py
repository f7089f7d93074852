"""Attack texts made by a generator, each with the rules in force and what the answer must be if the text works.

Four classes (threats B14 to B17, C11, C12): a denied program behind something else, a denied sub-command behind
options, a protected name reached by a copy, a denied or outside file shown by a command that only looks. ``deny``
means that the denied words stand in the text; ``ask`` that they are made or decoded at run time.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any, Literal

Effect = Literal["starts", "removes", "changes", "shows"]


@dataclass(frozen=True, slots=True)
class Attack:
    """One text. ``floor`` is the weakest acceptable answer if ``effect`` is seen when it runs."""

    kind: str
    text: str
    effect: Effect
    floor: str = "ask"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    mode: str = "default"
    real: str = ""
    wanted: tuple[str, ...] = ()
    """Words that the started program must have been given, in this order."""


BROAD: tuple[tuple[tuple[str, ...], str], ...] = (
    (("Bash",), "default"),
    (("Bash(*)",), "default"),
    ((), "bypassPermissions"),
)

# -- a denied program behind something else --------------------------------------------------------

_LISTS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("generated.toml").read_text("utf-8"))
WRAPPERS, TEXTS, SPELLINGS, ASSEMBLED, REMOVALS = (
    _LISTS[name] for name in ("wrappers", "texts", "spellings", "assembled", "removals")
)
NAMED, COPIES, TREES, OPAQUE = (_LISTS[name] for name in ("named", "copies", "trees", "opaque"))
LOOKS, SWEEPS, ENVIRONMENT = (_LISTS[name] for name in ("looks", "sweeps", "environment"))
INNER = [wrapper for wrapper in WRAPPERS if wrapper not in ("!", "if", "coproc", "time", "time -p")]
"""Those that may stand behind another one."""


def _text(template: str) -> str:
    return template.replace("¦", "|").replace("⏎", "\n")


def behind_wrappers(seed: int) -> Iterator[Attack]:
    """The denied program behind one, two or three wrappers."""
    chance = random.Random(seed)
    for number in range(520):
        depth = 0 if number < len(WRAPPERS) else chance.choice((1, 1, 2))
        wrappers = [WRAPPERS[number % len(WRAPPERS)], *(chance.choice(INNER) for _ in range(depth))]
        program = "rm" if chance.random() < 0.8 else chance.choice(("/bin/rm", "'rm'", "r''m"))
        inner = f"{program} victim"
        for wrapper in reversed(wrappers):
            inner = _wrapped(wrapper, inner)
        allow, mode = chance.choice(BROAD)
        rule = chance.choice(("Bash(rm *)", "Bash(rm:*)", "Bash(rm)", "Bash(rm victim)"))
        deny = (rule,) if rule != "Bash(rm)" else ("Bash(rm*)",)
        yield Attack("wrapper", inner, "starts", "deny", allow, deny, mode)
    for text in _LISTS["loaders"]:
        for allow, mode in BROAD:
            yield Attack("loader", text, "removes", "deny", allow, ("Bash(unlink *)",), mode)


def _wrapped(wrapper: str, inner: str) -> str:
    if wrapper.endswith("-exec"):
        return f"{wrapper} {inner} \\;"
    if wrapper == "if":
        return f"if {inner}; then :; fi"
    if wrapper == "coproc":
        return f"coproc {inner}; wait"
    return f"{wrapper} {inner}"


def inside_texts(seed: int) -> Iterator[Attack]:
    """The denied program in a text that a shell or another program will run."""
    chance = random.Random(seed)
    for number in range(560):
        template = _text(TEXTS[number % len(TEXTS)])
        goal = "rm victim" if number < len(TEXTS) else chance.choice(SPELLINGS[:8])
        if number >= 3 * len(TEXTS) and "awk" not in template and "sed" not in template:
            goal = (
                f"{chance.choice(('env', 'nice', 'command', 'timeout 5', 'setarch -R', 'true;', 'sh -c'))} "
                + goal
            )
            goal = "sh -c 'rm victim'" if goal.startswith("sh -c") else goal
        allow, mode = chance.choice(BROAD)
        floor = "ask" if template.startswith(("perl", "node")) else "deny"
        text = template.replace("{}", "rm victim" if "'{}'⏎" in template else _quoted(template, goal))
        yield Attack("text", text, "starts", floor, allow, ("Bash(rm *)",), mode)
    for spelling in SPELLINGS:
        for allow, mode in BROAD:
            yield Attack("spelling", spelling, "starts", "deny", allow, ("Bash(rm:*)",), mode)
    for text in (
        "npm exec -c 'rm victim'",
        "npx -c 'rm victim'",
        "npm --prefix . exec -c 'rm victim'",
        "npm x --call='rm victim'",
    ):
        yield Attack("text", text, "starts", "deny", ("Bash",), ("Bash(rm *)",), real="npm")


def _quoted(template: str, goal: str) -> str:
    return goal if "<<'E'" in template else quote(goal)


def assembled(seed: int) -> Iterator[Attack]:
    """The denied name does not stand in the text: it is made or decoded at run time."""
    chance = random.Random(seed)
    for template in ASSEMBLED:
        for allow, mode in BROAD:
            text = _text(template)
            if chance.random() < 0.3:
                text = f"{chance.choice(('ls', 'true', 'echo a'))} && {text}" if "⏎" not in template else text
            yield Attack("assembled", text, "starts", "ask", allow, ("Bash(rm *)",), mode)


# -- a denied sub-command behind options -----------------------------------------------------------


def behind_options(seed: int) -> Iterator[Attack]:
    """Options, with values apart or attached, before and between the words of a denied sub-command."""
    chance = random.Random(seed)
    for number in range(380):
        program = list(_LISTS["subcommands"])[number % len(_LISTS["subcommands"])]
        denied, valued, flags = _LISTS["subcommands"][program].values()
        words = chance.choice(denied).split()
        made = [program]
        for position, word in enumerate(words):
            if word.startswith("-"):
                continue
            count = chance.choice((1, 1, 2, 3)) if position == 0 or chance.random() < 0.5 else 0
            made += [chance.choice(valued if chance.random() < 0.75 else flags) for _ in range(count)]
            made.append(word)
        made += [word for word in words if word.startswith("-")] + [
            chance.choice(("x", "pod p", "12", "s3://b/k"))
        ]
        text = " ".join(made)
        if chance.random() < 0.25:
            text = _wrapped(
                chance.choice(("env", "timeout 5", "nice", "command", "xargs", "setarch -R")), text
            )
        allow, mode = chance.choice(BROAD)
        rule = chance.choice((f"Bash({program} {' '.join(words)} *)", f"Bash({program} {' '.join(words)}:*)"))
        yield Attack("sub-command", text, "starts", "deny", allow, (rule,), mode, wanted=(program, *words))
    for text in REMOVALS:
        for allow, mode in BROAD:
            yield Attack(
                "options",
                text,
                "starts",
                "deny" if "-- -x" not in text else "ask",
                allow,
                ("Bash(rm -rf *)", "Bash(rm -r -x:*)"),
                mode,
            )


# -- a protected name reached by a copy ------------------------------------------------------------


def copied(seed: int) -> Iterator[Attack]:
    """Protected names written by programs that take the name from their source."""
    chance = random.Random(seed)
    pairs = [(source, place) for source in NAMED for place in (".", "d", "./", "$CWD")] + list(
        map(tuple, _LISTS["into"])
    )
    for number in range(300):
        template = COPIES[number % len(COPIES)]
        source, place = chance.choice(pairs)
        program = next(word for word in template.split() if word in ("cp", "mv", "install", "ln"))
        text = template.replace("{s}", source).replace("{d}", place)
        yield from _in_settings("copy", text, program, chance, listable=True)
    for template in TREES:
        program = next(
            (
                word
                for word in template.replace(";", "").split()
                if word in ("cp", "mv", "install", "ln", "rsync", "scp")
            ),
            "cp",
        )
        for _ in range(2):
            yield from _in_settings("tree", _text(template), program, chance, listable=True)
    for template in OPAQUE:
        program = next(word for word in _text(template).split() if word in ("tar", "unzip", "git", "patch"))
        for _ in range(2):
            yield from _in_settings("unpacked", _text(template), program, chance, listable=False)


def _in_settings(
    kind: str, text: str, program: str, chance: random.Random, *, listable: bool
) -> Iterator[Attack]:
    helpers = ("Bash(cd *)", "Bash(mkdir *)", "Bash(cat *)", "Bash(echo *)")
    choices: list[tuple[tuple[str, ...], str]] = [
        ((), "acceptEdits"),
        ((f"Bash({program} *)", *helpers), "default"),
        ((f"Bash({program}:*)", *helpers), "acceptEdits"),
    ]
    # What is unpacked is not looked up where a person allowed this very text, or all of Bash.
    if listable:
        choices += [((f"Bash({text})",), "default"), (("Bash",), "default"), (("Bash(*)",), "acceptEdits")]
    allow, mode = chance.choice(choices)
    yield Attack(kind, text, "changes", "ask", allow, (), mode)


# -- a file that may not be seen, shown by a command that only looks -------------------------------


def looked_at(seed: int) -> Iterator[Attack]:
    """Without any rule that allows: denied files, files outside the working directory, the environment."""
    chance = random.Random(seed)
    for template in LOOKS:
        for place in ("secret", "private/key", "$OUT/secret", "../outside/secret"):
            if chance.random() < 0.6:
                continue
            deny = () if "outside" in place or "OUT" in place else tuple(chance.choice(_LISTS["read_denies"]))
            yield Attack("look", _text(template).replace("{f}", place), "shows", "ask", (), deny)
    for template in SWEEPS:
        for denied in map(tuple, chance.sample(_LISTS["read_denies"], 2)):
            yield Attack("sweep", _text(template), "shows", "ask", (), denied)
    for template in ENVIRONMENT:
        yield Attack("environment", _text(template), "shows", "ask", (), ())


def attacks(seed: int) -> list[Attack]:
    """Every attack of a seed, each text once for the same rules."""
    made = [
        attack
        for number, part in enumerate(
            (behind_wrappers, inside_texts, assembled, behind_options, copied, looked_at)
        )
        for attack in part(seed + number)
    ]
    return list(dict.fromkeys(made))
