"""The user's settings for recollect: ``$XDG_CONFIG_HOME/recollect/config.toml``, one section for each use.

A missing file means no settings, and no parser is imported then. What cannot be parsed, and a section that does not
exist, is an error with the next step: a misspelt name must not turn a setting off silently (law 11).
Numbers with a point come as they are written, never as binary floats. The status line and a hook ask for budgets at every turn::

    [budget]
    day = "20.00"                    # dollars; text, or a whole number
    week = 100
    warn = [80, 100]                 # per cent; left out: these
    burn = "4.00"                    # dollars an hour, for burn_hours hours on end (left out: 3)
    command = ["notify", "--loud"]   # gets the warning as JSON on stdin; no shell

    [budget.projects."~/shop"]       # a directory, or part of its name, as for `cost -p`
    day = 5
    [budget.models.opus]             # a name, or a part of it
    week = 50
    [budget.persons."anna@example.org"]     # of the team server: `recollect limits --team`
    week = 200
"""

from __future__ import annotations

from recollect.errors import StorageError, UsageError
from recollect.model.budget import ALL, PERIODS, SCOPES, BudgetRule, BudgetSettings

TYPE_CHECKING = False  # see recollect/__init__.py
if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path
    from typing import Any, NoReturn

SECTIONS = ("budget", "prices", "secrets", "sync")


def config_section(file: str | Path, name: str, keys: Collection[str] = ()) -> dict[str, Any]:
    """One section, empty where there is none. ``keys`` are all it may hold, if they are few enough to name."""
    found = _sections(file)
    for section in found:
        if section not in SECTIONS:
            refuse(file, f"[{section}] is not known", f"the sections are {', '.join(SECTIONS)}")
    section = found.get(name, {})
    if not isinstance(section, dict):
        refuse(file, f"{name} is not a section", f"write [{name}]")
    for key in section if keys else ():
        if key not in keys:
            refuse(file, f"{name}.{key} is not known", f"known are {', '.join(sorted(keys))}")
    return section


def refuse(file: str | Path, problem: str, next_step: str) -> NoReturn:
    """Say what in the file cannot be used."""
    raise UsageError(f"{file}: {problem}", hint=next_step)


def _sections(file: str | Path) -> dict[str, Any]:
    try:
        with open(file, "rb") as opened:  # noqa: PTH123 - pathlib is slow to import
            data = opened.read()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as cause:
        from pathlib import Path

        raise StorageError("read", Path(file), cause, hint="make it readable, or move it away") from cause
    import tomllib

    try:
        return tomllib.loads(data.decode(), parse_float=str)
    except (ValueError, RecursionError) as cause:  # bad TOML, bad UTF-8, a number of thousands of digits
        raise UsageError(f"{file}: not a TOML file: {cause}", hint="correct it, or move it away") from cause


_PLAIN = frozenset((*PERIODS, *SCOPES, "warn", "burn", "burn_hours"))
_AMOUNT = 'write dollars, such as day = "20.00"'
_PICO_DIGITS = 12


def budget_settings(path: str) -> BudgetSettings | None:
    """The budgets of a config.toml; None where it has none. ``UsageError`` names a key that cannot be used."""
    section = config_section(path, "budget", _PLAIN)
    return _BudgetReader(path).settings(section) if section else None


class _BudgetReader:
    """Checks the section, key by key."""

    def __init__(self, path: str) -> None:
        self._path = path

    def settings(self, section: dict[str, Any]) -> BudgetSettings:
        found = BudgetSettings()
        found.rules = self._rules(section, "budget", ALL, "")
        for key, scope in SCOPES.items():
            named = section.get(key, {})
            if not isinstance(named, dict):
                self._refuse(f"budget.{key}", "is not a section", f'write [budget.{key}."name"]')
            for name, inner in named.items():
                place = f'budget.{key}."{name}"'
                if not isinstance(inner, dict) or not inner or set(inner) - set(PERIODS):
                    self._refuse(place, "holds something else than day and week", _AMOUNT)
                found.rules += self._rules(inner, place, scope, name)
        found.thresholds = self._thresholds(section.get("warn", list(found.thresholds)))
        if "burn" in section:
            found.burn = self._amount("budget.burn", section["burn"])
        found.burn_hours = self._hours(section.get("burn_hours", found.burn_hours))
        return found

    def _rules(self, section: dict[str, Any], place: str, scope: str, name: str) -> list[BudgetRule]:
        return [
            BudgetRule(scope, name, period, self._amount(f"{place}.{period}", section[period]))
            for period in PERIODS
            if period in section
        ]

    def _amount(self, key: str, value: Any) -> int:
        text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
        whole, _, fraction = text.partition(".")
        digits = whole + fraction
        if not (digits.isascii() and digits.isdigit()) or len(whole) > 9 or len(fraction) > _PICO_DIGITS:
            self._refuse(key, f"{value!a} is not an amount", _AMOUNT)
        pico: int = int(whole or "0") * 10**_PICO_DIGITS + int(fraction.ljust(_PICO_DIGITS, "0"))
        if not pico:
            self._refuse(key, "is nothing", "leave it out for no budget")
        return pico

    def _thresholds(self, value: Any) -> tuple[int, ...]:
        is_list = isinstance(value, list) and value
        if not is_list or any(
            isinstance(one, bool) or not isinstance(one, int) or not 0 < one <= 1000 for one in value
        ):
            self._refuse(
                "budget.warn", "is not a list of whole per cents from 1 to 1000", "write warn = [80, 100]"
            )
        return tuple(sorted(set(value)))

    def _hours(self, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 24:
            self._refuse("budget.burn_hours", "is not a number of hours from 1 to 24", "write burn_hours = 3")
        return int(value)

    def _refuse(self, key: str, problem: str, next_step: str) -> NoReturn:
        refuse(self._path, f"{key} {problem}", next_step)
