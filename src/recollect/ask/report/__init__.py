"""What was done and what it cost, over all sessions."""
