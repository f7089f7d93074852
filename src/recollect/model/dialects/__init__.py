"""One file per dialect. Everything above them knows only ``Entry``."""
