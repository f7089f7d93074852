"""Ask the past a question: the sessions that answer it best, whichever of its words they use."""
