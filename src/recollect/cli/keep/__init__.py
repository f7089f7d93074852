"""Commands that keep, label, move and remove sessions."""
