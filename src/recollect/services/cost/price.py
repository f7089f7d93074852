"""What one entry or message cost, by itself."""

from __future__ import annotations

from recollect.model.conversation.conversation import Message
from recollect.model.cost.ledger import Ledger
from recollect.model.cost.money import Spending
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
