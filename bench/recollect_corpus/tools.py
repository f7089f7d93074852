"""Projects, and what calls of tools do to their files and tell."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from bench.recollect_corpus.words import DEEP, LANGUAGES, Planter, Words

Fields = dict[str, Any]
Result = tuple[Fields, str, Any]  # the input, what the model is told, what programs are told that show it
_WEIGHTS = {
    "Read": 32,
    "Bash": 30,
    "Edit": 17,
    "Grep": 8,
    "Write": 5,
    "TodoWrite": 4,
    "mcp__tracker__get": 2,
    "Agent": 5,
}
_LONG = 1_200  # lines: more than DEEP characters


class Material(NamedTuple):
    """What all logs of a corpus are made of."""

    words: Words
    planter: Planter


class Project:
    """A directory whose files are read again and again, and edited a little."""

    def __init__(self, words: Words, rng: Random, number: int) -> None:
        name = f"{words.identifier(rng).lower()}-{number}"
        self.cwd = f"/home/dev/{name}"
        self.key = self.cwd.replace("/", "-")
        self.language = rng.choice(LANGUAGES)
        self.files = {
            f"{self.cwd}/src/{words.identifier(rng)}{file}.{self.language}": words.code(
                rng, self.language, _LONG if file == 0 else int(30 / (rng.random() + 0.03))
            )
            for file in range(rng.randrange(20, 40))
        }
        self.paths = list(self.files)


class Call:
    """A call of a tool and what came of it."""

    def __init__(self, material: Material, project: Project, rng: Random, *, may_delegate: bool) -> None:
        self._words, self._planter, self._rng, self._project = *material, rng, project
        self.planted: tuple[str, ...] = ()
        self.planted_in_result: tuple[str, ...] = ()
        self.is_error = False
        self.name = rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        if self.name == "Agent" and not may_delegate:
            self.name = "Bash"
        work: dict[str, Callable[[str, list[str]], Result]] = {
            "Read": self._read, "Bash": self._bash, "Edit": self._edit, "Write": self._write, "Grep": self._grep,
            "TodoWrite": self._todo, "Agent": self._task,
        }  # fmt: skip
        path = rng.choice(project.paths)
        self.given, self.told, self.rich = work.get(self.name, self._mcp)(path, project.files[path])

    def _output(self, text: str) -> str:
        """The text with a word planted in it, now and then."""
        text, self.planted_in_result = self._planter.plant(
            "deep" if len(text) > DEEP + 4_000 else "code", text
        )
        return text

    def _input(self, text: str) -> str:
        text, self.planted = self._planter.plant("tool_input", text)
        return text

    def _read(self, path: str, lines: list[str]) -> Result:
        text = self._output("\n".join(lines))
        file = {
            "filePath": path,
            "content": text,
            "numLines": len(lines),
            "startLine": 1,
            "totalLines": len(lines),
        }
        return {"file_path": path}, _numbered(text.split("\n"), 1), {"type": "text", "file": file}

    def _bash(self, path: str, lines: list[str]) -> Result:
        rng = self._rng
        verb = rng.choice(
            ("pytest -q", "git diff", "make check", "cargo test", "tail -50", "npm run lint --")
        )
        output = [
            f"[{rng.choice(('INFO', 'WARN', 'ERROR'))}] {self._words.short(rng)} took={rng.randrange(9_999)}ms"
            if number % 3
            else line
            for number, line in enumerate(rng.choices(lines, k=int(min(6 / (rng.random() + 0.01), 500))))
        ]
        text = self._output("\n".join(output))
        given = {"command": f"{verb} {path.rpartition('/')[2]}", "description": self._words.short(rng)}
        self.is_error = rng.random() < 0.07
        if self.is_error:
            return given, f"Exit code 1\n{text}", f"Error: Exit code 1\n{text}"
        return given, text, {"stdout": text, "stderr": "", "interrupted": False, "isImage": False}

    def _edit(self, path: str, lines: list[str]) -> Result:
        rng = self._rng
        at, count = rng.randrange(len(lines)), rng.randrange(1, 8)
        old, before = lines[at : at + count], "\n".join(lines)
        new = self._words.code(rng, self._project.language, count)
        lines[at : at + count] = new
        hunk: Fields = {"oldStart": at + 1, "oldLines": len(old), "newStart": at + 1, "newLines": count}
        hunk["lines"] = [*(f"-{line}" for line in old), *(f"+{line}" for line in new)]
        rich: Fields = {"filePath": path, "oldString": "\n".join(old), "newString": "\n".join(new)}
        rich |= {
            "originalFile": before,
            "structuredPatch": [hunk],
            "userModified": False,
            "replaceAll": False,
        }
        given = {"file_path": path, "old_string": "\n".join(old), "new_string": self._input("\n".join(new))}
        told = f"The file {path} has been updated.\n{_numbered(lines[at : at + count + 5], at + 1)}"
        return given, told, rich

    def _write(self, path: str, lines: list[str]) -> Result:
        lines[:] = self._words.code(self._rng, self._project.language, len(lines))
        body = "\n".join(lines)
        rich = {"type": "create", "filePath": path, "content": body, "structuredPatch": []}
        return (
            {"file_path": path, "content": self._input(body)},
            f"File created successfully at: {path}",
            rich,
        )

    def _grep(self, path: str, lines: list[str]) -> Result:
        found = "\n".join(f"{path}:{number}:{line}" for number, line in enumerate(lines[::7]) if line)
        given = {"pattern": self._words.identifier(self._rng), "output_mode": "content"}
        return given, found, {"mode": "content", "filenames": [], "numFiles": 0, "content": found}

    def _todo(self, *_: object) -> Result:
        states = ("completed", "in_progress", "pending")
        todos = [
            {"content": self._words.short(self._rng), "status": state, "activeForm": "Working"}
            for state in states
        ]
        return {"todos": todos}, "Todos have been modified.", {"oldTodos": [], "newTodos": todos}

    def _task(self, *_: object) -> Result:
        kind = self._rng.choice(("Explore", "general-purpose", "Plan"))
        given = {
            "description": self._words.short(self._rng),
            "prompt": self._words.prose(self._rng, 5),
            "subagent_type": kind,
        }
        return given, "", None

    def _mcp(self, *_: object) -> Result:
        told = self._words.prose(self._rng, 12)
        return {"number": self._rng.randrange(4_000)}, told, [{"type": "text", "text": told}]


def _numbered(lines: list[str], first: int) -> str:
    return "\n".join(f"{number:6d}→{line}" for number, line in enumerate(lines, first))
