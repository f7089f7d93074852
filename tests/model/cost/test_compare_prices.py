"""The tool that compares our prices with those of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import compare_prices


def test_the_differences_are_those_of_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    """What differs from the package today stands in docs/reference/prices.md."""
    compare_prices.main([])
    document = (Path(__file__).resolve().parents[3] / "docs/reference/prices.md").read_text(encoding="utf-8")
    found = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| genai-prices")]

    assert found
    assert [] == [line for line in found if line not in document]
