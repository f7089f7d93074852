"""The table of rules: stable, complete in itself, and honest about what can be done."""

from __future__ import annotations

from recollect.model.checks.rules import CODES
from recollect.model.lines.damage import DamageCode


def test_every_kind_of_damage_has_a_rule() -> None:
    """A line that the reader refuses can be reported under the reader's own code."""
    assert {code.value for code in DamageCode} <= CODES.keys()


def test_the_rules_of_the_seeds_are_in_the_table() -> None:
    """Every validation rule and consistency check that the three formats ask for."""
    asked = {
        "valid-uuid": ["invalid-id", "missing-id"],
        "valid-parent-reference, orphaned messages": ["missing-parent", "history-cut"],
        "chronological-order, invalid timestamp ordering": ["time-order"],
        "duplicate UUIDs": ["duplicate-id", "repeated-entry"],
        "circular references": ["circle"],
        "timestamps in ISO 8601": ["bad-timestamp", "session-not-found"],
        "tool use ids unique": ["duplicate-call-id"],
        "missing tool results": ["call-without-result", "open-call"],
        "corrupt lines": ["invalid-json", "torn-tail"],
        "invalid message type": ["unknown-type", "unknown-shape"],
    }

    assert {code for codes in asked.values() for code in codes} <= CODES.keys()


def test_every_row_says_what_the_client_does_and_how_that_is_known() -> None:
    """One line each; the reference page is made from them."""
    assert not [code for code, rule in CODES.items() if not rule.client or not rule.proof]
