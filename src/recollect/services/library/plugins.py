"""Exporters and checks that other packages bring, by entry point.

    [project.entry-points."recollect.exporters"]
    orgmode = "recollect_org:export"

    [project.entry-points."recollect.checks"]
    licences = "recollect_licences:check"

An exporter takes a ``Session`` and gives the bytes of a document, piece by piece; a check takes a ``Session`` and
gives ``Finding`` values. Nothing is imported before it is asked for: ``recollect export --format NAME`` imports that
exporter, ``recollect check`` the checks. Whatever goes wrong in one is named after it and stays its own trouble: an
exporter that fails is a ``PluginFailed``, a check that fails is a finding.

Plugins run with all rights of the process. Installing a package is what allows it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import structs

from recollect.errors import NotFound, PluginFailed
from recollect.model.checks import CODES
from recollect.model.findings import Finding
from recollect.services.session import Session

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

EXPORTERS, CHECKS = "recollect.exporters", "recollect.checks"
FAILED = "plugin-failed"
_MOST_FINDINGS = 50
_LONGEST_REASON = 200


class Exporter(Protocol):
    """A format for ``recollect export``: the entry points of group ``recollect.exporters`` are such callables."""

    def __call__(self, session: Session, /) -> Iterable[bytes]:
        """The document, in pieces. Secrets are taken out of each piece unless the user wants them kept."""


class SessionCheck(Protocol):
    """A rule for ``recollect check``: the entry points of group ``recollect.checks`` are such callables.

    A program hands its own to ``Home.check`` as ``rules``; its ``name``, or the name of the function, comes
    before the codes of its findings.
    """

    def __call__(self, session: Session, /) -> Iterable[Finding]:
        """What is wrong with a session. Codes are shown as ``NAME/code``; place and session may be left out."""


def exporter_names() -> list[str]:
    """The formats that other packages bring, without importing them."""
    return sorted({one.name for one in _entry_points(EXPORTERS)})


def exported(name: str, session: Session) -> Iterator[bytes]:
    """The document that an exporter makes of a session. Raises ``PluginFailed`` where the exporter does not."""
    entry = next((one for one in _entry_points(EXPORTERS) if one.name == name), None)
    if entry is None:
        raise NotFound(
            f"exporter {name!a}: no installed package has it", hint="see `recollect export --help`"
        )
    make: Exporter = _loaded(entry)
    for piece in _guarded(entry, lambda: make(session)):
        if not isinstance(piece, bytes):
            raise _failed(entry, f"gave {type(piece).__name__} instead of bytes")
        yield piece


def rule_findings(rules: Iterable[SessionCheck], session: Session) -> Iterator[Finding]:
    """What a caller's own rules say of a session; what they raise reaches the caller."""
    for rule in rules:
        name = getattr(rule, "name", None) or getattr(rule, "__name__", type(rule).__name__)
        yield from (_placed(str(name), finding, session) for finding in rule(session))


def session_checks() -> list[Callable[[Session], Iterator[Finding]]]:
    """The checks that other packages bring. Each never raises: what goes wrong in it is a finding."""
    return [_SafeCheck(entry) for entry in sorted(_entry_points(CHECKS), key=lambda one: one.name)]


class _SafeCheck:
    """One check, loaded when it is first asked for. One that cannot be loaded says so once."""

    def __init__(self, entry: EntryPoint) -> None:
        self._entry = entry
        self._check: SessionCheck | None = None
        self._is_broken = False

    def __call__(self, session: Session) -> Iterator[Finding]:
        if self._is_broken:
            return
        try:
            if self._check is None:
                self._check = _loaded(self._entry)
            check = self._check
            for number, finding in enumerate(_guarded(self._entry, lambda: check(session))):
                if number == _MOST_FINDINGS:
                    return
                if not isinstance(finding, Finding):
                    raise _failed(self._entry, f"gave {type(finding).__name__} instead of a Finding")
                yield _placed(self._entry.name, finding, session)
        except PluginFailed as problem:
            self._is_broken = True
            rule = CODES[FAILED]
            yield Finding(FAILED, rule.severity, problem.message, rule.fix, str(session.path), session.id)


def _entry_points(group: str) -> Iterable[EntryPoint]:
    if not _may_be_installed(group):
        return ()
    # Only now: to load it takes ten times as long as to see that there is nothing to load it for.
    from importlib.metadata import entry_points

    return entry_points(group=group)


def _may_be_installed(group: str) -> bool:
    """False where the file of no installed package names the group; True where packages are not in directories."""
    if any(hasattr(one, "find_distributions") for one in sys.meta_path if one is not PathFinder):
        return True
    for place in sys.path:
        try:
            names = os.listdir(place or ".")  # noqa: PTH208 - names only
        except NotADirectoryError:
            return True
        except OSError:
            continue
        infos = (name for name in names if name.lower().endswith((".dist-info", "egg-info")))
        if any(_names(os.path.join(place, name, "entry_points.txt"), group) for name in infos):  # noqa: PTH118
            return True
    return False


def _names(file: str, group: str) -> bool:
    try:
        with open(file, "rb") as opened:  # noqa: PTH123 - no Path for hundreds of names
            return group.encode() in opened.read()
    except OSError:
        return False


def _placed(name: str, finding: Finding, session: Session) -> Finding:
    return structs.replace(
        finding,
        code=f"{name}/{finding.code}",
        path=finding.path or str(session.path),
        session=finding.session or session.id,
        repair=None,
    )


def _loaded(entry: EntryPoint) -> Any:
    try:
        found = entry.load()
    except Exception as problem:
        raise _failed(entry, f"cannot be loaded: {_said(problem)}") from problem
    if not callable(found):
        raise _failed(entry, f"is {type(found).__name__}, which cannot be called")
    return found


def _guarded(entry: EntryPoint, call: Callable[[], Iterable[Any]]) -> Iterator[Any]:
    try:
        yield from call()
    except Exception as problem:
        raise _failed(entry, _said(problem)) from problem


def _said(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}"[:_LONGEST_REASON]


def _failed(entry: EntryPoint, reason: str) -> PluginFailed:
    package = entry.dist.name if entry.dist is not None else entry.module
    return PluginFailed(entry.group, entry.name, package, reason)
