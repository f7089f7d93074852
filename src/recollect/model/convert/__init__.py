"""Carry a conversation from one dialect into another, and say what did not come along.

Lines are read into turns (``turns``) and written anew (``into_claude``,
``into_flat``); nothing is copied by luck. Texts, roles, calls, results, models
and the four token counts come through in both directions. Everything else that
is left behind, guessed or moved stands in ``Conversion.losses``; an empty list
means that nothing was. Damaged lines are one more loss, never an exception.
"""

from __future__ import annotations

from recollect.model.convert.into_claude import to_claude
from recollect.model.convert.into_flat import claude_to_flat
from recollect.model.convert.loss import Conversion, Loss, LossCode

flat_to_claude = to_claude
"""The usual case by its own name; events are taken just as well."""

__all__ = ["Conversion", "Loss", "LossCode", "claude_to_flat", "flat_to_claude", "to_claude"]
