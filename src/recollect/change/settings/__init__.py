"""Settings, flags and config files that apply in a directory."""
