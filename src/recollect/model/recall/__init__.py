"""The meaning of a question: its words, how much each says, and how sessions are ranked by them."""
