"""Write docs/reference/api.md from the docstrings of the public modules, or check that it is up to date.

python tools/build_api_reference.py [--check]

The source is read, not imported, so the page does not depend on which extras are installed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import griffe

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "api.md"
PUBLIC_MODULES = (
    "recollect",
    "recollect.aio",
    "recollect.provider",
    "recollect.sdk",
    "recollect.guard.library",
    "recollect.flags",
)
_LONGEST_VALUE = 60
"""A longer constant is named without its value."""


def anchor(heading: str) -> str:
    """The fragment under which Markdown viewers offer a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def _prose(documented: griffe.Object) -> str:
    """A docstring as Markdown: inline literals get one backtick instead of two."""
    text = documented.docstring.value if documented.docstring else ""
    return re.sub(r"``([^`]+)``", r"`\1`", text)


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ").replace("\n  \n", "\n\n")


def _signature(function: griffe.Function, name: str, *, returns: bool = True) -> str:
    """The call as a reader writes it: without ``self`` and without private parameters."""
    shown: list[str] = []
    keywords_only = False
    for parameter in function.parameters:
        if parameter.name in ("self", "cls") or parameter.name.startswith("_"):
            continue
        kind = parameter.kind
        if kind is griffe.ParameterKind.keyword_only and not keywords_only:
            shown.append("*")
        keywords_only |= kind in (griffe.ParameterKind.keyword_only, griffe.ParameterKind.var_positional)
        stars = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}.get(
            kind, ""
        )
        text = stars + parameter.name
        if parameter.annotation is not None:
            text += f": {parameter.annotation}"
        if parameter.default is not None and not stars:
            text += f" = {parameter.default}" if parameter.annotation is not None else f"={parameter.default}"
        shown.append(text)
    result = f" -> {function.returns}" if returns and function.returns is not None else ""
    is_threaded = any(str(decorator.value) == "threaded" for decorator in function.decorators)
    start = "async " if is_threaded or "async" in function.labels else ""
    return f"{start}{name}({', '.join(shown)}){result}"


def _attribute(attribute: griffe.Attribute, start: griffe.Object | griffe.Alias | None) -> str:
    """Name and type; a constant of a class or module also with its value, if that is short."""
    kind, value = attribute.annotation, ""
    if "instance-attribute" in attribute.labels and "class-attribute" not in attribute.labels:
        # ``self.path = path`` has the type that the constructor declares for it.
        given = str(attribute.value) if attribute.value is not None else ""
        if kind is None and isinstance(start, griffe.Function) and given in start.parameters:
            kind = start.parameters[given].annotation
    elif attribute.value is not None:
        value = str(attribute.value)
    shown = f"{attribute.name}: {kind}" if kind is not None else attribute.name
    return f"{shown} = {value}" if value and len(value) <= _LONGEST_VALUE and "\n" not in value else shown


def _members(documented: griffe.Class) -> Iterator[str]:
    """One list item for each public attribute and method, those of private base classes included."""
    inherited = {
        name: member
        for name, member in documented.inherited_members.items()
        if member.parent is not None and member.parent.name.startswith("_")
    }
    for name, found in {**inherited, **documented.members}.items():
        member = found.final_target if name in inherited and isinstance(found, griffe.Alias) else found
        if name.startswith("_") or member.is_alias:
            continue
        if isinstance(member, griffe.Function):
            made = [label for label in ("staticmethod", "classmethod") if label in member.labels]
            line = f"- `{_signature(member, name)}`" + (f" ({made[0]})" if made else "")
        elif isinstance(member, griffe.Attribute):
            line = f"- `{_attribute(member, documented.members.get('__init__'))}`"
        else:
            continue
        said = _prose(member)
        yield f"{line}: {_indented(said)}" if said else line


def _class(documented: griffe.Class) -> Iterator[str]:
    start = documented.members.get("__init__")
    bases = [name for base in documented.bases if (name := str(base).rsplit(".", 1)[-1])[0] != "_"]
    # Its own names are those of the stub.
    bases = [name for name in bases if name != "AsyncProxy"]
    if isinstance(start, griffe.Function):
        yield f"```python\n{_signature(start, documented.name, returns=False)}\n```"
    if bases:
        yield f"Base: `{', '.join(bases)}`."
    yield _prose(documented)
    yield "\n".join(_members(documented))


def _section(module: str, exported: griffe.Object | griffe.Alias, first: dict[str, str]) -> Iterator[str]:
    """Heading and body of one public name; a name that was described before gets a link."""
    heading = f"{module}.{exported.name}"
    yield f"### {heading}"
    if isinstance(exported, griffe.Alias) and not exported.resolved:
        yield f"Re-exported from `{exported.target_path}`."
        return
    documented = exported.final_target if isinstance(exported, griffe.Alias) else exported
    if documented.path in first:
        yield f"The same object as [{first[documented.path]}](#{anchor(first[documented.path])})."
        return
    first[documented.path] = heading
    if isinstance(documented, griffe.Class):
        yield from _class(documented)
    elif isinstance(documented, griffe.Function):
        yield f"```python\n{_signature(documented, exported.name)}\n```"
        yield _prose(documented)
    elif isinstance(documented, griffe.Attribute):
        yield f"```python\n{_attribute(documented, None)}\n```"
        yield _prose(documented)


def reference() -> str:
    """The whole page."""
    package = griffe.load("recollect", search_paths=[ROOT / "src"], resolve_aliases=True)
    parts = [
        "# Library",
        "Generated by `make docs` from the docstrings; edit those. What is not on this page may change without notice.",
        "\n".join(f"- [`{name}`](#{anchor(name)})" for name in PUBLIC_MODULES),
    ]
    first: dict[str, str] = {}
    for name in PUBLIC_MODULES:
        module = package if name == "recollect" else package[name.removeprefix("recollect.")]
        assert isinstance(module, griffe.Module)
        parts += [f"## {name}", _prose(module)]
        for exported in sorted(map(str, module.exports or ()), key=str.lower):
            if not exported.startswith("__"):
                parts += _section(name, module[exported], first)
    return "\n\n".join(part for part in parts if part) + "\n"


def main() -> int:
    """Write or check the page."""
    page = reference()
    if "--check" not in sys.argv:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(page, encoding="utf-8")
        return 0
    if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == page:
        return 0
    print("docs/reference/api.md is not what the docstrings say: run `make docs`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
