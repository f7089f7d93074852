"""Archive sessions permanently: compressed copies, and clean-up of what was copied."""
