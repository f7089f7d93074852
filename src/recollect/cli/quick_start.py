"""Faster start and exit for commands that run often. Import it before anything that imports msgspec or argparse.

Half the time of such a command is Python itself. Five costs are avoided:

- msgspec and the standard library import modules for what no command here does: typing_extensions
  (``typing`` has the same names since Python 3.11), schemas, the name of the platform, translations,
  addresses, other formats. While they import, a stand-in is in the place of each; it loads the module
  when anything else of it is asked for. Later imports find the module itself.
- ``datetime`` of Python 3.11 defines all its classes in Python, then replaces them by those of a library.
- ``typing`` compiles the annotations of every named tuple and struct, which no one evaluates here.
- The garbage collector scans all imported objects repeatedly during imports.
- At exit it scans everything once more, just before the process gives back its memory.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from types import ModuleType

_HIDDEN_MODULE = "typing_extensions"
# New objects between two collections: more than a start creates, a few megabytes at most.
_COLLECTION_THRESHOLD = 100_000


class _StandIn(ModuleType):
    """A module that is loaded at the first question it cannot answer."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        import importlib

        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


def _late(module: str, function: str) -> object:
    """A function of a module that is loaded when it is called."""

    def called(*arguments: object, **options: object) -> object:
        import importlib

        return getattr(importlib.import_module(module), function)(*arguments, **options)

    return called


def _import_little() -> None:
    """Import msgspec, argparse and pathlib without what they do not need here."""
    schema, urls = "msgspec._json_schema", "urllib.parse"
    known: dict[str, dict[str, object]] = {
        "platform": {"system": lambda: os.uname().sysname} if os.name == "posix" else {},
        "gettext": {"gettext": str, "ngettext": lambda one, many, count: one if count == 1 else many},
        urls: {"quote_from_bytes": _late(urls, "quote_from_bytes")},
        "msgspec.inspect": {},
        schema: {name: _late(schema, name) for name in ("schema", "schema_components")},
        "msgspec.msgpack": {},
        "msgspec.toml": {},
        "msgspec.yaml": {},
    }
    if os.name == "posix":
        known["ntpath"] = {}
    placed: dict[str, object] = {}
    for name, answers in known.items():
        if name not in sys.modules:
            placed[name] = sys.modules[name] = _StandIn(name)
            vars(placed[name]).update(answers)
    if _HIDDEN_MODULE not in sys.modules:
        placed[_HIDDEN_MODULE] = sys.modules[_HIDDEN_MODULE] = None  # type: ignore[assignment]  # an import fails
    try:
        import argparse  # noqa: F401 - imported here so that later imports find them loaded
        import pathlib  # noqa: F401

        import msgspec  # noqa: F401
    finally:
        for name, stand_in in placed.items():
            if sys.modules.get(name) is stand_in:
                del sys.modules[name]


def _import_fast_datetime() -> None:
    """Put the classes of the library in the place of ``datetime``. They are the module's own, so that it does not matter
    who loaded what first; newer versions of Python do the same."""
    import _datetime  # type: ignore[import-not-found]  # there is no description of it

    stand_in = _StandIn("datetime")
    vars(stand_in).update({**vars(_datetime), "__name__": "datetime"})
    sys.modules["datetime"] = stand_in


def _compiled_when_evaluated(source: str, *_: object) -> str:
    """In the place of ``compile`` in ``typing``: it hands the result to ``eval``, which takes the text as well."""
    return source


def _compile_no_annotations() -> None:
    import typing  # not above: this is where most objects of a start are made

    vars(typing)["compile"] = _compiled_when_evaluated


gc.set_threshold(_COLLECTION_THRESHOLD)
_compile_no_annotations()
atexit.register(gc.freeze)
if sys.version_info < (3, 12) and sys.implementation.name == "cpython" and "datetime" not in sys.modules:
    _import_fast_datetime()
if "msgspec" not in sys.modules:
    _import_little()
