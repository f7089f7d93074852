"""Links between the documents lead somewhere, and every page can be reached."""

from __future__ import annotations

import importlib
import re
from functools import cache
from pathlib import Path

import pytest

from tools.build_api_reference import anchor

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "web" / "README.md"]
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_PATH = re.compile(r"`((?:docs|src|tests|tools|bench|requirements)/[\w./*-]+)`")
_ROOMS = "model|agents|store|index|ask|change|share|web|cli|system|guard|server"
_DOTTED = re.compile(rf"`((?:recollect\.)?(?:{_ROOMS}|services|storage)(?:\.\w+)+)`")
_FIELDS = re.compile(r"\.(?:py|json|js|html|toml|state|seen|expected)$")  # names of files, and of fields
_MODULE = re.compile(rf"`((?:{_ROOMS})/(?:[\w/]+\.py|[\w/]*/|))`")


@cache
def text_of(page: Path) -> str:
    """A page without its examples."""
    return _FENCE.sub("", page.read_text("utf-8"))


@cache
def anchors_of(page: Path) -> frozenset[str]:
    """Fragments of a page: its headings, and the anchors it sets itself."""
    text = text_of(page)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return frozenset({*(anchor(heading) for heading in headings), *re.findall(r'<a id="([^"]+)">', text)})


def links_of(page: Path) -> list[tuple[Path, str]]:
    """The files and fragments a page links to; addresses of the web are left out."""
    found = []
    for target in _LINK.findall(_CODE.sub("", text_of(page))):
        if not re.match(r"[a-z]+:", target):
            path, _, fragment = target.partition("#")
            found.append(((page.parent / path).resolve() if path else page, fragment))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_of_a_page_lead_to_a_file_and_a_heading(page: Path) -> None:
    """No relative link is broken, neither by its path nor by its fragment."""
    broken = [
        f"{target}#{fragment}"
        for target, fragment in links_of(page)
        if not target.exists()
        or (fragment and (target.suffix != ".md" or fragment not in anchors_of(target)))
    ]

    assert broken == []


def test_every_page_is_linked_from_the_entrance() -> None:
    """docs/index.md names each page of docs, decisions and examples included."""
    entrance = ROOT / "docs" / "index.md"
    linked = {target for target, _ in links_of(entrance)} | {entrance}

    assert sorted(set((ROOT / "docs").rglob("*.md")) - linked) == []


def test_paths_that_documents_name_exist() -> None:
    """A path such as ``tests/crash/test_kill.py`` or ``model/copies.py`` in a document is that of a file or directory."""
    places = (ROOT, ROOT / "src" / "recollect")
    gone = [
        f"{page.relative_to(ROOT)}: {path}"
        for page in PAGES
        for path in [*_PATH.findall(text_of(page)), *_MODULE.findall(text_of(page))]
        if not any(list(place.glob(path.rstrip("/"))) for place in (*places, page.parent))
    ]

    assert gone == []


def is_there(name: str) -> bool:
    """Whether a dotted name leads to a module, or to something in one."""
    words = name.removeprefix("recollect.").split(".")
    for count in range(len(words), 0, -1):
        path = (ROOT / "src" / "recollect").joinpath(*words[:count])
        if path.is_dir() or path.with_suffix(".py").is_file():
            module = importlib.import_module(".".join(["recollect", *words[:count]]))
            return count == len(words) or hasattr(module, words[count])
    return False


def test_names_of_modules_in_text_and_code_exist() -> None:
    """A name such as ``store.logs.log`` in a document, a docstring or a comment is that of a module, or of something in it."""
    code = [file for place in ("src", "tests", "tools", "bench") for file in (ROOT / place).rglob("*.py")]
    gone = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in [*PAGES, *code]
        if page.name != "CHANGELOG.md"
        for name in _DOTTED.findall(page.read_text("utf-8"))
        if not _FIELDS.search(name) and not is_there(name)
    ]

    assert gone == []
    assert not is_there("store.gone")
