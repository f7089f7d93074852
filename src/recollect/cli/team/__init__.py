"""Commands of the team server and of sync."""
