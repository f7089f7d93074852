"""Everything a public call takes or returns is public and documented, found by walking the annotations."""

from __future__ import annotations

import ast
import datetime as dt
import functools
import importlib
import inspect
import sys
import types
import typing
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from msgspec import Struct

import recollect

MODULES = (
    "recollect",
    "recollect.aio",
    "recollect.provider",
    "recollect.sdk",
    "recollect.guard.library",
    "recollect.flags",
)
TOUCHED = ("__init__", "__iter__", "__getitem__", "__next__", "__aiter__", "__call__", "__add__")


class PublicTypes:
    """Walks from the exported names over every annotation to every class of ours."""

    def __init__(self) -> None:
        self.exported: dict[str, object] = {}
        for name in MODULES:
            module = importlib.import_module(name)
            self.exported |= {
                f"{name}.{one}": getattr(module, one) for one in module.__all__ if one[0] != "_"
            }
        self._public = {id(one) for one in self.exported.values()}
        self._seen: set[int] = set()
        self.classes: dict[str, type] = {}
        self.hidden: dict[str, str] = {}
        for name, one in self.exported.items():
            self._walk(one, name)

    def _walk(self, one: object, where: str) -> None:
        if inspect.isfunction(one):
            self._annotations(one, where)
        elif isinstance(one, type) and one.__module__.split(".")[0] == "recollect":
            if id(one) not in self._seen:
                self._seen.add(id(one))
                self._class(one, where)
        elif not isinstance(one, type):
            for part in _classes(one):
                self._walk(part, where)

    def _class(self, one: type, where: str) -> None:
        name = f"{one.__module__}.{one.__qualname__}"
        self.classes[name] = one
        # One type of several tags is a class for each to msgspec, of one name.
        is_of_tag = one.__name__ == "ServerResultBlock"
        known = one.__base__ if is_of_tag and id(one) not in self._public else one
        if id(known) not in self._public:
            self.hidden[name] = where
        self._annotations(one, name)
        for member in dir(one):
            if member.startswith("_") and member not in TOUCHED:
                continue
            found = inspect.getattr_static(one, member)
            if isinstance(found, property):
                found = found.fget
            elif isinstance(found, functools.cached_property):
                found = found.func
            elif isinstance(found, staticmethod | classmethod):
                found = found.__func__
            if inspect.isfunction(found):
                self._annotations(found, f"{name}.{member}")

    def _annotations(self, one: Any, where: str) -> None:
        if not one.__module__.startswith("recollect"):
            return
        names: dict[str, object] = {}
        for base in getattr(one, "__mro__", (one,))[::-1]:
            if base.__module__.startswith("recollect"):
                names |= _namespace(base.__module__)
        for name, hint in typing.get_type_hints(one, names).items():
            if not name.startswith("_"):
                for part in _classes(hint):
                    self._walk(part, f"{where}: {name}")


@functools.cache
def _namespace(name: str) -> dict[str, object]:
    """The names of a module, those it imports for type checkers only included."""
    module = sys.modules[name]
    found = dict(vars(module))
    for statement in ast.parse(inspect.getsource(module)).body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            for line in statement.body:
                code = compile(ast.Module([line], []), name, "exec")
                exec(code, found)
    return found


def _classes(hint: object) -> Iterator[object]:
    """The classes an annotation is made of."""
    if isinstance(hint, type) and not isinstance(hint, types.GenericAlias):
        yield hint
    elif isinstance(hint, list | tuple):
        for part in hint:
            yield from _classes(part)
    else:
        yield from _classes(typing.get_args(hint))
        origin = typing.get_origin(hint)
        if isinstance(origin, type) and origin is not types.UnionType:
            yield origin


@pytest.fixture(scope="module")
def public() -> PublicTypes:
    return PublicTypes()


def test_every_type_a_public_call_knows_is_exported(public: PublicTypes) -> None:
    """A caller can import, annotate and look up whatever it is handed."""
    assert {"recollect.model.cost.report.CostReport", "recollect.ask.search.hits.SearchHit"} <= set(
        public.classes
    )
    assert {} == public.hidden


def test_every_public_type_is_documented(public: PublicTypes) -> None:
    """Its own words, not those of a base class."""
    silent = [name for name, one in public.classes.items() if not (vars(one).get("__doc__") or "").strip()]

    assert [] == silent


def test_every_public_member_is_documented(public: PublicTypes) -> None:
    """The library reference says something about each method and property of a public type."""
    silent = [
        f"{name}.{member}"
        for name, one in public.classes.items()
        for member, found in vars(one).items()
        if not member.startswith("_")
        and isinstance(found, types.FunctionType | property | functools.cached_property | staticmethod)
        and not (found.__doc__ or "").strip()
    ]

    assert [] == silent


def test_every_amount_is_there_in_dollars(public: PublicTypes) -> None:
    """Where a public type has ``pico_usd``, it has the same in exact dollars under the same name without ``pico_``."""
    amounts = [
        (one, field)
        for one in public.classes.values()
        if issubclass(one, Struct)
        for field in one.__struct_fields__
        if "pico_usd" in field
    ]
    assert len(amounts) >= 9

    for one, field in amounts:
        twin = inspect.getattr_static(one, field.replace("pico_usd", "usd"))
        assert isinstance(twin, property), (one, field)
        hint = typing.get_type_hints(twin.fget, _namespace(one.__module__))["return"]
        assert recollect.Usd in {hint, *typing.get_args(hint)} or Decimal in {hint, *typing.get_args(hint)}, (
            one,
            field,
        )


def test_dollars_are_exact() -> None:
    """A twelfth digit behind the point is still there."""
    response = recollect.PricedResponse(
        None, "", None, None, None, None, None, None, None, recollect.Tokens(), 1_000_000_000_001
    )

    assert (Decimal("1.000000000001"), None) == (
        response.usd,
        recollect.PricedResponse(
            None, "", None, None, None, None, None, None, dt.datetime.now(dt.UTC), recollect.Tokens(), None
        ).usd,
    )


def test_every_content_block_says_its_type() -> None:
    """By the word in the log; a type checker can tell blocks apart by it."""
    blocks = typing.get_args(recollect.Block)
    known = [one for one in blocks if one is not recollect.UnknownBlock]

    assert 16 == len(known)
    assert [] == [one for one in known if getattr(one, "type", None) != one.__struct_config__.tag]
    odd = recollect.UnknownBlock("odd", b"{}")
    assert ("unknown", "odd") == (odd.type, odd.type_name)
    assert len(blocks) == len({one.type for one in blocks})
