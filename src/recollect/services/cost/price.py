"""What one entry or message cost, and how fast it came, by itself."""

from __future__ import annotations

from decimal import Decimal

from recollect.model.conversation.conversation import Message
from recollect.model.cost.cents import PICO
from recollect.model.cost.ledger import Ledger
from recollect.model.cost.money import Spending
from recollect.model.cost.report import Performance
from recollect.model.entry import Entry
from recollect.model.line_views.facts import usage_facts
from recollect.storage.config.our_config import price_list


def price(what: Entry | Message) -> Spending | None:
    """Tokens and money of an entry, or of the response a message is; None where it says nothing of usage.

    Prices are the package's and, before them, those of the user's config.toml. The lines of one response repeat
    its usage, and so do forks: to add up, take ``Home.responses``, which counts each once.
    """
    ledger = Ledger(price_list())
    for entry in [what] if isinstance(what, Entry) else what.entries:
        ledger.add(usage_facts(entry.raw))
    return ledger.total() if ledger.responses else None


def performance(what: Entry | Message) -> Performance | None:
    """How fast an answer came, and how many of its output tokens a dollar bought; None where it says nothing of usage.

    The duration is the one the client recorded (``durationMs``); newer clients record none, and the speed is then
    None. The cost is what the client recorded (``costUSD``), else the price as in ``price``.
    """
    spent = price(what)
    if spent is None:
        return None
    said = [usage_facts(entry.raw) for entry in ([what] if isinstance(what, Entry) else what.entries)]
    answers = [facts.response for facts in said if facts is not None and facts.response is not None]
    duration = max((one.duration_ms or 0 for one in answers), default=0)
    recorded = max((Decimal(one.recorded) for one in answers if one.recorded), default=None)
    output = spent.tokens.output
    pico = spent.pico_usd if recorded is None else int(recorded * PICO)
    return Performance(
        1,
        duration,
        output,
        round(output * 1000 / duration, 2) if duration else None,
        round(output * PICO / pico, 1) if pico > 0 else None,
    )
