"""Help texts of options that several commands share."""

from __future__ import annotations

SINCE = 'start: 2026-01-31, 7d (today and the six days before), 12h, yesterday, "last month", "in march"'
UNTIL = "end; a day, week or month counts to its end; 7d is where --since 7d begins"
