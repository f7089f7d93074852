"""``recollect budget --hook``: answer a hook of the client within milliseconds.

Prints ``{"systemMessage": …}`` where this call gave a warning, else ``{}``; always exit status 0, whatever fails: a
budget warns and never stops the work. What the client sends on stdin is not needed and not read.
"""

from __future__ import annotations

import os
import sys
import time

from recollect.cli.spend.statusline import FRESH_SECONDS, StatusFigures, attempt, index_place, lean_prices

TYPE_CHECKING = False  # see recollect/__init__.py
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(homes: Sequence[str], data: str | None) -> int:
    words = attempt(_warnings, homes, data) or []
    attempt(_print, words)
    return 0


def _warnings(homes: Sequence[str], data: str | None) -> list[str]:
    from recollect.services.budget import quick
    from recollect.storage.budget_marks import directory_of
    from recollect.storage.config.budget_cache import known_budgets

    config, own = quick.config_and_data(data)
    settings = known_budgets(config, directory_of(own))
    if settings is None:
        return []
    from recollect.index import glimpse
    from recollect.index.location import refreshed_at

    index, found = index_place(homes, data)
    age = time.time() - (refreshed_at(index) or 0)
    if abs(age) >= FRESH_SECONDS:
        from recollect.services.indexing.background_refresh import start_refresh

        start_refresh(index, found)
    opened = glimpse.opened(index)
    if not glimpse.is_complete(opened):
        return []
    prices = lean_prices(StatusFigures(time.time()))
    given = quick.warned(opened, settings, prices, time.time(), (own, config))[1]
    return [one.text for one in given]


def _print(words: list[str]) -> None:
    text = "{}"
    if words:
        import json

        text = json.dumps({"systemMessage": "recollect: " + "; ".join(words)})
    sys.stdout.write(f"{text}{os.linesep}")
    sys.stdout.flush()
