"""Everything that is wrong in a home, as one plan with one undo."""
