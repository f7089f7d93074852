"""Types have one name each: ``grep "class Name"`` or ``grep "^Name ="`` in ``src`` finds one place."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "recollect"
# By its first words: to parse all modules takes fifty times as long, and finds the same.
_CLASS = rb"[ \t]*class (\w+)[ \t]*[(:]"
# A type variable, and an alias with an underscore, mean something in their module only.
_ALIAS = rb"([A-Z]\w*[a-z]\w*)(?:: TypeAlias)? = (?!TypeVar\()"
_DEFINITION = re.compile(rb"^(?:" + _CLASS + rb"|" + _ALIAS + rb")", re.MULTILINE)
# Its classes are known to programs by the names that the blocking library has.
_SAME_ON_PURPOSE = ("aio.py",)


def type_definitions(source: Path) -> dict[str, list[str]]:
    """Where each class and alias is defined, nested classes included; a leading underscore makes no other name of a class."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(source.rglob("*.py")):
        text = path.read_bytes()
        for found in _DEFINITION.finditer(text):
            if found[1] is None and path.name in _SAME_ON_PURPOSE:
                continue
            line = text.count(b"\n", 0, found.end()) + 1
            places[(found[1] or found[2]).decode().lstrip("_")].append(f"{path.relative_to(source)}:{line}")
    return dict(places)


def test_each_name_of_a_type_is_defined_once() -> None:
    """Two types of one name are two things to a reader and one to a search: give one of them its own word."""
    found = type_definitions(SOURCE)

    assert "Session" in found
    assert {} == {name: places for name, places in found.items() if len(places) > 1}


def test_a_second_definition_is_found_wherever_it_stands(tmp_path: Path) -> None:
    """In another module, inside a class or a function, private or not; as a class or as an alias."""
    (tmp_path / "one.py").write_text(
        "class Line:\n    class Part:\n        pass\n\n\nclass Alone:\n    pass\n"
    )
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "three.py").write_text(
        'Alone = dict[str, int]\n_Alone = int\nAlone: TypeAlias = "int | Alone"\nLine = TypeVar("Line")\nLINE = 3\n'
    )
    (tmp_path / "inner" / "two.py").write_text(
        "class _Line:\n    pass\n\n\ndef made() -> None:\n    class Part:\n        pass\n"
    )

    found = type_definitions(tmp_path)

    assert ["inner/two.py:1", "one.py:1"] == found["Line"]
    assert ["inner/two.py:6", "one.py:2"] == found["Part"]
    assert ["inner/three.py:1", "inner/three.py:3", "one.py:6"] == found["Alone"]
