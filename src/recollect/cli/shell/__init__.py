"""Commands for the shell: completion and manual pages."""
