"""Check sessions and homes for damage and for everything that will prevent a resume."""
