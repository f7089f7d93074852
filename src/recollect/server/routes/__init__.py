"""The routes of the team server."""
