"""Make a huge session light: the same conversation, without what is never sent.

A slimming is a repair that goes on: what is damaged is mended first, then the lines and texts that no
resume needs are set aside. It is planned, proved, carried out and undone as every repair is.
"""

from __future__ import annotations

from msgspec import structs

from recollect.model.repair.plan import summed
from recollect.model.repair.slim import slimmed
from recollect.services.repair.repair import RepairPlan


def with_slimming(plan: RepairPlan) -> RepairPlan:
    """The same plan, and slimming on top of it; the messages that would be sent stay the same."""
    before = plan.mending
    draft, saved = slimmed(before.draft)
    return structs.replace(plan, mending=summed(draft, before.proof, before.mended), what="slim", saved=saved)
