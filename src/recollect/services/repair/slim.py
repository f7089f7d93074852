"""Make a huge session light: the same conversation, without what is never sent.

A slimming is a repair that goes on: what is damaged is mended first, then the lines and texts that no
resume needs are set aside. It is planned, proved, carried out and undone as every repair is.
"""

from __future__ import annotations

from msgspec import structs

from recollect.model.repair.plan import summed
from recollect.model.repair.proof import history
from recollect.model.repair.slim import slimmed
from recollect.services.repair.repair import RepairPlan


def with_slimming(plan: RepairPlan) -> RepairPlan:
    """The same plan, and slimming on top of it; the messages that would be sent stay the same."""
    mending = plan.mending
    draft, saved = slimmed(mending.draft)
    after = summed(draft, history(mending.draft))
    proof = structs.replace(
        after.proof, history_before=mending.proof.history_before, gained=mending.proof.gained
    )
    return structs.replace(plan, mending=structs.replace(after, proof=proof), what="slim", saved=saved)
