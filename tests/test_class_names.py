"""Types have one name each: ``grep "class Name"`` in ``src`` finds one place."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "recollect"
# By its first words: to parse all modules takes fifty times as long, and finds the same.
_DEFINITION = re.compile(rb"^[ \t]*class (\w+)[ \t]*[(:]", re.MULTILINE)


def class_definitions(source: Path) -> dict[str, list[str]]:
    """Where each class is defined, nested ones included; a leading underscore makes no other name of it."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(source.rglob("*.py")):
        text = path.read_bytes()
        for found in _DEFINITION.finditer(text):
            line = text.count(b"\n", 0, found.start(1)) + 1
            places[found[1].decode().lstrip("_")].append(f"{path.relative_to(source)}:{line}")
    return dict(places)


def test_each_class_name_is_defined_once() -> None:
    """Two classes of one name are two things to a reader and one to a search: give one of them its own word."""
    found = class_definitions(SOURCE)

    assert "Session" in found
    assert {} == {name: places for name, places in found.items() if len(places) > 1}


def test_a_second_definition_is_found_wherever_it_stands(tmp_path: Path) -> None:
    """In another module, inside a class or a function, private or not."""
    (tmp_path / "one.py").write_text(
        "class Line:\n    class Part:\n        pass\n\n\nclass Alone:\n    pass\n"
    )
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "two.py").write_text(
        "class _Line:\n    pass\n\n\ndef made() -> None:\n    class Part:\n        pass\n"
    )

    found = class_definitions(tmp_path)

    assert ["inner/two.py:1", "one.py:1"] == found["Line"]
    assert ["inner/two.py:6", "one.py:2"] == found["Part"]
    assert ["one.py:6"] == found["Alone"]
