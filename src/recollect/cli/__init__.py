"""The command. One file per command; nothing here is imported before it is needed."""
