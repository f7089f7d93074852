"""Find credentials in a home, and take them out of a session."""
