"""Where the documents of a team's page come from: list, search and cost from the server, a session from its copy."""
