"""The section ``[budget]`` of config.toml, read fast: the status line and a hook ask at every turn.

::

    [budget]
    day = "20.00"                    # dollars; text, or a whole number
    week = 100
    warn = [80, 100]                 # per cent; left out: these
    burn = "4.00"                    # dollars an hour, for burn_hours hours on end (left out: 3)
    command = ["notify", "--loud"]   # gets the warning as JSON on stdin; no shell
    desktop = true                   # notify-send, or osascript
    webhook = "https://chat.example/hook"   # a POST of the same JSON

    [budget.projects."~/shop"]       # a directory, or part of its name, as for `cost -p`
    day = 5
    [budget.models.opus]             # a name, or a part of it
    week = 50
    [budget.persons."anna@example.org"]     # of the team server: `recollect budget --team`
    week = 200

Amounts are taken digit by digit, never as floats.
"""

from __future__ import annotations

from recollect.model.budget import ALL, PERIODS, SCOPES, BudgetRule, BudgetSettings
from recollect.storage.config.config_file import config_section, refuse

TYPE_CHECKING = False  # see recollect/__init__.py
if TYPE_CHECKING:
    from typing import Any, NoReturn

_PLAIN = frozenset((*PERIODS, *SCOPES, "warn", "burn", "burn_hours", "command", "desktop", "webhook"))
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
        found.command = self._command(section.get("command", []))
        if not isinstance(section.get("desktop", False), bool):
            self._refuse("budget.desktop", "is neither true nor false", "write desktop = true")
        found.desktop = section.get("desktop", False)
        found.webhook = self._webhook(section.get("webhook"))
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

    def _command(self, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or any(not isinstance(one, str) or "\0" in one for one in value):
            self._refuse("budget.command", "is not a list of words", 'write command = ["notify", "--loud"]')
        return tuple(value)

    def _webhook(self, value: Any) -> str | None:
        if value is None:
            return None
        if (
            not isinstance(value, str)
            or not value.startswith(("https://", "http://"))
            or not value.isprintable()
        ):
            # Its own words may be a secret: they are not repeated.
            self._refuse("budget.webhook", "is not an address", 'write webhook = "https://…"')
        return str(value)

    def _refuse(self, key: str, problem: str, next_step: str) -> NoReturn:
        refuse(self._path, f"{key} {problem}", next_step)
