"""Settings, flags, config files and MCP entries that count in a directory."""
