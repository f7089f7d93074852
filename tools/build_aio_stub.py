"""Write the stubs of ``recollect`` and ``recollect.aio``, or check that they are up to date.

The first names every public name in the module it comes from, the second has the types of the proxies.

python tools/build_aio_stub.py [--check]
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import recollect
from recollect import aio
from recollect.change import actions
from recollect.system.thread_hop import AsyncProxy

STUB = Path(__file__).resolve().parents[1] / "src" / "recollect" / "aio.pyi"
PACKAGE_STUB = STUB.with_name("__init__.pyi")
# Attributes that a constructor sets, and the module of their type.
_ATTRIBUTES = {
    "Home": ("roots: Sequence[HomeRoot]", "homes: Sequence[ClaudeHome]", "cache: ConversationCache"),
    "Session": ("home: ClaudeHome", "file: SessionFile", "cache: ConversationCache | None"),
    "Conversation": ("graph: Graph", "leaf: Node"),
    "SessionLog": ("state: SessionState",),
    "AsyncLogReader": ("path: Path",),
}
_OWN = {
    "Home": ("def watch(self, interval: float = 2.0) -> AsyncGenerator[WatchSnapshot]:",),
    "Conversation": (
        "def __len__(self) -> int:",
        "async def messages(self, start: int | None = None, stop: int | None = None) -> list[Message]:",
    ),
    "Store": ("def log_at(self, path: Path) -> AsyncLog:",),
    "SessionLog": (
        "async def __aenter__(self) -> Self:",
        "async def __aexit__(self, *error: object) -> None:",
    ),
    "AsyncLogReader": ("def __aiter__(self) -> AsyncGenerator[Entry | Damage]:",),
}
_WALK = '''
class AsyncWalk(Generic[_Item]):
    """``Walk`` for an event loop: iterate with ``async for``, or take what is left as an Arrow table."""
    def __aiter__(self) -> AsyncGenerator[_Item]: ...
    async def close(self) -> None:
        """End the walk and give back what it holds open. Not needed after the last one."""
    async def to_arrow(self) -> Any:
        """See ``Walk.to_arrow``."""
    def to_batches(self, rows: int = 10_000) -> AsyncGenerator[Any]:
        """See ``Walk.to_batches``."""
'''
_HEAD = """\
# Written by tools/build_aio_stub.py (`make docs`) from the synchronous library; do not edit.
from typing import Any, Generic, Self, TypeVar
from recollect.model.conversation.conversation import Message
from recollect.model.conversation.graph import Graph
from recollect.model.conversation.graph import Node
from recollect.model.lifecycle import SessionState
from recollect.ask.watch import WatchSnapshot
from recollect.store.home import ClaudeHome, SessionFile
from recollect.store.logs.aio_log import AsyncLog as AsyncLog, async_follow as async_follow
from recollect.store.logs.conversation_cache import ConversationCache
from recollect.system.locations import HomeRoot
from recollect.system.thread_hop import KeyedExecutor as KeyedExecutor, in_thread as in_thread
"""
_PRIVATE = "_ROOMS: dict[str, str]\n_ROOM_OF: dict[str, str]\n_PORCH: tuple[str, ...]"
_ITERATOR = re.compile(r"(?:Iterator|Iterable)\[(.*)\]$|Generator\[(.*), None, None\]$")


def _proxies() -> list[type[AsyncProxy]]:
    return [each for each in vars(aio).values() if inspect.isclass(each) and issubclass(each, AsyncProxy)][1:]


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n\n")[0]


def _parameters(function: Any) -> str:
    """As written, but for private ones; a default that is no literal is left open."""
    shown, is_keyword = [], False
    for name, parameter in inspect.signature(function).parameters.items():
        if name.startswith("_"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not is_keyword:
            shown.append("*")
        is_keyword |= parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        default, star = parameter.default, "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
        kind = "" if parameter.annotation is parameter.empty else f": {parameter.annotation}"
        is_literal = type(default) in (str, int, float, bool, tuple, type(None))
        value = "" if default is parameter.empty else f" = {default!r}" if is_literal else " = ..."
        shown.append(f"{star}{name}{kind}{value}")
    return f"({', '.join(shown)})"


def _method(name: str, function: Any, owner: str) -> str:
    returns = str(function.__annotations__["return"])
    said = f'"""See ``{owner}.{name}``."""'
    if returns.startswith("Walk["):
        return f"def {name}{_parameters(function)} -> Async{returns}:\n        {said}"
    if found := _ITERATOR.match(returns):
        return f"def {name}{_parameters(function)} -> AsyncGenerator[{found[1] or found[2]}]:\n        {said}"
    return f"async def {name}{_parameters(function)} -> {returns}:\n        {said}"


def _class(proxy: type[AsyncProxy]) -> Iterator[str]:
    name, original = proxy.__name__, proxy._of  # noqa: SLF001 - the tool of that class
    yield f'class {name}:\n    """{_first_line(proxy.__doc__)}"""'
    if name in ("Home", "Store", "AsyncLogReader", "AsyncConversationLoader"):
        yield f"    def __init__{_parameters(inspect.getattr_static(original, '__init__'))} -> None: ..."
    for attribute in _ATTRIBUTES.get(name, ()):
        shown, _, kind = attribute.partition(": ")
        yield f"    @property\n    def {shown}(self) -> {kind}: ..."
    own = {line.partition("def ")[2].partition("(")[0]: line for line in _OWN.get(name, ())}
    for method, line in own.items():
        said = _first_line(getattr(vars(proxy)[method], "__doc__", ""))
        yield f"    {line}" + (f'\n        """{said}"""' if said else " ...")
    members = dict.fromkeys(name for base in reversed(original.__mro__[:-1]) for name in vars(base))
    for member in [each for each in members if not each.startswith("_") and each not in own]:
        found = inspect.getattr_static(original, member)
        getter = getattr(found, "fget", None) or getattr(found, "func", None)
        if inspect.isfunction(found):
            yield f"    {_method(member, found, original.__name__)}"
        elif getter is not None and member in vars(proxy):
            yield f"    {_method(member, getter, original.__name__)}"
        elif getter is not None:
            kind = getter.__annotations__["return"]
            yield f'    @property\n    def {member}(self) -> {kind}:\n        """{_first_line(getter.__doc__)}"""'


def _names(module: ModuleType) -> dict[str, str]:
    """What a module imports, for type checkers only too, and defines: where each name comes from."""
    found: dict[str, str] = {}
    for statement in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(statement, ast.ImportFrom) and statement.module and statement.module != "__future__":
            found |= {each.name: statement.module for each in statement.names if each.asname is None}
        elif isinstance(statement, ast.ClassDef):
            found[statement.name] = module.__name__
        elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            found[statement.targets[0].id] = module.__name__
    return found


def stub() -> str:
    """The whole file."""
    parts = ["_Item = TypeVar('_Item')", _WALK]
    modules = [actions]
    for proxy in _proxies():
        parts += _class(proxy)
        modules += [sys.modules[base.__module__] for base in proxy._of.__mro__[:-1]]  # noqa: SLF001 - the tool of that class
    for name in ("check", "repair", "archive", "scan"):
        parts.append(_method(name, getattr(actions, name), "recollect").replace("\n        ", "\n    "))
    directories = "*directories: str | Path, interval: float = 2.0"
    parts.append(f'def watch({directories}) -> AsyncGenerator[WatchSnapshot]:\n    """{aio.watch.__doc__}"""')
    body = "\n".join(parts)
    used, own = (
        set(re.findall(r"\b(?:dt|[A-Z]\w*)\b", re.sub(r'""".*?"""', "", body, flags=re.DOTALL))),
        set(aio.__all__),
    )
    imported = {"Message", "Graph", "Node", "SessionState", "WatchSnapshot", "ClaudeHome", "SessionFile"}
    imported |= {"ConversationCache", "HomeRoot", "Any", "Generic", "Self", "TypeVar", *own}
    sources = {"AsyncGenerator": "collections.abc"}
    for module in modules:
        sources |= {name: source for name, source in _names(module).items() if name not in sources}
    lines = [f"from {sources[name]} import {name}" for name in sorted(used & sources.keys() - imported)]
    dates = ["import datetime as dt"] if "dt" in used else []
    everything = f"__all__ = {aio.__all__!r}"
    text = "\n".join([*dates, _HEAD, *lines, everything, body])
    return _formatted(text)


def _formatted(text: str) -> str:
    for command in (["check", "--select", "I", "--fix"], ["format"]):
        words = [sys.executable, "-m", "ruff", *command, "--quiet", "--stdin-filename", str(STUB), "-"]
        text = subprocess.run(words, input=text, capture_output=True, text=True, check=True).stdout
    return text


def package_stub() -> str:
    """The whole file: every public name, from where it is."""
    lines = [
        "# Written by tools/build_aio_stub.py (`make docs`) from the table in __init__.py; do not edit.",
        f"from recollect import {', '.join(f'{name} as {name}' for name in recollect._PORCH)}",  # noqa: SLF001 - the tool of that table
        "from recollect.version import __version__ as __version__",
    ]
    for room, names in recollect._ROOMS.items():  # noqa: SLF001 - the tool of that table
        lines.append(f"from {room} import {', '.join(names.split())}")
    return _formatted("\n".join([*lines, _PRIVATE, f"__all__ = {recollect.__all__!r}"]))


def main() -> int:
    """Write or check the files."""
    texts = {STUB: stub(), PACKAGE_STUB: package_stub()}
    stale = [
        path for path, text in texts.items() if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]
    for path in stale:
        if "--check" in sys.argv:
            print(f"src/recollect/{path.name} is not what the library says: run `make docs`", file=sys.stderr)
        else:
            path.write_text(texts[path], encoding="utf-8")
    return int(bool(stale) and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
