"""The commands of the team server."""
