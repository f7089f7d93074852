"""From entries to the conversation the client would load: graph, chain, turns, API messages."""
