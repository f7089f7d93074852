"""Commands that show sessions."""
