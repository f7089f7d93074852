"""What is known about programs: which start others, which are read-only, which files they name.

``allow_view`` and ``read_only`` under-approximate and serve allow rules; ``deny_views`` and
``file_operands`` over-approximate and serve deny rules. Nothing here runs or opens anything.
"""

from __future__ import annotations

from recollect.policy.commands.looking import read_only
from recollect.policy.commands.operands import file_operands
from recollect.policy.commands.wrappers import allow_view, deny_views, gated_view, looking_view

__all__ = [
    "allow_view",
    "deny_views",
    "file_operands",
    "gated_view",
    "looking_view",
    "read_only",
]
