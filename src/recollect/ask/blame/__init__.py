"""Which sessions wrote a file: line by line, and commit by commit."""
