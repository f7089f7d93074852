"""The tools that change a file: one list for permission rules, line counts, statistics and pages."""

EDITING_TOOLS = frozenset({"Edit", "Write", "MultiEdit", "NotebookEdit"})
# What other agents call theirs: counted, but no rule of ours speaks of them.
ANY_EDITING_TOOLS = EDITING_TOOLS | {
    "apply_patch",
    "edit",
    "multiedit",
    "patch",
    "replace",
    "write",
    "write_file",
}
