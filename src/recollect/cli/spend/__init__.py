"""Commands about tokens and cost."""
