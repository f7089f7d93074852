"""The meaning of a search query, and the definition of a word."""
