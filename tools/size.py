"""How large the house is, beside the goals of the design and the figures of the last change.

python tools/size.py            the table
python tools/size.py --check    fails when a room grew by more than 2 % without a line in docs/size.md that says what a user got
python tools/size.py --write    takes today's figures into docs/size.md and clears those lines
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE, PAGE = ROOT / "src" / "recollect", ROOT / "docs" / "size.md"
HOUSES = ("guard", "server")
GOALS = {
    "core": 62_000,
    "guard": 13_000,
    "server": 10_000,
    "record types": 450,
    "modules": 420,
    "imports inside functions": 150,
    "packages in the largest cycle": 1,
    "tests": 80_000,
}
GROWTH = 1.02
RECORDS = {"Struct", "NamedTuple", "TypedDict"}
GROWTH_TITLE = "## What users got for growth since"


def main(arguments: list[str]) -> int:
    figures, rooms = measured()
    known, reasons = page()
    print(f"{'':32}{'now':>9}{'before':>9}{'goal':>9}")
    for name, value in (figures | rooms).items():
        goal = f"{GOALS[name]:>9,}" if name in GOALS else ""
        print(f"{name:32}{value:>9,}{known.get(name, 0):>9,}{goal}")
    if "--write" in arguments:
        PAGE.write_text(written(figures, rooms), encoding="utf-8")
    grown = [
        room for room, lines in rooms.items() if lines > known.get(room, 0) * GROWTH and room not in reasons
    ]
    if "--check" not in arguments or not grown:
        return 0
    print(
        f"grown by more than 2 %: {', '.join(grown)}. Make it smaller, or say in docs/size.md what a user got:"
    )
    print(f"under '{GROWTH_TITLE}', a line '- {grown[0]}: …'")
    return 1


def measured() -> tuple[dict[str, int], dict[str, int]]:
    """What has a goal; and the lines of each room, largest first."""
    figures, rooms = Counter[str](dict.fromkeys(GOALS, 0)), Counter[str]()
    edges = defaultdict[str, set[str]](set)
    modules = {name_of(path): path for path in SOURCE.rglob("*.py")}
    for name, path in modules.items():
        text = path.read_text(encoding="utf-8")
        tree, lines = ast.parse(text), text.count("\n")
        room = (
            name.split(".")[1]
            if name.count(".") > 1 or (path.name == "__init__.py" and "." in name)
            else "(root)"
        )
        rooms[room] += lines
        figures[room if room in HOUSES else "core"] += lines
        figures["modules"] += 1
        figures["record types"] += sum(map(is_record, ast.walk(tree)))
        figures["imports inside functions"] += len(local_imports(tree))
        here = package(name if path.name == "__init__.py" else name.rpartition(".")[0])
        for target in imported(tree):
            there = package(
                target if target not in modules or is_package(modules[target]) else target.rpartition(".")[0]
            )
            if (
                there != here
                and not f"{there}.".startswith(f"{here}.")
                and not f"{here}.".startswith(f"{there}.")
            ):
                edges[here].add(there)
    figures["packages in the largest cycle"] = largest_cycle(edges)
    figures["tests"] = sum(
        path.read_text(encoding="utf-8").count("\n") for path in (ROOT / "tests").rglob("*.py")
    )
    return dict(figures), dict(rooms.most_common())


def name_of(path: Path) -> str:
    parts = ("recollect", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_package(path: Path) -> bool:
    return path.name == "__init__.py"


def package(name: str) -> str:
    return ".".join(name.split(".")[:3])


def is_record(node: ast.AST) -> bool:
    if not isinstance(node, ast.ClassDef):
        return False
    words = {re.split(r"[.\[(]", ast.unparse(base))[-1] for base in node.bases}
    words |= {ast.unparse(base).split(".")[-1] for base in node.bases}
    return bool(words & RECORDS) or any("dataclass" in ast.unparse(one) for one in node.decorator_list)


def local_imports(tree: ast.Module) -> set[ast.AST]:
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {
        node
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }


def imported(tree: ast.Module) -> Iterator[str]:
    """Modules of ours, also those that are imported inside functions or for types only."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("recollect."):
            yield str(node.module)


def largest_cycle(edges: dict[str, set[str]]) -> int:
    """The most packages of which each reaches each other."""

    def reached(start: str) -> set[str]:
        seen, waiting = set[str](), [start]
        while waiting:
            for after in edges.get(waiting.pop(), ()):
                if after not in seen:
                    seen.add(after)
                    waiting.append(after)
        return seen

    reach = {name: reached(name) for name in list(edges)}
    return max((sum(name in reach.get(other, ()) for other in reach[name]) for name in reach), default=0) or 1


def page() -> tuple[dict[str, int], set[str]]:
    """The figures in docs/size.md, and the rooms for which it says what users got."""
    text = PAGE.read_text(encoding="utf-8") if PAGE.is_file() else ""
    rows = re.findall(r"^\| ([^|]+?) \| ([\d,]+) \|", text, re.MULTILINE)
    reasons = re.findall(r"^- ([\w()]+): \S", text.partition(GROWTH_TITLE)[2], re.MULTILINE)
    return {name: int(value.replace(",", "")) for name, value in rows}, set(reasons)


def written(figures: dict[str, int], rooms: dict[str, int]) -> str:
    rows = [
        f"| {name} | {value:,} | {f'{GOALS[name]:,}' if name in GOALS else ''} |"
        for name, value in (figures | rooms).items()
    ]
    return "\n".join(
        (
            "# Size",
            "",
            "Lines of Python in `src`, by house and by room, and what else has a goal. `make check` prints the same beside",
            "today's figures and fails when a room has grown by more than 2 % without a line below. `python tools/size.py --write`",
            "takes today's figures.",
            "",
            "| what | now | goal |",
            "|---|---|---|",
            *rows,
            "",
            GROWTH_TITLE,
            "",
            "Nothing yet.",
            "",
        )
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
