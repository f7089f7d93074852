"""Find credentials in a home, and remove them from a session."""
