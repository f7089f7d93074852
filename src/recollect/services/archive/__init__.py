"""Keep sessions for good: compressed copies, clean-up of what was copied."""
