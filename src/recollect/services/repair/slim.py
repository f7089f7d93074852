"""Make a huge session smaller: the same conversation, without what is never sent.

Slimming is an extended repair: damage is repaired first, then the lines and texts that a resume does not need
are set aside. It is planned, proved, carried out and undone like every repair.
"""

from __future__ import annotations

from msgspec import structs

from recollect.model.repair.plan import summed
from recollect.model.repair.slim import slimmed
from recollect.services.repair.repair import RepairPlan


def with_slimming(plan: RepairPlan) -> RepairPlan:
    """The same plan with slimming added; the messages that would be sent stay the same."""
    before = plan.mending
    draft, saved = slimmed(before.draft)
    mending = summed(draft, before.proof, before.violations, before.mended)
    return structs.replace(plan, mending=mending, what="slim", saved=saved)
