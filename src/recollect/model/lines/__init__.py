"""What a line of a log means: entries, their blocks, and the codec between bytes and entries."""
