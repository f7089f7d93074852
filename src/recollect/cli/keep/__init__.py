"""Commands that archive, label, move and remove sessions."""
