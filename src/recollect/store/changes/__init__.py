"""Change files of a Claude home with a journal, so that every change can be undone."""
