"""One file per way of writing entries. Everything above them knows only ``Entry``."""
