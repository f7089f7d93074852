"""The collector of cycles rests while rows are worked on, and only then."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recollect.model.cost.report import CostReport
from recollect.services.cost.report import CostReportBuilder, costs
from recollect.services.indexing.access import OpenIndex
from recollect.system.unwatched import unwatched


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    was_enabled = gc.isenabled()
    yield
    (gc.enable if was_enabled else gc.disable)()


@pytest.mark.parametrize("before", [True, False])
def test_the_collector_is_afterwards_as_it_was(before: bool) -> None:
    """After an error too."""

    @unwatched()
    def fail() -> None:
        raise KeyError(gc.isenabled())

    (gc.enable if before else gc.disable)()
    with pytest.raises(KeyError, match="False"):
        fail()

    assert before is gc.isenabled()


def test_a_report_of_logs_is_made_without_collections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to its end: the rows are gone before the collector could look at each of them."""
    seen, made = [], CostReportBuilder.made

    def watched(*words: Any, **more: Any) -> CostReport:
        seen.append(gc.isenabled())
        return made(*words, **more)

    monkeypatch.setattr(CostReportBuilder, "made", watched)
    gc.enable()
    costs([], opened=OpenIndex([], tmp_path))

    assert ([False], True) == (seen, gc.isenabled())
