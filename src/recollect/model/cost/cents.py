"""Money for people. Without imports: the status line and a hook of the client load this module at every turn."""

from __future__ import annotations

PICO = 10**12
_CENT = PICO // 100


def dollars(pico_usd: int) -> str:
    """Cents, rounded half up, here and nowhere else."""
    cents = (abs(pico_usd) + _CENT // 2) // _CENT
    sign = "-" if pico_usd < 0 and cents else ""
    return f"{sign}${cents // 100:,}.{cents % 100:02d}"


def fine_dollars(pico_usd: int) -> str:
    """The same for the amount of one turn or message: below ten cents with four places."""
    if not 0 < pico_usd < PICO // 10:
        return dollars(pico_usd)
    return f"$0.{(pico_usd + _CENT // 200) // (_CENT // 100):04d}"
