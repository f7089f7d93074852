"""What a search query means, and what a word is."""
