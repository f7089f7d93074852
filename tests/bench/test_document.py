"""The page of figures: a run replaces its own section and no other."""

from __future__ import annotations

from bench.document import SECTIONS, joined
from bench.report import Row

PAGE = """# Benchmarks

An old head.

## 1 GB

- an old run

## Calls of other agents

```
codex  1,502
```
<!-- end of the calls -->

### First index
"""


def test_a_run_replaces_its_section_and_leaves_all_others() -> None:
    page = joined(PAGE, SECTIONS[1], ["today"], [("Cost", [Row("cost --by day", "75 ms", "", None)])])
    assert "an old" not in page.lower()
    assert "- today" in page
    assert "75 ms" in page
    assert page.endswith(PAGE.partition("## Calls")[2].rstrip() + "\n")


def test_sections_stand_in_the_order_of_their_sizes_before_what_others_wrote() -> None:
    page = joined(PAGE, SECTIONS[0], ["small"], [])
    heads = [line[3:] for line in page.splitlines() if line.startswith("## ")]
    assert [*SECTIONS[:2], "Calls of other agents"] == heads
