"""Commands that find and repair problems."""
