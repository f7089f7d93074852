"""What several commands share: output, text, dates, plans."""
