"""The tools that change a file: one list for permission rules, line counts, statistics and pages."""

EDITING_TOOLS = frozenset({"Edit", "Write", "MultiEdit", "NotebookEdit"})
