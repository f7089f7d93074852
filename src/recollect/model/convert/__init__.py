"""Convert a conversation from one dialect into another, and report what was lost.

Lines are read into turns (``turns``) and written again (``into_claude``, ``into_flat``). Texts, roles, calls,
results, models and the four token counts survive in both directions. Everything else that is dropped, guessed
or moved is listed in ``Conversion.losses``; an empty list means that nothing was. Damaged lines are one more
loss, never an exception.
"""

from __future__ import annotations

from recollect.model.convert.into_claude import to_claude
from recollect.model.convert.into_flat import claude_to_flat
from recollect.model.convert.turns import Conversion, Loss, LossCode

flat_to_claude = to_claude
"""The usual case under its own name; events logs work too."""

__all__ = ["Conversion", "Loss", "LossCode", "claude_to_flat", "flat_to_claude", "to_claude"]
