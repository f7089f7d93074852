"""Settings, flags, config files and MCP entries that apply in a directory."""
