"""The Claude Code plugin: put it into a home's settings, take it out, and what its hooks do."""
