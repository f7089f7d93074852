"""Check sessions and homes for damage and for everything that will stop a resume."""
