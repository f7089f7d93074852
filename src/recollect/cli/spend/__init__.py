"""Commands about tokens and money."""
