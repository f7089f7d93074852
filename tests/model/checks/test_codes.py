"""The table of rules: stable, complete in itself, and honest about what can be done."""

from __future__ import annotations

import re

from recollect.model.checks import CODES
from recollect.model.damage import DamageCode
from recollect.model.findings import Severity

# Severities are promised: a script may rely on them. A change here is a change of the interface.
ERRORS = {
    "invalid-json",
    "glued-objects",
    "nul-run",
    "torn-tail",
    "missing-id",
    "history-cut",
    "session-not-found",
    "unlinked-answer",
    "nothing-said",
    "api-bad-call-id",
    "api-misplaced-block",
    "api-empty-text",
    "api-empty-content",
    "api-unsigned-thinking",
    "api-emptied-thinking",
    "api-empty-image",
    "api-damaged-image",
    "api-oversize-image",
    "captures-continue",
    "unreadable",
    "ignored-settings",
    "unreadable-config",
}


def test_what_counts_as_an_error() -> None:
    """It stops a resume, or cuts what is resumed; or it is about a home and of that weight."""
    assert {code for code, rule in CODES.items() if rule.severity == Severity.ERROR} == ERRORS


def test_every_kind_of_damage_has_a_rule() -> None:
    """A line that the reader refuses can be reported under the reader's own code."""
    assert {code.value for code in DamageCode} <= CODES.keys()


def test_codes_are_words_with_hyphens_and_have_a_meaning() -> None:
    """One line each."""
    odd = [
        code
        for code, rule in CODES.items()
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", code) or not rule.meaning or "\n" in rule.meaning
    ]

    assert odd == []


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


def test_only_errors_have_a_repair() -> None:
    """A repair touches nothing that check does not call an error."""
    assert {rule.severity for rule in CODES.values() if rule.is_mendable} == {Severity.ERROR}


def test_every_row_says_what_the_client_does_and_how_that_is_known() -> None:
    """One line each; the reference page is made from them."""
    assert not [code for code, rule in CODES.items() if not rule.client or not rule.proof]
