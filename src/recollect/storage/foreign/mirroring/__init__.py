"""What a mirror is made of: its state, its files, the sources of its logs, and how they are kept."""
