"""The tool that compares our prices with those of others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tools import compare_prices


def row(**more: Any) -> dict[str, Any]:
    """Opus 5.5 as LiteLLM writes it."""
    return {
        "litellm_provider": "anthropic",
        "input_cost_per_token": 4e-06,
        "output_cost_per_token": 2e-05,
        "cache_creation_input_token_cost": 5e-06,
        "cache_creation_input_token_cost_above_1hr": 8e-06,
        "cache_read_input_token_cost": 2e-07,
        **more,
    }


def compared(place: Path, capsys: pytest.CaptureFixture[str], **rows: dict[str, Any]) -> list[str]:
    file = place / "prices.json"
    file.write_text(json.dumps({name.replace("__", "/"): one for name, one in rows.items()}))
    assert 0 == compare_prices.main([str(file)])
    return [line for line in capsys.readouterr().out.splitlines() if line.startswith("| LiteLLM")]


def test_equal_prices_are_not_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nor are other resellers, nor rows without a price for a token."""
    rows = {
        "claude-opus-5-5": row(
            provider_specific_entry={"fast": 2.0, "us": 1.1}, input_cost_per_token_batches=2e-06
        ),
        "us.anthropic.claude-opus-5-5": {
            "litellm_provider": "bedrock",
            "input_cost_per_token": 4.4e-06,
            "output_cost_per_token": 2.2e-05,
        },
        "openrouter__claude-opus-5-5": row(litellm_provider="openrouter", input_cost_per_token=1),
        "claude-by-the-hour": {"litellm_provider": "bedrock", "input_cost_per_second": 1},
    }

    assert [] == compared(tmp_path, capsys, **rows)


def test_a_difference_names_row_way_and_both_prices(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In dollars for a million tokens; a longer context that differs alike is not repeated."""
    found = compared(
        tmp_path,
        capsys,
        **{
            "claude-opus-5-5": row(output_cost_per_token=3e-05, provider_specific_entry={"fast": 3}),
            "claude-new-9": row(),
        },
    )

    assert [
        "| LiteLLM | `claude-opus-5-5` |  | output 20 / 30 |",
        "| LiteLLM | `claude-opus-5-5` | fast | input 8 / 12, output 40 / 90, 5m write 10 / 15, 1h write 16 / 24, cache read 0.4 / 0.6 |",
        "| LiteLLM | `claude-new-9` |  | unpriced / 4 and 20 |",
    ] == found


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("claude-opus-5", "claude-opus-5"),
        ("bedrock/us-gov-east-1/anthropic.claude-opus-5", "us-gov.anthropic.claude-opus-5"),
        ("bedrock/us-gov-west-1/claude-opus-5", "us-gov.anthropic.claude-opus-5"),
        ("us-gov.anthropic.claude-opus-5", "us-gov.anthropic.claude-opus-5"),
        ("vertex_ai/claude-opus-5", "claude-opus-5@default"),
        ("vertex_ai/claude-opus-5@20260101", "claude-opus-5@20260101"),
    ],
)
def test_rows_are_priced_under_the_name_a_log_would_have(key: str, name: str) -> None:
    assert name == compare_prices._as_logged(key)


def test_without_a_file_only_the_package_is_compared(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sonnet 4.5 above 200,000 tokens is what we price otherwise on Anthropic's own API, and nothing else."""
    monkeypatch.setattr(compare_prices, "litellm_file", lambda _: None)
    assert 0 == compare_prices.main([])
    out, err = capsys.readouterr()

    assert [line for line in out.splitlines() if "| genai-prices anthropic |" in line] == [
        "| genai-prices anthropic | `claude-sonnet-4-5` | above 200K | input 3 / 6, output 15 / 22.5, 5m write 3.75 / 7.5, 1h write 6 / 12, cache read 0.3 / 0.6 |"
    ]
    assert "no litellm is installed" in err


def test_the_differences_are_those_of_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    """What differs from the package today stands in docs/reference/prices.md."""
    compare_prices.main([])
    document = (Path(__file__).resolve().parents[3] / "docs/reference/prices.md").read_text(encoding="utf-8")
    found = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| genai-prices")]

    assert found
    assert [] == [line for line in found if line not in document]
